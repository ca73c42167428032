"""Large files in little memory, measured in a process of its own. STEAD_SCALE=1 is full size; CI runs a tenth."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
LIMIT_MB = 24

MEASURE = """
    import asyncio, json, os, sys
    import stead
    from stead.results import LineRange
    from stead_local import LocalEnvironment

    def peak():
        with open("/proc/self/status") as status:
            return int(next(line.split()[1] for line in status if line.startswith("VmHWM"))) / 1024

    async def main(root):
        async with LocalEnvironment(root) as env:
            read = stead.tools.toolset(env)["ReadFile"]
            await env.write_file("tiny", "x\\n")
            await read(path="tiny")
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            before = peak()
            answer = await measured(env, read)
            return {"megabytes": peak() - before, "answer": answer}
"""


def measure(root, body: str) -> dict:
    program = textwrap.dedent(MEASURE) + textwrap.dedent(body) + "\nprint(json.dumps(asyncio.run(main(sys.argv[1]))))\n"
    done = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def log(tmp_path):
    """Numbered lines of 75 bytes."""
    path = tmp_path / "log"
    total = int(SCALE * (1 << 30)) // 75
    with path.open("wb") as file:
        for start in range(0, total, 100_000):
            file.write(
                b"".join(b"%08d %s\n" % (n, b"x" * 65) for n in range(start + 1, min(start + 100_000, total) + 1))
            )
    yield path, total
    path.unlink()


@pytest.mark.slow
def test_a_page_of_a_large_log_needs_little_memory(log):
    """Lines from the middle of a log of up to 1 GiB, with the exact total: under 24 MB above the idle environment."""
    path, total = log
    first = int(total * 0.35)
    found = measure(
        path.parent,
        f"""
        async def measured(env, read):
            return await read(path="log", start_line={first}, end_line={first + 100}, )
        """,
    )

    assert found["megabytes"] < LIMIT_MB
    assert found["answer"]["total_lines"] == total
    assert [int(line.split()[1]) for line in found["answer"]["content"].splitlines()] == list(range(first, first + 101))


@pytest.mark.slow
def test_streaming_a_large_log_needs_little_memory(log):
    """All bytes of the log pass in bounded memory."""
    path, _ = log
    found = measure(
        path.parent,
        """
        async def measured(env, read):
            size = 0
            async for chunk in env.read_file_stream("log"):
                size += len(chunk)
            return size
        """,
    )

    assert (found["answer"], found["megabytes"] < LIMIT_MB) == (path.stat().st_size, True)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "界"])
def test_one_giant_line_is_paged_to_its_end_in_little_memory(tmp_path, unit):
    """A line of up to 500 MB: a bounded page, the exact total, and pages by start_column to its last character."""
    piece = unit.encode() * (1_000_000 // len(unit.encode()))
    count = int(SCALE * 500)
    with (tmp_path / "line").open("wb") as file:
        for _ in range(count):
            file.write(piece)
        file.write(b"END")
    characters = count * len(piece.decode()) + 3
    found = measure(
        tmp_path,
        f"""
        async def measured(env, read):
            pages = [await read(path="line")]
            for column in ({characters // 2}, {characters - 10_000}):
                pages.append(await read(path="line", start_column=column))
            return pages
        """,
    )
    (tmp_path / "line").unlink()
    first, middle, last = found["answer"]

    assert found["megabytes"] < LIMIT_MB
    assert (first["total_lines"], first["truncated"], len(first["content"])) == (1, True, 30_000)
    assert (first["next_start_line"], first["next_start_column"]) == (1, 30_000 - 7 + 1)
    assert middle["next_start_column"] == characters // 2 + 30_000 - 7
    assert (last["truncated"], last["content"][-4:], last["has_more"]) == (False, unit + "END", False)


@pytest.mark.slow
def test_a_streamed_write_needs_little_memory(tmp_path):
    """An async iterator of up to 512 MB is written in bounded memory."""
    size = int(SCALE * 512)
    found = measure(
        tmp_path,
        f"""
        async def pieces():
            for _ in range({size}):
                yield b"w" * 1_000_000
        async def measured(env, read):
            return (await env.write_file("big", pieces())).size
        """,
    )
    (tmp_path / "big").unlink()

    assert (found["answer"], found["megabytes"] < LIMIT_MB) == (size * 1_000_000, True)
