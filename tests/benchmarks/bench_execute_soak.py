"""Many commands: nothing may grow.

    python tests/benchmarks/bench_execute_soak.py [--row 10000] [--at-once 1000] [--concurrency 50]

Runs `--row` commands one after the other and `--at-once` of them at a concurrency, some with children in the background,
some timed out, some cancelled, some with spilled output; compares descriptors, threads, processes and memory after the
first tenth with those at the end. Exit code 1 if something grew. By default a tenth, as in CI.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from stead_local import LocalEnvironment

ALLOWED_KB = 3000
ALLOWED_KB_EACH = 500
"""Memory that may come and go, in all and for each process: allocators keep pages, a keeper's first command touches
fewer of them than its hundredth."""


class State(NamedTuple):
    """What could grow."""

    descriptors: int
    threads: int
    processes: int
    memory_kb: int


def below(pid: int) -> list[int]:
    """A process and everything below it."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def state() -> State:
    """The state of this process and its keepers. Memory is what they do not share, zombies count as processes."""
    pids = below(os.getpid())
    memory = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        memory += sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty", "Private_Clean")))
    return State(len(os.listdir("/proc/self/fd")), threading.active_count(), len(pids), memory)


async def one(env: LocalEnvironment, number: int) -> None:
    """One of several kinds of command."""
    kind = number % 25
    if kind == 1:
        await env.execute("sleep 0.01 &")
    elif kind == 2:
        await env.execute("(setsid sleep 50 &); sleep 50", timeout=0.02)
    elif kind == 3:
        task = asyncio.create_task(env.execute("sleep 50"))
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait([task])
    elif kind == 4:
        result = await env.execute("echo 0123456789", output_limit=4)
        assert result.stdout_path is not None
        for path in (result.stdout_path, result.stdout_path + ".json"):
            Path(path).unlink()
    elif kind == 5:
        async for _ in env.execute_stream("echo live", stdin="x"):
            pass
    else:
        result = await env.execute(f"echo {number}; exit {number % 7}")
        assert (result.stdout, result.exit_code) == (f"{number}\n", number % 7)


async def in_a_row(env: LocalEnvironment, numbers: range, _concurrency: int) -> None:
    """One after the other."""
    for number in numbers:
        await one(env, number)


async def at_once(env: LocalEnvironment, numbers: range, concurrency: int) -> None:
    """At a concurrency."""
    slots = asyncio.Semaphore(concurrency)

    async def limited(number: int) -> None:
        async with slots:
            await one(env, number)

    await asyncio.gather(*(limited(number) for number in numbers))


async def soak(
    folder: Path, run: Callable[[LocalEnvironment, range, int], Awaitable[None]], count: int, concurrency: int
) -> list[str]:
    """Runs that many commands; returns what grew."""
    async with LocalEnvironment(folder) as env:
        await run(env, range(count // 10), concurrency)
        await asyncio.sleep(1)
        await env.execute("true")
        before, start = state(), time.perf_counter()
        await run(env, range(count // 10, count), concurrency)
        seconds = time.perf_counter() - start
        await asyncio.sleep(1)
        await env.execute("true")
        after = state()
    name = (run.__doc__ or "").rstrip(".").lower()
    print(f"{count} commands {name}: {seconds / (count * 0.9) * 1000:.2f} ms each", flush=True)
    print(f"  before {before}\n  after  {after}", flush=True)
    allowed = State(2, 0, 1, ALLOWED_KB + ALLOWED_KB_EACH * before.processes)
    return [
        f"{name}: {field} grew from {getattr(before, field)} to {getattr(after, field)}"
        for field in State._fields
        if getattr(after, field) > getattr(before, field) + getattr(allowed, field)
    ]


def main() -> None:
    """Soaks both ways, and after that looks for anything that is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stead-soak-") as name:
        grown = asyncio.run(soak(Path(name), in_a_row, arguments.row, 1))
        grown += asyncio.run(soak(Path(name), at_once, arguments.at_once, arguments.concurrency))
    left = [pid for pid in below(os.getpid()) if pid != os.getpid()]
    grown += [f"{len(left)} processes are left after close()"] if left else []
    print("\n".join(grown) or "nothing grew")
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
