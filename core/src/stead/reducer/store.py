"""One session's offloads in one environment: content first, then its record, then (by the caller) the notice."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import AsyncIterable, Coroutine
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, TypeVar

from stead.environment import Environment
from stead.errors import FileExists, FileMissing, NotADirectory, Unavailable
from stead.reducer.calls import Phase, ToolCall
from stead.reducer.names import offload_name
from stead.reducer.records import OffloadRecord, RecordName, hash_text, parse_record_name, record_key

__all__ = ["SessionStore", "new_record", "within"]

T = TypeVar("T")

_BYTES_PER_SECOND = 1_000_000
_CANCEL_GRACE = 1.0
PHASE_FOLDERS: dict[Phase, str] = {"truncate": "trunc", "clear": "clear"}


class SessionStore:
    """Writes and finds the offloads of one session. Safe with several processes on the same session.

    Content names come from the content, records from what they say, and both are written where nothing is, so two
    processes that do the same work write the same files, and other work never meets them.
    """

    def __init__(self, environment: Environment, *, root_dir: str, session: str, timeout: float) -> None:
        self.environment = environment
        self.session = session
        self.folder = f"{root_dir.rstrip('/')}/{session}"
        self._timeout = timeout
        self._loading: asyncio.Task[None] | None = None
        self._by_key: dict[str, RecordName] = {}
        self._by_content: dict[str, RecordName] = {}
        self._by_replacement: dict[str, RecordName] = {}
        self._records: dict[str, OffloadRecord] = {}
        self._stored: dict[str, str] = {}
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.paths: set[str] = set()
        """Paths of the offloads that this process wrote or read the record of."""

    def default_path(self, call: ToolCall, content_hash: str) -> str:
        """`{root_dir}/{session}/trunc/{safe id}-{hash}`, or `clear` in place of `trunc`."""
        return f"{self.folder}/{PHASE_FOLDERS[call.phase]}/{offload_name(call.id, content_hash)}"

    # ---- finding ---------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Learns what the session holds, once, with one listing.

        Raises:
            SteadError: The environment could not be listed.
        """
        if self._loading is None or (self._loading.done() and not _succeeded(self._loading)):
            self._loading = asyncio.create_task(within(self._timeout, self._list()))
        await asyncio.shield(self._loading)

    async def find(self, phase: Phase, call_id: str | None, source_hash: str, ordinal: int = 0) -> OffloadRecord | None:
        """The record of a result that was reduced before, in this process or an earlier one.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        return await self._read(self._by_key.get(record_key(phase, call_id, source_hash, ordinal)))

    async def find_replacement(self, text: str) -> OffloadRecord | None:
        """The record in whose place exactly this text stands. A text that only looks like a notice has none.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        sha = hash_text(text)
        record = await self._read(self._by_replacement.get(sha[:16]))
        return record if record is not None and record.replacement_sha256 == sha else None

    async def _list(self) -> None:
        if not self.environment.capabilities.list_files:
            return
        try:
            async with aclosing(self.environment.list_files(f"{self.folder}/records")) as files:
                async for info in files:
                    name = parse_record_name(PurePosixPath(info.path).name)
                    if name is not None:
                        self._index(name)
        except (FileMissing, NotADirectory):
            return

    def _index(self, name: RecordName) -> None:
        self._by_key.setdefault(name.key, name)
        self._by_content.setdefault(name.content, name)
        self._by_replacement.setdefault(name.replacement, name)

    async def _read(self, name: RecordName | None) -> OffloadRecord | None:
        if name is None:
            return None
        if name.file_name not in self._records:
            try:
                read = self.environment.read_file(f"{self.folder}/records/{name.file_name}")
                record = OffloadRecord.from_json(await within(self._timeout, read))
            except FileMissing:  # Expired by another process since the listing.
                return None
            if record is None:
                return None
            self._remember(record)
        return self._records[name.file_name]

    def _remember(self, record: OffloadRecord) -> None:
        self._records[record.file_name()] = record
        self.paths.add(record.path)

    # ---- writing ---------------------------------------------------------------------------------------------------

    async def put(self, call: ToolCall, content: bytes, path: str | None = None) -> str:
        """Stores content where nothing else is; equal content of the session is stored once.

        Args:
            call: Whose content it is; its phase chooses the folder.
            content: What to store.
            path: Where; None is the default path.

        Returns:
            The path.

        Raises:
            FileExists: Other content lies at `path`.
            SteadError: The environment could not store it, or not in time.
        """
        await self.load()
        sha = hashlib.sha256(content).hexdigest()
        async with self._writing[sha]:
            if path in (None, self._stored.get(sha)) and sha in self._stored:
                return self._stored[sha]
            known = await self._read(self._by_content.get(sha[:16]))
            if known is not None and known.sha256 == sha and path in (None, known.path) and await self._is_there(known):
                return known.path
            target = path or self.default_path(call, sha)
            seconds = self._timeout + len(content) / _BYTES_PER_SECOND
            try:
                await within(seconds, self._write_new(target, content))
            except FileExists:
                if path is not None:
                    raise
                # Somebody tampered with our file: ours goes beside it.
                target = f"{target}-{sha[16:32]}"
                await within(seconds, self._write_new(target, content))
            self._stored[sha] = target
            return target

    async def record(self, record: OffloadRecord) -> None:
        """Writes a record; afterwards the session knows it.

        Raises:
            SteadError: The environment could not store it, or not in time.
        """
        name = record.file_name()
        write = self.environment.write_file(f"{self.folder}/records/{name}", record.to_json())
        await within(self._timeout, write)
        self._remember(record)
        parsed = parse_record_name(name)
        if parsed is not None:
            self._index(parsed)

    async def _is_there(self, record: OffloadRecord) -> bool:
        """False if another process expired the content since."""
        if not self.environment.capabilities.stat:
            return False
        try:
            info = await within(self._timeout, self.environment.stat(record.path))
        except FileMissing:
            return False
        return record.encoding != "none" or info.size == record.size

    async def _write_new(self, path: str, content: bytes) -> None:
        create_only = self.environment.capabilities.create_only
        if not create_only and not await self._is_free(path, content):
            return
        try:
            await self.environment.write_file(path, content, if_absent=create_only)
        except FileExists:
            if await self._is_free(path, content):
                raise  # It vanished in between: the caller's next try will tell.

    async def _is_free(self, path: str, content: bytes) -> bool:
        """True if nothing is at the path, False if exactly this content is.

        Raises:
            FileExists: Other content is there.
        """
        try:
            async with aclosing(self.environment.read_file_stream(path)) as chunks:
                if await _starts_and_ends_with(chunks, content):
                    return False
        except FileMissing:
            return True
        raise FileExists(f"other content lies at {path!r}; an offload never replaces it", path=path)


