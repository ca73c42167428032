"""Writes the content of offloads of one session. Its record follows, and then (by the caller) the notice."""

import asyncio
import codecs
import hashlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from stead.environment import Environment
from stead.errors import FileExists, FileMissing, Unavailable
from stead.reducer.calls import Phase, ToolCall
from stead.reducer.frames import SUFFIX, FrameWriter
from stead.reducer.names import offload_name
from stead.reducer.pieces import Content, pieces_of
from stead.reducer.reader import OffloadReader
from stead.reducer.records import OffloadRecord, Stored
from stead.reducer.session import SessionRecords, stop, within
from stead.reducer.spool import Spool

__all__ = ["SessionStore"]

_BYTES_PER_SECOND = 1_000_000
_IN_THREAD = 1 << 20
_FOLDERS: dict[Phase, str] = {"truncate": "trunc", "clear": "clear"}


class SessionStore:
    """Stores the offloads of one session. Safe with several processes on the same session.

    A content's name comes from the content and is written where nothing is: two processes that do the same work write
    the same files, and other work never meets them.

    Attributes:
        environment: Where they go.
        folder: The session's folder in it.
        records: What is recorded of the session.
    """

    def __init__(
        self, environment: Environment, *, root_dir: str, session: str, timeout: float, compress: bool = False
    ) -> None:
        self.environment = environment
        self.folder = f"{root_dir.rstrip('/')}/{session}"
        self.records = SessionRecords(environment, folder=self.folder, timeout=timeout)
        self._reader = OffloadReader(environment, self.records)
        self._timeout = timeout
        self._compress = compress
        self._stored: dict[str, Stored] = {}
        self._seen: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def readable(self, path: str) -> Environment:
        """An environment in which a path reads as the text that was stored.

        Args:
            path: Of an offload.
        """
        return self._reader if path.endswith(SUFFIX) else self.environment

    @property
    def text_suffix(self) -> str:
        """Ends the default path of a text."""
        return SUFFIX if self._compress else ""

    def _compresses(self, path: str | None) -> bool:
        """Who names a file `.txt` expects text in it."""
        return self._compress and (path is None or path.endswith(SUFFIX))

    def default_path(self, call: ToolCall, content_hash: str, suffix: str = "") -> str:
        """`{root_dir}/{session}/trunc/{safe id}-{hash}`, or `clear` in place of `trunc`."""
        return f"{self.folder}/{_FOLDERS[call.phase]}/{offload_name(call.id, content_hash)}{suffix}"

    async def put(self, call: ToolCall, content: Content, path: str | None = None, *, suffix: str = "") -> Stored:
        """Stores content where nothing else is; equal content of the session is stored once.

        Args:
            call: Whose content it is; its phase chooses the folder.
            content: What to store.
            path: Where; None is the default path. Only a path that ends in `.zst` is compressed.
            suffix: Ends the default path: a media type's extension. Such content is not compressed.

        Raises:
            FileExists: Other content lies at `path`.
            SteadError: The environment could not store it, or not in time.
        """
        facts = await asyncio.to_thread(_facts, content) if len(content) > _IN_THREAD else _facts(content)
        async with self._locks[facts.sha256]:
            known = await self._known(facts.sha256, path)
            if known is not None:
                return known
            data: Content = content
            if not suffix and self._compresses(path):
                data, frames = await asyncio.to_thread(_compressed, content)
                suffix, facts = SUFFIX, facts._replace(encoding="zstd", frames=frames)
            seconds = self._timeout + facts.size / _BYTES_PER_SECOND
            target = path or self.default_path(call, facts.sha256, suffix)
            try:
                if not await within(seconds, self._write_new(target, data)):
                    facts = facts._replace(adopted=path is not None)
            except FileExists:
                if path is not None:
                    raise
                # Somebody tampered with our file: ours goes beside it.
                target = self.default_path(call, facts.sha256[::-1], suffix)
                await within(seconds, self._write_new(target, data))
            return self._done(facts._replace(path=target))

    async def keeps(self, record: OffloadRecord) -> bool:
        """True if a record's content is still there. A record without it is forgotten, so that it is stored again.

        Looked at once in a process, when the record is first used: a raw history has all its records used each turn.

        Args:
            record: Of this session.

        Raises:
            SteadError: The environment could not be read or written.
        """
        if record.path not in self._seen:
            if not all([await self._exists(path) for path in record.paths]):
                await self.records.remove(record)
                return False
            self._seen.add(record.path)
        return True

    async def place(self, call: ToolCall, content: Content) -> str:
        """Where `put` will store content, unless something else lies there.

        Args:
            call: Whose content it is.
            content: What will be stored.

        Raises:
            SteadError: The environment could not be read.
        """
        facts = await asyncio.to_thread(_facts, content) if len(content) > _IN_THREAD else _facts(content)
        known = await self._known(facts.sha256, None)
        return known.path if known is not None else self.default_path(call, facts.sha256, self.text_suffix)

    async def put_spool(self, call: ToolCall, spool: Spool, path: str | None, ended: asyncio.Event) -> Stored:
        """Stores a growing text as it arrives.

        Args:
            call: Whose content it is.
            spool: Where the text is spooled.
            path: Where to store it; None is a path made from the id and what was spooled so far.
            ended: Set when nothing more will be spooled; the time that the store may take counts from then.

        Raises:
            FileExists: Other content lies at `path`.
            SteadError: The environment could not store it, or not in time.
        """
        suffix = self.text_suffix
        if self.environment.capabilities.create_only:
            try:
                return await self._stream(path or self.default_path(call, spool.sha256, suffix), spool, path, ended)
            except FileExists:
                if path is not None and not await self._in_time(self._holds(path, spool.chunks()), spool):
                    raise
        # The same call began with the same text before, or nothing tells whether a name is free: the whole text
        # names a file that no other text has.
        await ended.wait()
        known = await self._known(spool.sha256, path)
        if known is not None:
            return known
        target = path or self.default_path(call, spool.sha256, suffix)
        if path is not None and await self._exists(path):
            if not await self._in_time(self._holds(path, spool.chunks()), spool):
                raise FileExists(f"other content lies at {path!r}; an offload never replaces it", path=path)
            return self._done(Stored(path, spool.size, spool.characters, spool.sha256, adopted=True))
        return await self._stream(target, spool, path, ended, if_absent=False)

    async def _stream(
        self, target: str, spool: Spool, path: str | None, ended: asyncio.Event, *, if_absent: bool = True
    ) -> Stored:
        writer = FrameWriter() if self._compresses(path) else None
        known: list[Stored] = []

        async def pieces() -> AsyncGenerator[bytes, None]:
            async with aclosing(spool.chunks()) as chunks:
                async for chunk in chunks:
                    piece = chunk if writer is None else await asyncio.to_thread(writer.feed, chunk)
                    if piece:
                        yield piece
            known.extend(filter(None, [await self._known(spool.sha256, path)]))
            if known:
                raise _StoredAlreadyError
            if writer is not None and (rest := writer.finish()):
                yield rest

        write = self.environment.write_file(target, pieces(), if_absent=if_absent)
        try:
            await self._until_stored(write, spool, ended)
        except Exception:
            if known:
                return known[0]
            raise
        stored = Stored(target, spool.size, spool.characters, spool.sha256)
        return self._done(stored if writer is None else stored._replace(encoding="zstd", frames=tuple(writer.sizes)))

    async def _in_time(self, work: Coroutine[Any, Any, bool], spool: Spool) -> bool:
        return await within(self._timeout + spool.size / _BYTES_PER_SECOND, work)

    async def _until_stored(self, write: Coroutine[Any, Any, Any], spool: Spool, ended: asyncio.Event) -> None:
        task = asyncio.create_task(write)
        waiting = asyncio.create_task(ended.wait())
        try:
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            seconds = self._timeout + spool.size / _BYTES_PER_SECOND
            await asyncio.wait([task], timeout=seconds)
            if not task.done():
                raise Unavailable(f"the environment did not finish within {seconds:g} seconds of the output's end")
            await task
        finally:
            await stop(waiting)
            if not task.done():
                await stop(task)

    def _done(self, stored: Stored) -> Stored:
        self._stored[stored.sha256] = stored
        return stored

    async def _known(self, sha: str, path: str | None) -> Stored | None:
        """Where this content is stored already, if it still is."""
        stored = self._stored.get(sha)
        if stored is None and (record := await self.records.of_content(sha)) is not None:
            stored = Stored(record.path, record.size, record.characters, sha, record.encoding, record.frames)
        if stored is None or path not in (None, stored.path) or not await self._exists(stored.path):
            return None
        return stored

    async def _exists(self, path: str) -> bool:
        try:
            if self.environment.capabilities.stat:
                await within(self._timeout, self.environment.stat(path))
            else:
                await within(self._timeout, self.environment.read_file(path))
        except FileMissing:
            return False
        return True

    async def _write_new(self, path: str, content: Content) -> bool:
        """Writes where nothing is; the same content there is as good, and the answer is False.

        Raises:
            FileExists: Other content is there.
        """
        capabilities = self.environment.capabilities
        # A large text is encoded as it is written, where that saves a copy of it.
        whole = content if len(content) <= _IN_THREAD or not capabilities.streaming_write else _each(content)
        if capabilities.create_only:
            try:
                await self.environment.write_file(path, whole, if_absent=True)
                return True
            except FileExists:
                if not await self._holds(path, _each(content)):
                    raise
        elif not await self._exists(path):
            await self.environment.write_file(path, whole)
            return True
        elif not await self._holds(path, _each(content)):
            raise FileExists(f"other content lies at {path!r}; an offload never replaces it", path=path)
        return False

    async def _holds(self, path: str, content: AsyncGenerator[bytes, None]) -> bool:
        """True if the file at the path has exactly this content."""
        async with aclosing(content), aclosing(self.environment.read_file_stream(path)) as there:
            expected = bytearray()
            async for chunk in there:
                while len(expected) < len(chunk):
                    more = await anext(content, None)
                    if more is None:
                        return False
                    expected += more
                if expected[: len(chunk)] != chunk:
                    return False
                del expected[: len(chunk)]
            return not expected and await anext(content, None) is None


class _StoredAlreadyError(Exception):
    """Ends a streamed write whose content, as its end showed, is stored already."""


async def _each(content: Content) -> AsyncGenerator[bytes, None]:
    for piece in pieces_of(content):
        yield piece


def _facts(content: Content) -> Stored:
    hashed, size, characters = hashlib.sha256(), 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces_of(content):
        hashed.update(piece)
        size += len(piece)
        if isinstance(content, bytes):
            characters += len(decoder.decode(piece))
    characters += len(content) if isinstance(content, str) else len(decoder.decode(b"", final=True))
    return Stored("", size, characters, hashed.hexdigest())


def _compressed(content: Content) -> tuple[bytes, tuple[int, ...]]:
    writer = FrameWriter()
    frames = [writer.feed(piece) for piece in pieces_of(content)]
    return b"".join([*frames, writer.finish()]), tuple(writer.sizes)
