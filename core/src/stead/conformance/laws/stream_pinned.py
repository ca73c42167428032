"""Laws about ranges, and about a file that changes while it is streamed: one version, or an error."""

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from stead.conformance.doors import Fault, Faults
from stead.conformance.folder import Folder
from stead.conformance.large import large_file
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import sh
from stead.conformance.streams import collect
from stead.environment import Environment
from stead.errors import FileChanged, StreamInterrupted, Unavailable

__all__ = ["PinnedLaws"]

_MIB = 1 << 20
_OLD = b"old " * (8 * _MIB)


class PinnedLaws(LawSettings):
    """Group D, continued, and byte ranges (E12)."""

    @law("D16")
    async def test_stream_cut(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A body that ends early is StreamInterrupted, never a short file."""
        await self._interrupted(env, here, faulty, "cut")

    @law("D16")
    async def test_stream_reset(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A connection that breaks in mid-body is an error, or is resumed: never a short or mixed file."""
        await self._interrupted(env, here, faulty, "reset")

    async def _interrupted(self, env: Environment, here: Folder, faulty: Faults, fault: Fault) -> None:
        await env.write_file(here / "a", _OLD)
        async with faulty(fault) as broken:
            for reading in (broken.read_file(here / "a"), collect(broken.read_file_stream(here / "a"))):
                try:
                    found = await reading
                except (StreamInterrupted, Unavailable):
                    continue
                assert found == _OLD

    @law("D17", needs="pinned_read")
    async def test_stream_replaced_midway(self, env: Environment, here: Folder) -> None:
        """A file that is replaced in mid-stream is read as it was, in full, or is FileChanged."""
        await self._changed_midway(env, here, lambda: env.write_file(here / "a", b"new " * (9 * _MIB)))

    @law("D17", needs=("pinned_read", "streaming_read", "execute"))
    async def test_stream_shrunk_midway(self, env: Environment, here: Folder) -> None:
        """A file that is cut short in mid-stream is FileChanged or StreamInterrupted, never silently short."""
        await self._changed_midway(env, here, lambda: sh(env, "head -c 1000000 a > b; cat b > a", here))

    @law("D17", needs=("pinned_read", "streaming_read", "execute"))
    async def test_stream_rewritten_midway(self, env: Environment, here: Folder) -> None:
        """A file that is rewritten in place at the same size in mid-stream is FileChanged, never a mix."""
        rewrite = "tr o n < a > b; dd if=b of=a bs=1048576 conv=notrunc 2>/dev/null"
        await self._changed_midway(env, here, lambda: sh(env, rewrite, here))

    async def _changed_midway(self, env: Environment, here: Folder, change: Callable[[], Awaitable[object]]) -> None:
        await env.write_file(here / "a", _OLD)
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            found = [await anext(chunks)]
            await change()
            try:
                found += [chunk async for chunk in chunks]
            except (FileChanged, StreamInterrupted):
                return
        assert b"".join(found) == _OLD

    @law("D17", needs=("pinned_read", "streaming_read", "execute"))
    async def test_stream_growth_is_no_change(self, env: Environment, here: Folder) -> None:
        """A file that grows in mid-stream, as a log does, is read as it was when the stream opened."""
        await env.write_file(here / "a", _OLD)
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            found = [await anext(chunks)]
            await sh(env, "echo more >> a", here)
            found += [chunk async for chunk in chunks]
        assert b"".join(found) == _OLD

    @law("E12")
    async def test_stream_range(self, env: Environment, here: Folder) -> None:
        """`offset` and `length` give that part of the file: all, first, middle, last, too much, none."""
        data = bytes(range(250)) * 20_000
        await env.write_file(here / "a", data)
        size = len(data)
        for offset, length in ((0, None), (0, 7), (size // 2, 1000), (size - 5, None), (size - 5, 100), (9, 0)):
            found = await collect(env.read_file_stream(here / "a", offset=offset, length=length))
            assert found == data[offset:][:length]

    @law("E12")
    async def test_stream_range_past_end(self, env: Environment, here: Folder) -> None:
        """An offset at or past the end yields nothing, also in an empty file."""
        await env.write_file(here / "a", b"abc")
        await env.write_file(here / "empty", b"")
        for path, offset in ((here / "a", 3), (here / "a", 1 << 40), (here / "empty", 0), (here / "empty", 1)):
            assert await collect(env.read_file_stream(path, offset=offset)) == b""

    @law("E12")
    async def test_stream_range_negative(self, env: Environment, here: Folder) -> None:
        """A negative offset or length is a ValueError at the first step."""
        await env.write_file(here / "a", b"abc")
        for offset, length in ((-1, None), (0, -1)):
            with pytest.raises(ValueError, match="negative"):
                await collect(env.read_file_stream(here / "a", offset=offset, length=length))

    @law("E12", needs="range_read")
    async def test_stream_range_cost(self, env: Environment, here: Folder) -> None:
        """A short range at the end of a large file costs less than a fifth of reading the file."""
        await large_file(env, here / "large", self.large_file)
        started = time.perf_counter()
        async with aclosing(env.read_file_stream(here / "large")) as chunks:
            assert sum([len(chunk) async for chunk in chunks]) == self.large_file
        whole, ranges = time.perf_counter() - started, []
        for _ in range(5):
            started = time.perf_counter()
            found = await collect(env.read_file_stream(here / "large", offset=self.large_file - 1000))
            ranges.append(time.perf_counter() - started)
            assert len(found) == 1000
        assert min(ranges) < whole / 5
