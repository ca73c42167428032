"""Writing an object: in one request if it is small, else in parts, of which nothing is left if it fails."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from stead.adapt import content_bytes
from stead.errors import EnvironmentClosed
from stead_fsspec.store import Condition, Found, Store, Upload

__all__ = ["Watcher", "Writes", "pieces_of", "write_object"]

T = TypeVar("T")

_PARTS_OF_ONE_SIZE = 2_500
"""S3 takes 10,000 parts: after each such number their size doubles, which makes 190 GB of 5 MiB parts."""

_LAST_SECONDS = 15.0


class Watcher(Protocol):
    """Sees what is written."""

    @property
    def notes(self) -> Mapping[str, str]:
        """Metadata to write with an object that is written in parts."""

    def see(self, data: bytes) -> None:
        """Sees the next bytes of an object that is written in parts."""

    async def conclude(self) -> None:
        """Is told that all was seen, before the object appears."""


class Writes:
    """The writes that are under way, so that closing can end them while there still is a connection to clean up by."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Future[None], asyncio.Task[object]] = {}
        self._cancelled: set[asyncio.Future[None]] = set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """What this task does in it is cancelled by `end`.

        Raises:
            EnvironmentClosed: It was.
        """
        task, done = asyncio.current_task(), asyncio.get_running_loop().create_future()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        before = task.cancelling()
        self._running[done] = task
        try:
            yield
        except asyncio.CancelledError:
            # As `asyncio.timeout` does it: the caller's own cancellation stays one.
            if done not in self._cancelled or task.cancelling() - 1 > before:
                raise
            raise EnvironmentClosed("the environment was closed while the file was written") from None
        finally:
            if done in self._cancelled:
                task.uncancel()
            del self._running[done]
            done.set_result(None)

    async def end(self) -> None:
        """Cancels all, and waits until they have removed what they had begun, or for 15 seconds."""
        self._cancelled |= self._running.keys()
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running), timeout=_LAST_SECONDS)


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    """Yields content that is in memory, piece by piece."""
    view = memoryview(data)
    for start in range(0, len(data), size):
        yield bytes(view[start : start + size])


async def write_object(
    store: Store, key: str, content: AsyncIterable[bytes], condition: Condition, watcher: Watcher | None = None
) -> Found:
    """Writes what an iterable yields, in memory for a few parts.

    Args:
        store: Where to.
        key: The object.
        content: Bytes-like pieces.
        condition: Under which it may replace what is there; decided when the object appears.
        watcher: Sees the bytes if they are written in parts.

    Returns:
        What is there now.

    Raises:
        TypeError: A piece is not bytes-like.
        SteadError: It was not written; the parts are removed.
        Exception: What `content` raised, unchanged; the parts are removed.
    """
    writing = _Writing(store, key, condition, watcher)
    try:
        pending = bytearray()
        async for piece in content:
            pending += content_bytes(piece, text=False)
            while len(pending) >= (size := writing.next_size):
                await writing.send(bytes(memoryview(pending)[:size]))
                del pending[:size]
        return await writing.finish(bytes(pending))
    except BaseException:
        await _in_any_case(writing.abort())
        raise


@dataclass(slots=True)
class _Writing:
    store: Store
    key: str
    condition: Condition
    watcher: Watcher | None
    upload: Upload | None = None
    count: int = 0
    under_way: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def next_size(self) -> int:
        return self.store.part_size << (self.count // _PARTS_OF_ONE_SIZE)

    async def send(self, data: bytes) -> None:
        if self.upload is None:
            await self._begin()
        if self.watcher is not None:
            self.watcher.see(data)
        await self._wait_for(self.store.parts_at_once - 1)
        self.count += 1
        assert self.upload is not None  # noqa: S101 - begun above
        self.under_way.add(asyncio.create_task(self.upload.part(self.count, data)))

    async def finish(self, rest: bytes) -> Found:
        if self.upload is None:
            return await self.store.put(self.key, rest, self.condition, {})
        if self.watcher is not None:
            self.watcher.see(rest)
        await self._wait_for(0)
        if self.watcher is not None:
            await self.watcher.conclude()
        return await self.upload.finish(rest)

    async def abort(self) -> None:
        for task in self.under_way:
            task.cancel()
        await asyncio.gather(*self.under_way, return_exceptions=True)
        if self.upload is not None:
            await self.upload.abort()

    async def _begin(self) -> None:
        # A cancelled request may have begun an upload whose name is lost: so its answer is waited for.
        task = asyncio.ensure_future(self.store.begin(self.key, self.condition, self._notes()))
        try:
            self.upload = await asyncio.shield(task)
        except asyncio.CancelledError:
            await _ended(task)
            if not task.cancelled() and task.exception() is None:
                self.upload = task.result()
            raise

    def _notes(self) -> Mapping[str, str]:
        return {} if self.watcher is None else self.watcher.notes

    async def _wait_for(self, most: int) -> None:
        while len(self.under_way) > most:
            done, self.under_way = await asyncio.wait(self.under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()


async def _in_any_case(step: Awaitable[None]) -> None:
    """Sees a step through. Its own errors are dropped: another rises."""
    task = asyncio.ensure_future(step)
    await _ended(task)
    if not task.cancelled():
        task.exception()


async def _ended(task: asyncio.Future[T]) -> None:
    """Waits until a task has ended, however often the caller is cancelled meanwhile."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
