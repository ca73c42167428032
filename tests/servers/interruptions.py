"""Connections to an object store that stall, break and damage what they carry: the same tests for each backend."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from stead import Environment, FileInfo, LineRange
from stead.errors import StreamInterrupted, Unavailable
from stead.tools import toolset
from stead_fsspec.errors import ChecksumMismatch

__all__ = ["Interruptions"]

Use = Callable[[Any], Awaitable[Any]]


class Interruptions:
    """The tests. They take the fixtures `near` (options, behind the proxy), `proxy` and `quick_retries`."""

    @staticmethod
    def run(options: dict[str, Any], use: Use) -> Any:
        """Runs one coroutine on a fresh environment, closed afterwards."""
        raise NotImplementedError

    @staticmethod
    def is_media(request: Any) -> bool:
        """Says whether a request asks for the bytes of an object."""
        raise NotImplementedError

    @staticmethod
    def pins(request: Any, info: FileInfo) -> bool:
        """Says whether a request asks for one version of an object, and no other."""
        raise NotImplementedError

    def test_stalled_body(self, near, proxy):
        """A body that stops coming is asked for again from there, after `timeout` seconds: there is always a limit."""
        data = bytes(range(256)) * 40_000

        async def use(env):
            await env.write_file("a", data)
            with proxy.fault("stall", after=5_000_000, times=1, matches=self.is_media):
                async with asyncio.timeout(20):
                    assert await env.read_file("a") == data

        self.run({**near, "timeout": 1.0}, use)

    def test_stalled_for_good(self, near, proxy, quick_retries):
        """A body that never comes is Unavailable after five times `timeout` and the pauses between."""

        async def use(env):
            await env.write_file("a", "x" * 1000)
            with proxy.fault("stall", matches=self.is_media):
                async with asyncio.timeout(20):
                    with pytest.raises(Unavailable, match="stopped sending"):
                        await env.read_file("a")

        self.run({**near, "timeout": 0.5}, use)

    @pytest.mark.parametrize("action", ["end", "reset"])
    def test_cut_body_is_resumed(self, near, proxy, action):
        """A body that is cut once is resumed by a range of the same version, and comes whole."""
        data = bytes(range(256)) * 40_000

        async def use(env):
            info = await env.write_file("a", data)
            proxy.requests.clear()
            with proxy.fault(action, after=5_000_000, times=1, matches=self.is_media):
                assert await env.read_file("a") == data
            first, second = proxy.requests
            assert "range" not in first.headers
            assert 0 < int(second.headers["range"].removeprefix("bytes=").partition("-")[0]) <= 5_000_000
            assert self.pins(second, info)

        self.run(near, use)

    @pytest.mark.parametrize("action", ["end", "reset"])
    def test_cut_again_and_again(self, near, proxy, quick_retries, action):
        """A body that never gets further is an error after bounded tries: never a short file, by any way of reading."""

        async def use(env):
            await env.write_file("a", b"line\n" * 1000)
            with proxy.fault(action, after=0, matches=self.is_media):
                for call in (env.read_file("a"), _streamed(env), env.read_lines("a", LineRange())):
                    with pytest.raises((StreamInterrupted, Unavailable)):
                        await call
                told = await toolset(env)["ReadFile"](path="a")
            assert told["status"] == "error"

        self.run(near, use)

    def test_progress_resets_the_tries(self, near, proxy, quick_retries):
        """A connection that is cut twenty times gets there, as long as each time brings something."""
        data = bytes(range(256)) * 20_000

        async def use(env):
            await env.write_file("a", data)
            with proxy.fault("reset", after=262_144, times=20, matches=self.is_media) as fault:
                assert await env.read_file("a") == data
            assert fault.hits > 10

        self.run(near, use)

    def test_damaged_body(self, near, proxy):
        """A byte that was changed on its way is ChecksumMismatch, also in a body that was resumed; never wrong content."""
        data = bytes(range(256)) * 40_000

        async def use(env):
            await env.write_file("a", data)
            with proxy.fault("corrupt", after=100, matches=self.is_media), pytest.raises(ChecksumMismatch):
                await env.read_file("a")
            with proxy.fault("reset", after=5_000_000, times=1, matches=self.is_media):
                with proxy.fault("corrupt", after=100, matches=lambda r: self.is_media(r) and "range" in r.headers):
                    with pytest.raises(ChecksumMismatch):
                        await env.read_file("a")

        self.run(near, use)


async def _streamed(env: Environment) -> bytes:
    async with aclosing(env.read_file_stream("a")) as chunks:
        return b"".join([chunk async for chunk in chunks])
