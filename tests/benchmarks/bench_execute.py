"""Running commands: stead against asyncio, the shell and peers, in one run, as ratios.

    python tests/benchmarks/bench_execute.py [--peers PYTHON] [--size BYTES]

`--peers` names a Python that has google-adk, deepagents, pydantic-ai, openai-agents or inspect-ai installed; those that
are missing are reported as absent. `--size` is the output of the large command, by default a tenth of 1 GiB
(STEAD_SCALE=1 is 1 GiB).
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import execute_peers

from stead_local import LocalEnvironment

SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
ROUNDS = 5


def show(name: str, value: str) -> None:
    """One line of the report."""
    print(f"  {name:<58} {value}", flush=True)


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    await call()
    return time.perf_counter() - start


async def bare(command: str) -> None:
    """asyncio's own way: a shell with its output captured."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", command, stdin=nothing, stdout=pipe, stderr=pipe)
    await process.communicate()


async def bench_one(folder: Path) -> None:
    """`true`, one after the other, in turns with asyncio."""
    ours, theirs = [], []
    async with LocalEnvironment(folder) as env:
        first = await timed(lambda: env.execute("true"))
        for _ in range(300):
            ours.append(await timed(lambda: env.execute("true")))
            theirs.append(await timed(lambda: bare("true")))
    mine, bare_median = statistics.median(ours), statistics.median(theirs)
    show("the first command, which starts the first keeper", f"{first * 1000:.0f} ms")
    show("true against asyncio's own", f"{mine * 1000:.2f} ms, {mine / bare_median:.2f} x")


async def bench_burst(folder: Path) -> None:
    """100 x `sleep 0.1` at once: with no keeper but the first, and again with those that wait."""

    async def burst(run: Callable[[str], Awaitable[object]]) -> float:
        return await timed(lambda: asyncio.gather(*(run("sleep 0.1") for _ in range(100))))

    ratios, again = [], []
    for _ in range(ROUNDS):
        async with LocalEnvironment(folder) as env:
            await env.execute("true")
            cold, warm = await burst(env.execute), await burst(env.execute)
        theirs = await burst(bare)
        ratios.append(cold / theirs)
        again.append(warm / theirs)
    show("100 x sleep 0.1 at once, against asyncio's own", f"{statistics.median(ratios):.2f} x")
    show("... once more in the same environment", f"{statistics.median(again):.2f} x")


def peaks_kb() -> dict[int, int]:
    """The peak resident size of this process and of everything below it."""
    found = {}
    below = {os.getpid()}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines())
        if (pid in below or int(fields["PPid"]) in below) and "VmHWM" in fields:
            below.add(pid)
            found[pid] = int(fields["VmHWM"].split()[0])
    return found


async def bench_output(folder: Path, size: int) -> None:
    """A command with much output, against the shell writing it to a file."""
    big = folder / "big"
    with big.open("wb") as file:
        for _ in range(0, size, 1 << 20):
            file.write(os.urandom(1 << 20))
    command = f"head -c {size} big"
    ours, ratios, growth = [], [], []
    async with LocalEnvironment(folder) as env:
        await env.execute("true")
        for _ in range(ROUNDS):
            for pid in peaks_kb():
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            before = sum(peaks_kb().values())
            start = time.perf_counter()
            result = await env.execute(command)
            ours.append(time.perf_counter() - start)
            growth.append((sum(peaks_kb().values()) - before) / 1024)
            assert result.stdout_path is not None
            assert Path(result.stdout_path).stat().st_size == result.stdout_bytes == size
            Path(result.stdout_path).unlink()
            start = time.perf_counter()
            subprocess.run(["/bin/sh", "-c", f"{command} > copy"], cwd=folder, check=True)
            ratios.append(ours[-1] / (time.perf_counter() - start))
            (folder / "copy").unlink()
    mine = statistics.median(ours)
    show(f"{size / 1e6:.0f} MB of output, all of it in a file", f"{mine:.2f} s, {size / 1e6 / mine:.0f} MB/s")
    show("... against the shell writing that file", f"{statistics.median(ratios):.2f} x")
    show("... peak memory of all our processes above idle", f"{max(growth):.1f} MB")


async def bench_stream(folder: Path, size: int) -> None:
    """The same output through `execute_stream`."""
    async with LocalEnvironment(folder) as env:
        await env.execute("true")
        start, first, seen = time.perf_counter(), 0.0, 0
        async for item in env.execute_stream(f"head -c {size} big", output_limit=0):
            if hasattr(item, "data"):
                first = first or time.perf_counter() - start
                seen += len(item.data)
        seconds = time.perf_counter() - start
    assert seen == size
    show("... through execute_stream", f"{size / 1e6 / seconds:.0f} MB/s, first piece after {first * 1000:.1f} ms")


async def bench_tree(folder: Path) -> None:
    """A timeout of one second on a tree with children that left group, session and environment."""
    async with LocalEnvironment(folder) as env:

        async def run(command: str, timeout: float | None) -> str:
            return (await env.execute(command, timeout=timeout)).stdout

        show("timeout=1 on a tree", describe(await execute_peers.tree(run)))


def describe(tree: dict[str, object]) -> str:
    """One peer's tree in words."""
    kept = "output kept" if tree["kept"] else "output lost"
    return f"{tree['seconds']:.2f} s, {kept}, {tree['left']} of 4 processes left"


def figures(python: str, name: str, folder: Path, size: int) -> dict[str, Any]:
    """One peer's figures, from a process of its own."""
    command = [python, str(execute_peers.__file__), name, str(folder), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    try:
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    except (IndexError, ValueError):
        return {"absent": f"it failed: {done.stderr.strip().splitlines()[-1:]}"}


def bench_peers(python: str, folder: Path, size: int) -> None:
    """The same through peers, each just after ours, since the machine is never the same for long."""
    for name in execute_peers.PEERS:
        if name == "stead":
            continue
        ours, theirs = figures(sys.executable, "stead", folder, size), figures(python, name, folder, size)
        if "absent" in theirs:
            show(name, f"absent: {theirs['absent']}")
            continue
        show(f"{name}: true", f"{theirs['true'] / ours['true']:.2f} x ours")
        show("... 100 x sleep 0.1 at once", f"{theirs['burst'] / ours['burst']:.2f} x ours")
        show("... timeout=1 on the same tree", describe(theirs["tree"]))
        output, seconds = theirs["output"], ours["output"]["seconds"]
        if "error" in output:
            show("... the same output", f"refused: {output['error']}")
            continue
        lost = "" if output["shown"] >= size else f", {output['shown'] / 1e6:.1f} MB of it given back"
        show("... the same output", f"{output['seconds'] / seconds:.2f} x ours, +{output['megabytes']:.0f} MB{lost}")


def main() -> None:
    """Runs everything in a temporary folder and removes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a Python with the peers installed")
    parser.add_argument("--size", type=int, default=int(SCALE * (1 << 30)), help="bytes of the large output")
    arguments = parser.parse_args()
    size = arguments.size & ~((1 << 20) - 1)
    with tempfile.TemporaryDirectory(prefix="stead-bench-") as name:
        folder = Path(name)
        print(f"execute: Python {sys.version.split()[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        asyncio.run(bench_one(folder))
        asyncio.run(bench_burst(folder))
        asyncio.run(bench_tree(folder))
        asyncio.run(bench_output(folder, size))
        asyncio.run(bench_stream(folder, size))
        if arguments.peers:
            bench_peers(arguments.peers, folder, size)


if __name__ == "__main__":
    main()
