"""Peak memory is measured by the kernel, also where a process cannot reset its own peak."""

import asyncio

import pytest

from stead.conformance import peak

MIB = 1 << 20


def grown(size):
    """Measures a block that holds `size` bytes."""

    async def run():
        async with peak.Peak()() as growth:
            bytearray(b"x") * size
        return growth.bytes

    return asyncio.run(run())


def test_counts_what_was_held():
    """A block that held 64 MiB for a moment grew by about that, one that held nothing by next to nothing."""
    assert 60 * MIB < grown(64 * MIB) < 80 * MIB
    assert grown(1) < 4 * MIB


def test_earlier_peak_does_not_hide_a_later_one():
    """What was held and returned before the block does not count for it."""
    data = bytearray(200 * MIB)
    del data

    assert 60 * MIB < grown(64 * MIB) < 80 * MIB


@pytest.mark.parametrize(("large", "outcome"), [("read_file", "failed"), ("read_file_stream", "held")])
def test_in_a_child_process(run_suite, large, outcome):
    """Without a peak that can be reset the law is tried in a child process, and says the same."""
    run = run_suite(
        f"""
import pathlib
from stead.conformance import peak
peak._CLEAR = pathlib.Path("/nowhere/clear_refs")

class Mine(MemoryEnvironment):
    async def write_file(self, path, content, **options):
        async for first in content:
            break
        self.size = 64 << 20
        return await super().write_file(path, first)

    async def read_file_stream(self, path, *, offset=0, length=None):
        if "{large}" == "read_file":
            data = b"x" * self.size
            for start in range(0, self.size, 1 << 20):
                yield data[start : start + (1 << 20)]
        else:
            for _ in range(64):
                yield b"x" * (1 << 20)

class TestMine(EnvironmentLaws):
    large_file = 64 << 20

    @pytest.fixture
    def environment(self):
        return Mine()
""",
        "-k",
        "test_stream_bounded_memory",
    )

    assert run.outcomes == {"stream-bounded-memory": outcome}, run.output
