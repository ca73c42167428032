"""One version of an object as a stream: one request, resumed where it was cut, checked at its end."""

import asyncio
from collections import deque
from typing import Protocol

from stead.errors import FileChanged, FileMissing, SteadError, StreamInterrupted
from stead_fsspec.errors import ChecksumMismatch, cut_short
from stead_fsspec.retry import Retry
from stead_fsspec.store import Body, Checksum, Found, Store

__all__ = ["RANGE", "ByteStream", "ObjectStream", "ParallelStream"]

RANGE = 8 << 20
"""Bytes that one of several parallel requests asks for."""


class ByteStream(Protocol):
    """Something that is read to its end, and closed in any case."""

    @property
    def found(self) -> Found | None:
        """The version that is read; None until the first answer."""

    async def next(self) -> bytes:
        """Returns the next bytes; none at the end."""

    async def close(self) -> None:
        """Releases the connection. Idempotent."""


class ObjectStream:
    """The bytes of a range of one version of an object.

    The version is that of the first answer, unless one was given. After a cut the rest of it is asked for: by its pin if
    the store keeps old versions, else under the condition that it is still the same.
    """

    def __init__(
        self, store: Store, key: str, start: int = 0, length: int | None = None, *, version: Found | None = None
    ) -> None:
        """Takes what to read; asks for nothing yet.

        Args:
            store: Where it is.
            key: The object.
            start: First byte.
            length: Most bytes; None is all to the end. More than 0.
            version: Only this version.
        """
        self._store = store
        self._key = key
        self._start = self._position = start
        self._asked = None if length is None else start + length
        self._end = self._asked  # where this version's part of what was asked for ends
        self._whole = start == 0 and length is None
        self._given = version
        self._found = version
        self._body: Body | None = None
        self._skip = 0
        self._checksum: Checksum | None = None
        self._sum = 0
        self._done = False
        self._retry = Retry()

    @property
    def found(self) -> Found | None:
        """The version that is read; None until the first answer."""
        return self._found

    async def next(self) -> bytes:
        """Returns the next bytes of any number; none at the end.

        Raises:
            FileMissing: There is no object. This and the next only before anything was read.
            AccessDenied: The store refused.
            FileChanged: The object was replaced or deleted, and what is missing of the old one cannot be had.
            StreamInterrupted: The body was cut again and again, or its checksum is wrong.
            Unavailable: The store gave no answer.
        """
        while not self._done:
            try:
                if self._body is None:
                    self._body = await self._open()
                chunk = await self._next_of(self._body) if self._body else b""
                if chunk:
                    self._retry.progress()
                    return chunk
                self._done = True
            except SteadError as error:
                await self.close()
                await self._recover(error)
        await self.close()
        return b""

    async def close(self) -> None:
        """Releases the connection. Idempotent."""
        body, self._body = self._body, None
        if body is not None:
            await body.close()

    async def _open(self) -> Body | None:
        body = await self._store.fetch(self._key, self._position, self._end, self._found)
        if body is None:
            if self._found is not None and self._position < self._found.size:
                raise self._changed("is shorter now")
            return None
        if self._found is None:
            self._checksum = body.checksum if self._whole else None
        elif body.found.version != self._found.version:
            await body.close()
            raise self._changed("was replaced")
        self._found = self._found or body.found
        self._end = self._found.size if self._asked is None else min(self._asked, self._found.size)
        # A server that ignores ranges sends all of it: what was not asked for is passed over.
        self._skip = self._position - body.start
        if self._skip < 0:
            await body.close()
            raise StreamInterrupted(f"the store answered with another part of {self._key!r} than was asked for")
        return body

    async def _next_of(self, body: Body) -> bytes:
        assert self._end is not None  # noqa: S101 - known since the body was opened
        while self._position < self._end:
            chunk = await body.read()
            if not chunk:
                raise cut_short(self._key, self._position, self._end)
            if self._skip:
                passed = min(self._skip, len(chunk))
                self._skip -= passed
                chunk = chunk[passed:]
            chunk = chunk[: self._end - self._position]
            if chunk:
                self._position += len(chunk)
                self._add(chunk)
                return chunk
        self._check_sum()
        return b""

    def _add(self, chunk: bytes) -> None:
        if self._checksum is not None:
            self._sum = self._checksum.extend(self._sum, chunk)

    def _check_sum(self) -> None:
        if self._checksum is not None and self._sum != self._checksum.expected:
            raise ChecksumMismatch(
                f"what arrived of {self._key!r} is not what was stored: its checksum is another; read it again"
            )

    async def _recover(self, error: SteadError) -> None:
        """Gets ready for the next try.

        Raises:
            SteadError: There is none.
        """
        begun = self._position > self._start
        if isinstance(error, FileMissing) and self._found is not None:
            sdk, error = error.__cause__, self._changed("was replaced or deleted")
            error.__cause__ = sdk
        if not begun and self._given is None:
            # Nothing was delivered yet: a new version is as good as the old one was.
            error.retryable = error.retryable or isinstance(error, FileChanged)
            if self._found is None or self._found.version is None or isinstance(error, FileChanged):
                self._found, self._end = None, self._asked
        if begun and (self._found is None or self._found.version is None):
            error.retryable = False  # without a version nobody can tell whether the rest belongs to what was read
        await self._retry.pause(error)

    def _changed(self, what: str) -> FileChanged:
        return FileChanged(f"{self._key!r} {what} while it was read; read it again")


