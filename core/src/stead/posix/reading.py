"""Reading a file of a machine in chunks: one version of it, in bounded memory, resumed where a connection broke.

Small pieces come with the script's answer. Up to 8 MiB, and any part of a larger file, is copied on the machine first and
fetched from the copy. The whole of a larger file is fetched as it is, and compared with what it was afterwards.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from stead.environment import PathLike
from stead.errors import FileChanged, NotADirectory, SteadError, StreamInterrupted, Unavailable, Unsupported
from stead.paths import split_path
from stead.posix.answers import Facts, raise_status
from stead.posix.calls import Caller, Reply, pause_before
from stead.posix.words import LARGEST_NUMBER

__all__ = ["PosixReading"]

_INLINE = 64 << 10
_STAGED = 8 << 20
_CHUNK = 256 << 10
_PROBE = 4096
_TRIES = 4
_PSEUDO_FILE_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class _Piece:
    where: str
    place: str
    before: Facts
    after: Facts
    wanted: int
    staged: str
    probe: bytes
    data: bytes


class _Stream:
    """One read: what it wants, how far it is, and the version it is of."""

    def __init__(self, caller: Caller, path: str, operation: str, offset: int, length: int | None) -> None:
        self._caller, self._path, self._operation = caller, path, operation
        self._offset, self._length = offset, length
        self._position = min(offset, LARGEST_NUMBER)
        self._end = None if length is None else min(offset + length, LARGEST_NUMBER)
        self._pinned: Facts | None = None
        self._tail = b""
        self._failures = 0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yields what is wanted, chunk by chunk."""
        while True:
            piece = await self._next_piece()
            if piece.where == "whole":
                if part := self._of_sizeless(piece):
                    yield part
                return
            if piece.where == "inline":
                if piece.data:
                    yield self._delivered(piece.data)
                return
            async with aclosing(self._fetched(piece)) as chunks:
                async for chunk in chunks:
                    yield chunk
            if self._end is not None and self._position >= self._end and piece.where == "staged":
                return

    async def _next_piece(self) -> _Piece:
        for _ in range(_TRIES):
            piece = await self._ask()
            if piece.where == "whole" and self._pinned is None:
                return piece
            if self._pinned is not None:
                self._check(piece.before, piece.probe)
            if piece.before.same_version(piece.after) or piece.after.grew_from(piece.before):
                self._pinned = piece.before
                if self._end is None or self._end > piece.before.size:
                    # Growth is no change, and no more of it is read.
                    self._end = max(self._position, piece.before.size)
                return piece
        raise self._changed("was rewritten")

    async def _ask(self) -> _Piece:
        probe = min(len(self._tail), _PROBE)
        length = "" if self._end is None else str(max(0, self._end - self._position))
        asked = {"PATH": self._path, "OFFSET": str(self._position), "LENGTH": length, "AFTER": str(probe)}
        reply = await self._caller.call("read", {**asked, "INLINE": str(_INLINE), "STAGED": str(_STAGED)})
        if reply.status != "ok":
            if self._pinned is not None and reply.status == "missing":
                raise self._changed("was removed")
            raise_status(reply.status, backend=self._caller.backend, operation=self._operation, path=self._path)
        piece = _piece_of(reply, probe)
        if piece.staged:
            self._caller.drop(piece.staged.rpartition("/")[2])
        if split_path(self._path).names_directory:
            raise self._error(NotADirectory, f"{self._path!r} ends in '/' but is a file")
        return piece

    def _check(self, now: Facts, probe: bytes) -> None:
        pinned = self._pinned
        if pinned is None or now.same_version(pinned):
            return
        if now.inode != pinned.inode:
            raise self._changed("was replaced")
        if now.size <= pinned.size:
            raise self._changed("shrank" if now.size < pinned.size else "was rewritten")
        if probe != self._tail[-len(probe) :]:
            raise self._changed("was rewritten")

    async def _fetched(self, piece: _Piece) -> AsyncGenerator[bytes, None]:
        """Yields a piece from its copy or from the file itself, as far as it comes."""
        source = piece.staged or piece.place
        start, left = self._position, piece.wanted
        try:
            async with aclosing(self._caller.fetch(source)) as chunks:
                async for chunk in chunks:
                    for at in range(0, min(len(chunk), left), _CHUNK):
                        yield self._delivered(chunk[at : min(at + _CHUNK, left)])
                    left -= min(len(chunk), left)
                    if not left:
                        break
            if left:
                text = f"{self._path!r} ended after {self._position - start} of {piece.wanted} bytes"
                raise self._error(StreamInterrupted, text)  # resumed below, as a broken connection is
        except (Unavailable, StreamInterrupted) as error:
            # Only a whole piece is progress: a connection that always breaks after some bytes is not worth going on with.
            self._failures += 1
            if self._failures >= _TRIES or not (error.retryable or isinstance(error, StreamInterrupted)):
                raise
            await asyncio.sleep(pause_before(self._failures, error))
        else:
            self._failures = 0

    def _delivered(self, data: bytes) -> bytes:
        self._position += len(data)
        self._tail = (self._tail + data[-_PROBE:])[-_PROBE:]
        return data

    def _of_sizeless(self, piece: _Piece) -> bytes:
        """The content of a file that tells no size, such as those in /proc. One that has grown since was empty."""
        if piece.after.size:
            return b""
        if len(piece.data) > _PSEUDO_FILE_LIMIT:
            text = f"{self._path!r} has no size and more than 64 MiB; read it with a command"
            raise self._error(Unsupported, text)
        return piece.data[self._offset :][: self._length]

    def _changed(self, how: str) -> SteadError:
        text = f"{self._path!r} {how} while it was read; read it again when it is no longer written to"
        return self._error(FileChanged, text)

    def _error(self, kind: type[SteadError], text: str) -> SteadError:
        return kind(text, backend=self._caller.backend, operation=self._operation, path=self._path)


def _piece_of(reply: Reply, probe: int) -> _Piece:
    """Takes an answer apart: fields, the bytes before the offset, the piece, and what the file was afterwards."""
    (where, place, before, wanted, staged), rest = reply.fields(5)
    facts = Facts.of(before)
    if where == "whole":
        told, _, data = rest.partition(b"\n")
        return _Piece(where, place, facts, Facts.of(told.decode()), 0, staged, b"", data)
    end = probe + (int(wanted) if where == "inline" else 0)
    try:
        after = Facts.of(rest[end:].decode("ascii"))
    except (UnicodeDecodeError, Unavailable):
        # The file shrank while it was read, so that less came than was announced.
        after = replace(facts, version="", size=-1)
    return _Piece(where, place, facts, after, int(wanted), staged, rest[:probe], rest[probe:end])


class PosixReading:
    """`read_file` and `read_file_stream`, over a `Caller`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def stream(
        self, path: PathLike, *, offset: int, length: int | None, operation: str = "read_file_stream"
    ) -> AsyncGenerator[bytes, None]:
        """See `Environment.read_file_stream`."""
        stream = _Stream(self._caller, split_path(path).text, operation, offset, length)
        async with aclosing(stream.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def read(self, path: PathLike) -> bytes:
        """See `Environment.read_file`."""
        async with aclosing(self.stream(path, offset=0, length=None, operation="read_file")) as chunks:
            return b"".join([chunk async for chunk in chunks])
