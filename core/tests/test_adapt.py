"""Classes of the older contract become environments."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

import stead
from stead.adapt import time_of
from stead.environments import MemoryEnvironment
from stead.errors import PathOutsideRoot, Unsupported
from stead.results import LineRange


class Older:
    """Four methods as they were before ranges, options and FileInfo."""

    working_dir = "/w"

    def __init__(self) -> None:
        self.files = {"/w/f": b"one\ntwo\nthree\n"}
        self.closed = 0
        self.streams_closed = 0

    async def initialize(self):
        self.started = True

    async def close(self):
        self.closed += 1

    async def execute(self, command, *, timeout=None):
        return SimpleNamespace(exit_code=3, stdout=f"ran {command}", stderr=None, timed_out=False)

    async def read_file(self, path):
        return self.files[path]

    async def read_file_stream(self, path):
        try:
            for byte in self.files[path]:
                yield bytes([byte])
        finally:
            self.streams_closed += 1

    async def write_file(self, path, content):
        self.files[path] = content


def test_an_older_class_works_through_the_contract():
    """Ranges, options, results and capabilities are filled in; start and close reach the object once."""
    older = Older()

    async def main():
        async with stead.adapt(older) as env:
            chunks = b"".join([c async for c in env.read_file_stream("f", offset=4, length=3)])
            page = await env.read_lines("f", LineRange(start=2, end=2))
            info = await env.write_file("g", "text")
            result = await env.execute("ls")
            return (
                chunks,
                page.lines,
                page.total_lines,
                info,
                result.exit_code,
                result.stdout,
                result.stderr,
                env.capabilities.declared(),
            )

    assert asyncio.run(main()) == (
        b"two", "two", 3, stead.FileInfo(path="/w/g", kind="file", size=4), 3, "ran ls", "",
        ("execute", "streaming_read", "case_sensitive"),
    )  # fmt: skip
    assert (older.files["/w/g"], older.closed, older.started) == (b"text", 1, True)
    assert older.streams_closed == 2


def test_what_it_cannot_do_is_refused():
    """Conditions and options that the object lacks raise Unsupported; paths follow the one rule."""

    async def main():
        async with stead.adapt(Older()) as env:
            for call in (
                lambda: env.write_file("g", "x", if_absent=True), lambda: env.write_file("g", "x", if_version="1"),
                lambda: env.execute("ls", stdin="x"), lambda: env.stat("f"),
            ):  # fmt: skip
                with pytest.raises(Unsupported):
                    await call()
            with pytest.raises(PathOutsideRoot):
                await env.read_file("../x")
            with pytest.raises(UnicodeEncodeError):
                await env.write_file("g", "\ud800")

    asyncio.run(main())


def test_what_is_no_environment_at_all_is_refused():
    """An object without the required members is a TypeError that names them; an Environment stays itself."""
    with pytest.raises(TypeError, match="read_file, write_file"):
        stead.adapt(SimpleNamespace(working_dir="/"))
    env = MemoryEnvironment()
    assert stead.adapt(env) is env


def test_a_producer_is_closed_when_its_write_fails():
    """What it holds is released at once, not by the garbage collector."""
    closed = []

    async def producer():
        try:
            yield b"a"
            yield "no bytes"
        finally:
            closed.append(True)

    async def main():
        async with MemoryEnvironment() as env:
            pieces = producer()
            with pytest.raises(TypeError):
                await env.write_file("f", pieces)
            assert closed == [True]

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [1e12, -1e11, 1e30, float("nan"), float("inf")])
def test_a_time_that_no_date_can_hold_is_none(seconds):
    """File systems know years beyond 9999; a file of such a time is a file all the same."""
    assert time_of(seconds) is None
    assert time_of(86_400) == datetime(1970, 1, 2, tzinfo=UTC)
