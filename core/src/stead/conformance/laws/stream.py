"""Laws about reading in chunks: the same bytes, in bounded memory, of one version, and nothing is left open."""

import asyncio
from contextlib import aclosing

import pytest

from stead.conformance.folder import Folder
from stead.conformance.held import open_files
from stead.conformance.large import large_file
from stead.conformance.law import law
from stead.conformance.peak import Peak
from stead.conformance.settings import LawSettings
from stead.conformance.streams import collect
from stead.environment import Environment
from stead.errors import EnvironmentClosed, FileMissing, IsADirectory, PathOutsideRoot

__all__ = ["StreamLaws"]

_MIB = 1 << 20


class StreamLaws(LawSettings):
    """Group D: the stream."""

    @law("D1")
    async def test_stream_equals_read(self, env: Environment, here: Folder) -> None:
        """The chunks joined are what `read_file` returns."""
        data = bytes(range(251)) * 12_000
        await env.write_file(here / "a", data)
        assert await collect(env.read_file_stream(here / "a")) == await env.read_file(here / "a") == data

    @law("D2")
    async def test_stream_chunks(self, env: Environment, here: Folder) -> None:
        """Every chunk is bytes, and none is empty."""
        await env.write_file(here / "a", b"x" * (3 * _MIB))
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            assert {(type(chunk), len(chunk) > 0) async for chunk in chunks} == {(bytes, True)}

    @law("D3")
    async def test_stream_empty_file(self, env: Environment, here: Folder) -> None:
        """An empty file yields nothing."""
        await env.write_file(here / "a", b"")
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            assert [chunk async for chunk in chunks] == []

    @law("D4", needs="streaming_read")
    async def test_stream_many_chunks(self, env: Environment, here: Folder) -> None:
        """A file of 32 MiB arrives in more than one chunk."""
        await env.write_file(here / "a", b"x" * (32 * _MIB))
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            assert len([len(chunk) async for chunk in chunks]) > 1

    @law("D5", needs="streaming_read")
    async def test_stream_bounded_memory(self, env: Environment, here: Folder, peak: Peak) -> None:
        """Streaming a large file needs less than 32 MiB, whatever its size."""
        await large_file(env, here / "large", self.large_file)
        seen = 0
        async with peak() as growth, aclosing(env.read_file_stream(here / "large")) as chunks:
            async for chunk in chunks:
                seen += len(chunk)
        assert seen == self.large_file
        assert growth.bytes < 32 * _MIB

    @law("D6", needs="streaming_read")
    async def test_stream_first_chunk_early(self, env: Environment, here: Folder, peak: Peak) -> None:
        """The first chunk arrives before the last byte was fetched: until then less than 32 MiB are needed."""
        await large_file(env, here / "large", self.large_file)
        async with peak() as growth, aclosing(env.read_file_stream(here / "large")) as chunks:
            assert 0 < len(await anext(chunks)) < self.large_file
        assert growth.bytes < 32 * _MIB

    @law("D7")
    async def test_stream_characters_across_chunks(self, env: Environment, here: Folder) -> None:
        """A character or a line that spans two chunks survives."""
        for shift in range(4):
            text = "x" * shift + "\u754c\n" * (_MIB // 3)
            await env.write_file(here / "a", text)
            assert (await collect(env.read_file_stream(here / "a"))).decode() == text

    @law("D8")
    async def test_stream_order(self, env: Environment, here: Folder) -> None:
        """Chunks arrive in the order of the file."""
        data = b"".join(b"%07d\n" % n for n in range(1_500_000))
        await env.write_file(here / "a", data)
        assert await collect(env.read_file_stream(here / "a")) == data

    @law("D9")
    async def test_stream_missing(self, env: Environment, here: Folder) -> None:
        """A missing file is FileMissing at the first step, not an empty stream."""
        await here.make(env)
        with pytest.raises(FileMissing):
            await collect(env.read_file_stream(here / "no-such-file"))

    @law("D9")
    async def test_stream_directory(self, env: Environment, here: Folder) -> None:
        """A directory is IsADirectory at the first step."""
        await here.make(env)
        with pytest.raises(IsADirectory):
            await collect(env.read_file_stream(here.path))

    @law("D9")
    async def test_stream_outside(self, env: Environment) -> None:
        """A path that leaves the root is PathOutsideRoot at the first step."""
        with pytest.raises(PathOutsideRoot):
            await collect(env.read_file_stream("../" * 40 + "etc/hostname"))

    @law("D10")
    async def test_stream_early_close(self, env: Environment, here: Folder) -> None:
        """Closing a stream early releases what it held, at once, fifty times over."""
        await env.write_file(here / "a", b"x" * (4 * _MIB))
        before = await _after_one(env, here / "a")
        for _ in range(50):
            async with aclosing(env.read_file_stream(here / "a")) as chunks:
                await anext(chunks)
        assert open_files() <= before

    @law("D11")
    async def test_stream_break(self, env: Environment, here: Folder) -> None:
        """Leaving the loop by `break` or an error releases it too."""
        await env.write_file(here / "a", b"x" * (4 * _MIB))
        before = await _after_one(env, here / "a")
        for _ in range(20):
            with pytest.raises(ZeroDivisionError):
                async with aclosing(env.read_file_stream(here / "a")) as chunks:
                    async for _chunk in chunks:
                        raise ZeroDivisionError
        assert open_files() <= before

    @law("D12")
    async def test_stream_cancel(self, env: Environment, here: Folder) -> None:
        """Cancelling the reader in mid-stream releases it too."""
        await env.write_file(here / "a", b"x" * (4 * _MIB))
        before = await _after_one(env, here / "a")
        for turn in range(20):
            task = asyncio.create_task(collect(env.read_file_stream(here / "a")))
            await asyncio.sleep(turn / 10_000)
            task.cancel()
            await asyncio.wait([task])
        assert open_files() <= before

    @law("D13")
    async def test_stream_usable_after(self, env: Environment, here: Folder) -> None:
        """The environment works as before after a stream was closed early."""
        await env.write_file(here / "a", b"ab" * (2 * _MIB))
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            await anext(chunks)
        await env.write_file(here / "b", "new")
        assert await collect(env.read_file_stream(here / "b")) == b"new"
        assert await env.read_file(here / "a") == b"ab" * (2 * _MIB)

    @law("D14")
    async def test_stream_two_at_once(self, env: Environment, here: Folder) -> None:
        """Two streams of one file do not disturb each other."""
        data = bytes(range(256)) * 16_384
        await env.write_file(here / "a", data)
        streams = (collect(env.read_file_stream(here / "a")) for _ in range(2))
        assert await asyncio.gather(*streams) == [data, data]

    @law("D15")
    async def test_stream_slow_reader(self, env: Environment, here: Folder) -> None:
        """A reader that pauses for two seconds gets the rest."""
        data = bytes(range(256)) * 16_384
        await env.write_file(here / "a", data)
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            first = await anext(chunks)
            await asyncio.sleep(2)
            assert first + b"".join([chunk async for chunk in chunks]) == data

    @law("D19")
    async def test_stream_never_started(self, env: Environment, here: Folder) -> None:
        """A stream that was never stepped holds nothing and reports nothing, not even that the file is missing."""
        await env.write_file(here / "a", b"x" * _MIB)
        before = await _after_one(env, here / "a")
        for path in [here / "a", here / "no-such-file"] * 10:
            await env.read_file_stream(path).aclose()
        assert open_files() <= before

    @law("D20")
    async def test_stream_after_close(self, env: Environment, here: Folder) -> None:
        """A stream of a closed environment is EnvironmentClosed at the first step."""
        await env.write_file(here / "a", "x")
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await collect(env.read_file_stream(here / "a"))

    @law("D20", needs="streaming_read")
    async def test_stream_open_at_close(self, env: Environment, here: Folder) -> None:
        """A stream that is open when its environment closes is EnvironmentClosed at its next step."""
        await env.write_file(here / "a", b"x" * (32 * _MIB))
        async with aclosing(env.read_file_stream(here / "a")) as chunks:
            await anext(chunks)
            await env.close()
            with pytest.raises(EnvironmentClosed):
                await anext(chunks)


async def _after_one(env: Environment, path: str) -> int:
    """Counts open files after a first stream, so that connections kept for reuse are no leak."""
    await collect(env.read_file_stream(path))
    return open_files()