class ParallelStream:
    """The same bytes, fetched by several ranged requests at once: for networks where one connection is slow."""

    def __init__(self, store: Store, key: str, start: int, length: int | None, *, requests: int) -> None:
        """Takes what to read; asks for nothing yet.

        Args:
            store: Where it is.
            key: The object.
            start: First byte.
            length: Most bytes; None is all to the end. More than 0.
            requests: How many ranges are asked for at once; memory is this times `RANGE`.
        """
        self._store = store
        self._key = key
        self._next_start = start
        self._stop = None if length is None else start + length
        self._requests = requests
        self._first: ObjectStream | None = ObjectStream(store, key, start, min(RANGE, length or RANGE))
        self._version: Found | None = None
        self._tasks: deque[asyncio.Task[bytes]] = deque()

    @property
    def found(self) -> Found | None:
        """The version that is read; None until the first answer."""
        return self._version

    async def next(self) -> bytes:
        """Returns the next bytes; as `ObjectStream.next`.

        Raises:
            SteadError: As `ObjectStream.next`.
        """
        if self._first is not None:
            chunk = await self._first.next()
            self._go_on(self._first.found)
            if chunk:
                return chunk
            self._first = None
        if not self._tasks:
            return b""
        data = await self._tasks[0]
        self._tasks.popleft()
        self._fill()
        return data

    async def close(self) -> None:
        """Ends all requests. Idempotent."""
        if self._first is not None:
            await self._first.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not report it as lost
        self._tasks.clear()

    def _go_on(self, found: Found | None) -> None:
        if found is None or self._version is not None:
            return
        self._version = found
        self._stop = found.size if self._stop is None else min(self._stop, found.size)
        self._next_start += RANGE
        self._fill()

    def _fill(self) -> None:
        while self._stop is not None and self._next_start < self._stop and len(self._tasks) < self._requests - 1:
            length = min(RANGE, self._stop - self._next_start)
            self._tasks.append(asyncio.create_task(self._fetch(self._next_start, length)))
            self._next_start += length

    async def _fetch(self, start: int, length: int) -> bytes:
        stream = ObjectStream(self._store, self._key, start, length, version=self._version)
        parts = []
        try:
            while chunk := await stream.next():
                parts.append(chunk)
        finally:
            await stream.close()
        return b"".join(parts)
