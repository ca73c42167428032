"""What is recorded of one session in one environment: loaded with one listing, read when asked for, kept."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from pathlib import PurePosixPath
from typing import Any, TypeVar

from stead.environment import Environment
from stead.errors import FileMissing, NotADirectory, Unavailable
from stead.reducer.records import Kind, OffloadRecord, RecordIndex, RecordName, parse_record_name

__all__ = ["SessionRecords", "off_loop", "stop", "within"]

T = TypeVar("T")
_log = logging.getLogger(__name__)
_CANCEL_GRACE = 1.0
_AT_ONCE = 16
_IN_THREAD = 1 << 20
_LISTING = 4
"""A listing may take so many times as long as one write: a long session has many records."""


class SessionRecords:
    """The records of one session. Other processes may add to them meanwhile; what was read here stays as it was.

    Attributes:
        environment: Where they are.
        parent: The session's folder; the records have one of their own in it.
        by_path: Records that this process wrote or read, by the path of their content.
    """

    def __init__(self, environment: Environment, *, folder: str, timeout: float) -> None:
        self.environment = environment
        self.parent = folder
        self._folder = f"{folder}/records"
        self._timeout = timeout
        self._loading: asyncio.Task[None] | None = None
        self._index = RecordIndex()
        self._records: dict[RecordName, OffloadRecord] = {}
        self.by_path: dict[str, OffloadRecord] = {}

    async def load(self) -> None:
        """Learns what the session holds, once, with one listing.

        Raises:
            SteadError: The environment could not be listed.
        """
        if self._loading is None or (self._loading.done() and not _succeeded(self._loading)):
            self._loading = asyncio.create_task(within(_LISTING * self._timeout, self._list()))
            self._loading.add_done_callback(_retrieve)
        await asyncio.shield(self._loading)

    def has_call(self, kind: Kind, call_id: str | None) -> bool:
        """True if a record of that kind may exist for a call id. Needs `load`; hashes nothing of the result."""
        return self._index.has_call(kind, call_id)

    async def of_source(
        self, kind: Kind, call_id: str | None, source_hash: str, *, ordinal: int = 0
    ) -> OffloadRecord | None:
        """The record of a result that was reduced before, in this process or an earlier one.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        record = await self._read(self._index.of_source(kind, call_id, ordinal, source_hash))
        return record if record is not None and record.source_sha256 == source_hash else None

    async def of_replacement(self, replacement_hash: str) -> OffloadRecord | None:
        """The record in whose place a text with this hash stands. A text that only looks like a notice has none.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        record = await self._read(self._index.of_replacement(replacement_hash))
        return record if record is not None and record.replacement_sha256 == replacement_hash else None

    async def of_content(self, content_hash: str) -> OffloadRecord | None:
        """A record of that content.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        record = await self._read(self._index.of_content(content_hash))
        return record if record is not None and record.sha256 == content_hash else None

    async def of_path(self, path: str) -> OffloadRecord | None:
        """The record of the content at a path.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        for name in self._index.names():
            if path in self.by_path:
                break
            await self._read(name)
        return self.by_path.get(path)

    async def all(self) -> list[OffloadRecord]:
        """All records, read with bounded concurrency.

        Raises:
            SteadError: The environment could not be read.
        """
        await self.load()
        gate = asyncio.Semaphore(_AT_ONCE)

        async def read(name: RecordName) -> OffloadRecord | None:
            async with gate:
                return await self._read(name)

        found = await asyncio.gather(*(read(name) for name in self._index.names()))
        return [record for record in found if record is not None]

    async def remove(self, record: OffloadRecord) -> None:
        """Removes a record. Nothing happens if another process removed it before.

        Raises:
            SteadError: The environment could not be written.
        """
        name = record.name()
        with suppress(FileMissing):
            await within(self._timeout, self.environment.delete_file(f"{self._folder}/{name}"))
        self._index.remove(name)
        self._records.pop(name, None)
        self.by_path.pop(record.path, None)

    async def add(self, record: OffloadRecord) -> None:
        """Writes a record; afterwards the session knows it.

        Raises:
            SteadError: The environment could not store it, or not in time.
        """
        name = record.name()
        if name not in self._records:
            write = self.environment.write_file(f"{self._folder}/{name}", record.to_json())
            await within(self._timeout, write)
        self._remember(name, record)
        self._index.add(name)

    async def _list(self) -> None:
        if not self.environment.capabilities.list_files:
            return
        try:
            async with aclosing(self.environment.list_files(self._folder)) as files:
                async for info in files:
                    name = parse_record_name(PurePosixPath(info.path).name)
                    if name is not None:
                        self._index.add(name)
        except (FileMissing, NotADirectory):
            return

    async def _read(self, name: RecordName | None) -> OffloadRecord | None:
        if name is None:
            return None
        if name not in self._records:
            try:
                data = await within(self._timeout, self.environment.read_file(f"{self._folder}/{name}"))
            except FileMissing:  # Expired by another process since the listing.
                return None
            record = self._parsed(name, data)
            if record is None:
                return None
            self._remember(name, record)
        record = self._records[name]
        self.by_path.setdefault(record.path, record)  # it may have gone with another record of the same content
        return record

    def _parsed(self, name: RecordName, data: bytes) -> OffloadRecord | None:
        record = OffloadRecord.from_json(data)
        if record is None:
            _log.warning("%s/%s is no record that can be read; it is passed over", self._folder, name)
            self._index.remove(name)
        return record

    def _remember(self, name: RecordName, record: OffloadRecord) -> None:
        self._records[name] = record
        self.by_path[record.path] = record


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
        await stop(task)
        raise
    if task.done():
        return task.result()
    await stop(task)
    raise Unavailable(f"the environment did not finish within {seconds:g} seconds; the offload was given up")


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """Runs `work` at once, or in a thread if it would hold up the loop.

    Args:
        size: Characters or bytes that it goes through.
        work: A function without arguments.
    """
    return await asyncio.to_thread(work) if size > _IN_THREAD else work()


async def stop(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for its end, but not for long."""
    task.cancel()
    await asyncio.wait([task], timeout=_CANCEL_GRACE)
    task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    # Looked at, so that asyncio does not report the error of a task that was given up.
    if not task.cancelled():
        task.exception()


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None
