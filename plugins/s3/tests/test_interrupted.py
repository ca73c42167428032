"""Connections that stall, break and damage what they carry."""

import asyncio

import pytest
from s3_support import collect, is_media, run

from stead import LineRange
from stead.errors import StreamInterrupted, Unavailable
from stead.tools import toolset
from stead_fsspec.errors import ChecksumMismatch
from stead_fsspec.store import ANY


def test_stalled_body(near, proxy):
    """A body that stops coming is asked for again from there, after `timeout` seconds."""
    data = bytes(range(256)) * 40_000

    async def use(env):
        await env.write_file("a", data)
        with proxy.fault("stall", after=5_000_000, times=1, matches=is_media):
            async with asyncio.timeout(20):
                assert await env.read_file("a") == data

    run({**near, "timeout": 1.0}, use)


def test_stalled_for_good(near, proxy, quick_retries):
    """A body that never comes is Unavailable after five times `timeout` and the pauses between."""

    async def use(env):
        await env.write_file("a", "x" * 1000)
        with proxy.fault("stall", matches=is_media):
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable, match="stopped sending"):
                    await env.read_file("a")

    run({**near, "timeout": 0.5}, use)


@pytest.mark.parametrize("action", ["end", "reset"])
def test_cut_body_is_resumed(near, proxy, action):
    """A body that is cut once is resumed by a range of the same version, and comes whole."""
    data = bytes(range(256)) * 40_000

    async def use(env):
        info = await env.write_file("a", data)
        proxy.requests.clear()
        with proxy.fault(action, after=5_000_000, times=1, matches=is_media):
            assert await env.read_file("a") == data
        first, second = proxy.requests
        assert "range" not in first.headers
        begin = int(second.headers["range"].removeprefix("bytes=").partition("-")[0])
        assert 0 < begin <= 5_000_000
        assert second.headers["if-match"] == f'"{info.version}"'

    run(near, use)


@pytest.mark.parametrize("action", ["end", "reset"])
def test_cut_again_and_again(near, proxy, quick_retries, action):
    """A body that never gets further is an error after bounded tries: never a short file, by any way of reading."""

    async def use(env):
        await env.write_file("a", b"line\n" * 1000)
        with proxy.fault(action, after=0, matches=is_media):
            for call in (env.read_file("a"), collect(env.read_file_stream("a")), env.read_lines("a", LineRange())):
                with pytest.raises((StreamInterrupted, Unavailable)):
                    await call
            told = await toolset(env)["ReadFile"](path="a")
        assert told["status"] == "error"

    run(near, use)


def test_progress_resets_the_tries(near, proxy, quick_retries):
    """A connection that is cut twenty times gets there, as long as each time brings something."""
    data = bytes(range(256)) * 20_000

    async def use(env):
        await env.write_file("a", data)
        with proxy.fault("reset", after=262_144, times=20, matches=is_media) as fault:
            assert await env.read_file("a") == data
        assert fault.hits > 10

    run(near, use)


def test_damaged_body(near, proxy):
    """A byte that was changed on its way is ChecksumMismatch, also in a body that was resumed; never wrong content."""
    data = bytes(range(256)) * 40_000

    async def use(env):
        await env.write_file("a", data)
        with proxy.fault("corrupt", after=100, matches=is_media), pytest.raises(ChecksumMismatch):
            await env.read_file("a")
        with proxy.fault("reset", after=5_000_000, times=1, matches=is_media):
            with proxy.fault("corrupt", after=100, matches=lambda r: is_media(r) and "range" in r.headers):
                with pytest.raises(ChecksumMismatch):
                    await env.read_file("a")

    run(near, use)


def test_damaged_write(near, proxy):
    """The store compares what it gets with its checksum: what is damaged on its way is not stored."""

    async def use(env):
        await env.write_file("a", "old")
        upload = await env._store.begin(env._key("a"), ANY, {})
        await upload.part(1, b"x" * (5 << 20))
        upload._sums[1] = (upload._sums[1][0] ^ 1, upload._sums[1][1])
        with pytest.raises(Unavailable, match="damaged"):
            await upload.finish(b"rest")
        await upload.abort()
        assert await env.read_file("a") == b"old"

    run(near, use)