async def _starts_and_ends_with(chunks: AsyncIterable[bytes], content: bytes) -> bool:
    position = 0
    async for chunk in chunks:
        if content[position : position + len(chunk)] != chunk:
            return False
        position += len(chunk)
    return position == len(content)


def new_record(call: ToolCall, *, session: str, path: str, content: bytes, source_hash: str) -> OffloadRecord:
    """A record of now, without a replacement yet.

    Args:
        call: Whose content was stored.
        session: The session's folder name.
        path: Where it is.
        content: What was stored.
        source_hash: Hash of the result as the tool returned it.
    """
    return OffloadRecord(
        session=session,
        phase=call.phase,
        tool=call.name,
        call_id=call.id,
        ordinal=0,
        path=path,
        size=len(content),
        characters=len(content.decode(errors="replace")),
        sha256=hashlib.sha256(content).hexdigest(),
        source_sha256=source_hash,
        time=datetime.now(UTC).isoformat(),
    )


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` for at most `seconds`, also if it does not let itself be cancelled.

    Args:
        seconds: Until `work` is cancelled.
        work: A coroutine; it runs as a task of its own.

    Raises:
        Unavailable: The time is over.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if task.done():
        return task.result()
    await _stop(task)
    raise Unavailable(f"the environment did not finish within {seconds:g} seconds; the offload was given up")


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task], timeout=_CANCEL_GRACE)
    task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    # Looked at, so that asyncio does not report the error of a task that was given up.
    if not task.cancelled():
        task.exception()


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None
