"""Reading lines out of large files: stead against `wc`, `sed` and peers, in one run, as ratios.

    python tests/benchmarks/bench_read.py [--peers PYTHON]

`--peers` names a Python that has google-adk, deepagents or inspect-ai installed; those that are missing are reported as
absent. STEAD_SCALE=1 is 1 GiB; the default is a tenth.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from stead import LineRange
from stead.tools import toolset
from stead_local import LocalEnvironment

SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
ROUNDS = 5


def rss_peak_kb() -> int:
    """The peak resident size since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def reset_peak() -> int:
    """Starts a new peak, and returns where it starts."""
    Path("/proc/self/clear_refs").write_text("5")
    return rss_peak_kb()


def make_log(path: Path, size: int) -> int:
    """Writes lines of 75 bytes; returns their number."""
    total = size // 75
    with path.open("wb") as file:
        for start in range(0, total, 100_000):
            file.write(b"".join(b"%08d %s\n" % (n, b"x" * 65) for n in range(start, min(start + 100_000, total))))
    return total


def make_line(path: Path, size: int) -> None:
    """Writes one line without an end."""
    with path.open("wb") as file:
        for _ in range(size // 1_000_000):
            file.write(b"a" * 1_000_000)


def seconds_of(command: list[str]) -> float:
    """How long a system tool takes."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    await call()
    return time.perf_counter() - start


def show(name: str, value: str) -> None:
    """One line of the report."""
    print(f"  {name:<58} {value}", flush=True)


async def bench_log(folder: Path, lines: int) -> float:
    """A page in the middle with the exact total: cold, repeated, and the memory it takes. Returns the median."""
    first, log = int(lines * 0.35), str(folder / "log")
    cold, ratios, sed, peaks = [], [], [], []
    for _ in range(ROUNDS):
        async with LocalEnvironment(folder) as env:
            window = LineRange(start=first, end=first + 100)
            base = reset_peak()
            cold.append(await timed(partial(env.read_lines, "log", window)))
            peaks.append((rss_peak_kb() - base) / 1024)
            wc = seconds_of(["wc", "-l", log])
            ratios.append(cold[-1] / wc)
            sed.append(cold[-1] / seconds_of(["sed", "-n", f"{first},{first + 100}p;{first + 100}q", log]))
            again = await timed(lambda: env.read_lines("log", LineRange(start=lines // 2, end=lines // 2 + 100)))
    show("page in the middle, exact total: seconds (median)", f"{statistics.median(cold):.3f}")
    show("... against `wc -l` (median of pairs)", f"{statistics.median(ratios):.2f} x")
    show("... against `sed -n A,Bp;Bq`, which does not count", f"{statistics.median(sed):.2f} x")
    show("... peak memory above the idle environment", f"{max(peaks):.1f} MB")
    show("second page", f"{again * 1000:.2f} ms")
    return statistics.median(cold)


async def bench_pages(folder: Path, lines: int) -> None:
    """A file read whole in pages of 2,000 lines, in random order, through the tool."""
    async with LocalEnvironment(folder) as env:
        read = toolset(env, max_output_chars=200_000)["ReadFile"]
        starts = list(range(1, lines, 2000))
        random.Random(1).shuffle(starts)
        times = [await timed(lambda s=start: read(path="pages", start_line=s, end_line=s + 1999)) for start in starts]
    show(
        f"{len(starts)} random pages of 2,000 lines through ReadFile",
        f"{statistics.median(times[1:]) * 1000:.2f} ms median",
    )
    show("... the slowest after the first", f"{max(times[1:]) * 1000:.2f} ms")
    middle = lines // 2
    show(
        "... `sed` for one in the middle",
        f"{seconds_of(['sed', '-n', f'{middle},{middle + 1999}p;{middle + 1999}q', str(folder / 'pages')]) * 1000:.1f} ms",
    )


async def bench_line(folder: Path, size: int) -> None:
    """One giant line: the first page, then pages all along it."""
    async with LocalEnvironment(folder) as env:
        base = reset_peak()
        first = await timed(lambda: env.read_lines("line", LineRange()))
        columns = [size * step // 20 + 1 for step in range(20)] + [size - 29_999]
        pages = [await timed(lambda c=column: env.read_lines("line", LineRange(start_column=c))) for column in columns]
        peak = (rss_peak_kb() - base) / 1024
    show(f"one line of {size / 1e6:.0f} MB, first page", f"{first:.3f} s")
    show("... pages by start_column, the slowest", f"{max(pages) * 1000:.2f} ms")
    show("... peak memory above the idle environment", f"{peak:.1f} MB")


async def bench_small(folder: Path) -> None:
    """1 KB files against a bare thread that opens, reads or writes and renames by hand."""
    name, data = folder / "small", b"x" * 1024
    name.write_bytes(data)

    def read() -> bytes:
        with name.open("rb") as file:
            return file.read()

    def write() -> None:
        other = folder / "small.tmp"
        with other.open("wb") as file:
            file.write(data)
        other.replace(name)

    async with LocalEnvironment(folder) as env:
        pairs: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]] = {
            "read_file": (lambda: env.read_file("small"), lambda: asyncio.to_thread(read)),
            "write_file": (lambda: env.write_file("small", data), lambda: asyncio.to_thread(write)),
        }
        for label, (ours, bare) in pairs.items():
            ratios = []
            for _ in range(ROUNDS):
                mine = sum([await timed(ours) for _ in range(200)])
                ratios.append(mine / sum([await timed(bare) for _ in range(200)]))
            show(f"{label} of 1 KB against a bare thread", f"{statistics.median(ratios):.2f} x")


PEER = r"""
import asyncio, importlib, json, sys, time
def peak():
    return int(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM'))) / 1024
async def adk(folder, first):
    from google.adk.environment._local_environment import LocalEnvironment
    from google.adk.tools.environment._read_file_tool import ReadFileTool
    from pathlib import Path
    env = LocalEnvironment(working_dir=Path(folder)); await env.initialize()
    tool = ReadFileTool(env)
    base = peak(); start = time.perf_counter()
    result = await tool.run_async(args={'path': 'log', 'start_line': first, 'end_line': first + 100}, tool_context=None)
    assert str(first - 1) in str(result), str(result)[:200]
    return time.perf_counter() - start, peak() - base
async def inspect_ai(folder, first):
    from inspect_ai import tool  # its read tool runs awk in the sandbox: the same program, measured without the sandbox
    import subprocess
    program = f'NR >= {first} && NR <= {first + 100} {{ printf "%d\\t%s\\n", NR, $0 }} NR > {first + 100} {{ exit }}'
    base = peak(); start = time.perf_counter()
    out = subprocess.run(['awk', program, folder + '/log'], capture_output=True, check=True).stdout
    assert out.count(b'\\n') == 101
    return time.perf_counter() - start, peak() - base
async def deepagents(folder, first):
    from deepagents.backends import FilesystemBackend
    backend = FilesystemBackend(root_dir=folder, virtual_mode=True, max_file_size_mb=4096)
    base = peak(); start = time.perf_counter()
    result = backend.read('/log', offset=first - 1, limit=101)
    assert str(first - 1) in str(result), str(result)[:200]
    return time.perf_counter() - start, peak() - base
name, folder, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
try:
    seconds, megabytes = asyncio.run(globals()[name](folder, first))
    print(json.dumps({'seconds': seconds, 'megabytes': megabytes}))
except ImportError as error:
    print(json.dumps({'absent': str(error)}))
"""


def bench_peers(python: str, folder: Path, lines: int, ours: float) -> None:
    """The same page through the read tools of peers, each in a process of its own."""
    for name in ("adk", "deepagents", "inspect_ai"):
        done = subprocess.run(
            [python, "-c", PEER, name, str(folder), str(int(lines * 0.35))], capture_output=True, text=True, check=False
        )
        try:
            result = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            show(name, f"failed: {done.stderr.strip().splitlines()[-1:]}")
            continue
        if "absent" in result:
            show(name, f"absent: {result['absent']}")
        else:
            show(
                name,
                f"{result['seconds']:.2f} s = {result['seconds'] / ours:.1f} x ours, +{result['megabytes']:.0f} MB",
            )


def main() -> None:
    """Runs everything in a temporary folder and removes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a Python with the peers installed")
    arguments = parser.parse_args()
    try:
        import stringzilla  # noqa: F401 - only whether it is there

        counter = "stringzilla"
    except ImportError:
        counter = "bytes.count"
    with tempfile.TemporaryDirectory(prefix="stead-bench-") as name:
        folder = Path(name)
        lines = make_log(folder / "log", int(SCALE * (1 << 30)))
        print(f"read: {lines:,} lines of 75 bytes, Python {sys.version.split()[0]}, counting with {counter}")
        ours = asyncio.run(bench_log(folder, lines))
        if arguments.peers:
            bench_peers(arguments.peers, folder, lines, ours)
        (folder / "log").unlink()
        pages = make_log(folder / "pages", int(SCALE * 100_000_000))
        asyncio.run(bench_pages(folder, pages))
        size = int(SCALE * 500) * 1_000_000
        make_line(folder / "line", size)
        asyncio.run(bench_line(folder, size))
        asyncio.run(bench_small(folder))


if __name__ == "__main__":
    main()
