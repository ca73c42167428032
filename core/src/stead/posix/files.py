"""Stat, list, delete and write on a machine."""

import asyncio
import posixpath
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Coroutine
from pathlib import PurePosixPath
from typing import Any, TypeVar

from stead.adapt import closing_pieces, content_bytes
from stead.environment import Content, PathLike
from stead.errors import IsADirectory, NotADirectory, SteadError, Unavailable
from stead.paths import split_path
from stead.posix.answers import Facts, file_info, raise_status
from stead.posix.calls import Caller, pause_before
from stead.results import FileInfo

__all__ = ["PosixFiles", "finished", "shown_path"]

T = TypeVar("T")
_PIECE = 256 << 10
_CHECKED_FIRST = 1 << 20
"""From this size on, what would refuse a write is asked before the content is sent."""
_STORE_TRIES = 3
_COMMIT_SECONDS = 120.0
"""Seconds that putting a file into place may take: from another file system it is copied."""
_FINISH_SECONDS = 10.0
TEMPORARY_PREFIX = ".stead-tmp-"


class PosixFiles:
    """File methods but for reading, over a `Caller`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def stat(self, path: PathLike) -> FileInfo:
        """See `Environment.stat`."""
        text = split_path(path).text
        reply = await self._caller.call("stat", {"PATH": text})
        if reply.status != "ok":
            self._raise(reply.status, "stat", text)
        (kind, place), rest = reply.fields(2)
        if not rest:
            self._raise("missing", "stat", text)
        facts = Facts.of(rest.decode())
        if split_path(path).names_directory and kind != "dir":
            raise self._error(NotADirectory, f"{text!r} is not a directory", "stat", text)
        return file_info(self.shown(path, place), facts)

    async def list(self, path: PathLike, *, recursive: bool) -> AsyncGenerator[FileInfo, None]:
        """See `Environment.list_files`."""
        text = split_path(path).text
        mark = secrets.token_hex(8)
        reply = await self._caller.call(
            "list", {"PATH": text, "RECURSIVE": "1" if recursive else "", "SEPARATOR": f"\n@{mark} "}
        )
        if reply.status != "ok":
            self._raise(reply.status, "list_files", text)
        place, *records = reply.data.split(f"\n@{mark} ".encode())
        if not records or records.pop() != b"end":
            raise self._error(Unavailable, f"the listing of {text!r} arrived in part", "list_files", text)
        found = place.decode("utf-8", "surrogateescape")
        folder = PurePosixPath(self.shown(path, found))
        scratch = folder / posixpath.relpath(self._caller.place.scratch, found)
        for info in sorted((_entry(folder, record) for record in records), key=lambda info: info.path):
            entry = PurePosixPath(info.path)
            if not (entry.name.startswith(TEMPORARY_PREFIX) or entry.is_relative_to(scratch)):
                yield info

    async def delete(self, path: PathLike) -> None:
        """See `Environment.delete_file`."""
        parts = split_path(path)
        asked = secrets.token_hex(8)
        slash = "1" if parts.names_directory else ""
        reply = await self._caller.call("delete", {"PATH": parts.text, "SLASH": slash, "ASKED": asked})
        self._caller.drop(f"done-{asked}")
        if reply.status != "ok":
            self._raise(reply.status, "delete_file", parts.text)

    @staticmethod
    def prepare(path: PathLike, content: Content) -> bytes | AsyncIterable[bytes]:
        """Checks and copies what is to be written, before anything is awaited: a caller may reuse its buffer.

        Raises:
            TypeError: The path or the content is of another type.
            InvalidPath: No file can have that path.
            UnicodeEncodeError: A lone surrogate.
        """
        split_path(path)
        return content if isinstance(content, AsyncIterable) else content_bytes(content)

    async def write(
        self,
        path: PathLike,
        content: bytes | AsyncIterable[bytes],
        *,
        if_absent: bool = False,
        if_version: str | None = None,
    ) -> FileInfo:
        """See `Environment.write_file`. The content is sent to a file of ours and then moved into place.

        Args:
            path: The file.
            content: What `prepare` made of it.
            if_absent: Only make a new file.
            if_version: Only replace this version; an empty text is no version of any file.
        """
        if isinstance(content, bytes):
            return await self._write(path, content, if_absent=if_absent, if_version=if_version)
        async with closing_pieces(content) as pieces:
            return await self._write(path, pieces, if_absent=if_absent, if_version=if_version)

    async def _write(
        self, path: PathLike, content: bytes | AsyncIterable[bytes], *, if_absent: bool, if_version: str | None
    ) -> FileInfo:
        text = split_path(path).text
        condition = "none" if if_version == "" else if_version
        target = {"PATH": text, "ABSENT": "1" if if_absent else "", "VERSION": condition or ""}
        if split_path(path).names_directory:
            raise self._error(IsADirectory, f"{text!r} names a directory; give a file name", "write_file", text)
        if isinstance(content, AsyncIterable) or len(content) >= _CHECKED_FIRST:
            reply = await self._caller.call("check", target)
            if reply.status != "ok":
                self._raise(reply.status, "write_file", text)
        upload = secrets.token_hex(8)
        try:
            size = await self._send(upload, content)
            commit = self._caller.call("commit", {**target, "UPLOAD": upload, "SIZE": str(size)}, wait=_COMMIT_SECONDS)
            # Cancelled now, the script would go on by itself: wait, so that the caller finds the old or the new file.
            reply = await finished(commit)
        finally:
            # Only now: while the call may be repeated, it needs to find what it did.
            self._caller.drop(f"up-{upload}", f"done-{upload}", f"doing-{upload}")
        if reply.status != "ok":
            self._raise(reply.status, "write_file", text)
        (_kind, place), rest = reply.fields(2)
        return file_info(self.shown(path, place), Facts.of(rest.decode()))

    async def upload(self, name: str, data: bytes) -> str:
        """Sends a file of ours and returns its path."""
        await self._send(name, data)
        return self._caller.path(f"up-{name}")

    async def _send(self, upload: str, content: bytes | AsyncIterable[bytes]) -> int:
        path = self._caller.path(f"up-{upload}")
        if isinstance(content, bytes):
            return await self._send_bytes(path, content)
        source = _Source(content)
        try:
            first = await anext(source, b"")
            if first:
                await self._caller.unless_closed(self._caller.machine.store(path, _after(first, source)))
        except BaseException:
            # Whatever the service made of a producer that failed: its own error is what the caller wants.
            if source.error is not None:
                raise source.error from None
            raise
        return source.size

    async def _send_bytes(self, path: str, data: bytes) -> int:
        for attempt in range(1, _STORE_TRIES + 1):
            if not data:
                break
            try:
                await self._caller.unless_closed(self._caller.machine.store(path, _sliced(data)))
                break
            except Unavailable as error:
                if attempt == _STORE_TRIES:
                    raise
                await asyncio.sleep(pause_before(attempt, error))
        return len(data)

    def shown(self, path: PathLike, place: str) -> str:
        """Returns the path as the environment tells it: absolute, by the names that the caller used."""
        return shown_path(path, place, self._caller.place.dir)

    def _raise(self, status: str, operation: str, path: str) -> None:
        raise_status(status, backend=self._caller.backend, operation=operation, path=path)

    def _error(self, kind: type[SteadError], message: str, operation: str, path: str) -> SteadError:
        return kind(message, backend=self._caller.backend, operation=operation, path=path)


class _Source:
    """The pieces of a streamed write, counted and cut; remembers the producer's own error."""

    def __init__(self, content: AsyncIterable[bytes]) -> None:
        self._pieces = self._cut(content)
        self.size = 0
        self.error: BaseException | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def _cut(self, content: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            async for given in content:
                data = content_bytes(given, text=False)
                for start in range(0, len(data), _PIECE):
                    piece = data[start : start + _PIECE]
                    self.size += len(piece)
                    yield piece
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for piece in rest:
        yield piece


async def _sliced(data: bytes) -> AsyncGenerator[bytes, None]:
    view = memoryview(data)
    for start in range(0, len(data), _PIECE):
        yield bytes(view[start : start + _PIECE])


async def finished(call: Coroutine[Any, Any, T]) -> T:
    """Awaits a call that must not be left half-way: a cancellation waits for its end, at most ten seconds.

    Raises:
        CancelledError: It was cancelled meanwhile.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_FINISH_SECONDS)
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()  # retrieved: the cancellation is what the caller hears of
        raise


def shown_path(path: PathLike, place: str, working_dir: str) -> str:
    """Returns a path absolute, by the names that were given; by its physical place where `..` could mean either."""
    parts = split_path(path)
    if ".." in parts.parts:
        return place
    return str(PurePosixPath("/" if parts.absolute else working_dir, *parts.parts))


def _entry(folder: PurePosixPath, record: bytes) -> FileInfo:
    # `FACTS ./NAME`, where facts are `0` for a link that leads nowhere.
    *bars, last = record.removesuffix(b"\n").split(b"|", 6) if not record.startswith(b"0 ") else (record[:-1],)
    end, _, name = last.partition(b" ")
    facts = b"|".join([*bars, end])
    path = str(folder / name.removeprefix(b"./").decode("utf-8", "surrogateescape"))
    try:
        path.encode()
    except UnicodeEncodeError:
        # No method can be given such a name: it is shown, with what can be shown of it.
        return FileInfo(path=path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), kind="other")
    return FileInfo(path=path, kind="other") if facts == b"0" else file_info(path, Facts.of(facts.decode()))
