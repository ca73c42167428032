"""Clearing long histories in one pass: stead against a plain loop, LangChain and Pydantic's harness.

    python tests/benchmarks/bench_clear.py [--peers PYTHON] [--largest N]

Each history has pairs of a call and a result of 200 characters; all but the newest round is cleared. The plain loop does
the least that any clearing must: it counts a quarter of the characters, looks at each role, and copies each old result
with a placeholder; it pairs nothing, checks nothing and reports nothing. `--peers` names a Python that has langchain and
pydantic-ai-harness. Times are processor time, the best of a few runs; memory is the peak of one more run as tracemalloc sees it.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stead.environments import MemoryEnvironment
from stead.reducer import Reducer, ReducerConfig

SIZES = (1_000, 10_000, 100_000)
PLACEHOLDER = "[Old tool result cleared]"
Message = dict[str, Any]
SETTINGS: dict[str, Any] = {"max_tokens_for_clear": 10, "clear_target_tokens": 0, "clear_retention_suffix_limit": 1}


CONFIG = ReducerConfig(session_id="bench", skip_truncation=True, **SETTINGS)


def history(size: int) -> list[Message]:
    """Calls and results, one by one."""
    found: list[Message] = []
    for i in range(size // 2):
        function = {"name": "ReadFile", "arguments": '{"path": "src/main.py"}'}
        found.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{i}", "type": "function", "function": function}],
            }
        )
        found.append({"role": "tool", "tool_call_id": f"c{i}", "content": f"{i:08d} " + "some words of a result " * 8})
    return found


def plain(messages: list[Message]) -> list[Message]:
    """The least that clearing must do."""
    tokens, cleared = 0, []
    last = len(messages) - 2
    for index, message in enumerate(messages):
        if message["role"] == "tool" and index < last:
            tokens += len(message["content"]) // 4
            cleared.append({**message, "content": PLACEHOLDER})
            continue
        tokens += len(message["content"] or "") // 4
        for call in message.get("tool_calls") or ():
            tokens += len(call["function"]["arguments"]) // 4
        cleared.append(message)
    return cleared


async def ours(messages: list[Message], *, stores: bool) -> None:
    """One pass of a new reducer."""
    environment = MemoryEnvironment() if stores else None
    async with Reducer(environment, CONFIG) as reducer:
        await reducer.clear(messages)


async def timed(messages: list[Message], *, stores: bool) -> float:
    """Seconds of one pass, in a loop that runs."""
    gc.collect()
    start = time.process_time()
    await ours(messages, stores=stores)
    return time.process_time() - start


async def turn(size: int) -> float:
    """Seconds of one more turn on a history that was cleared already, best of several turns."""
    config = ReducerConfig(session_id="bench", skip_truncation=True, **SETTINGS | {"max_tokens_for_clear": 10**9})
    reducer = Reducer(None, config)
    messages = history(size)
    more = history(size + 40)[size:]
    await reducer.clear(messages)
    times = []
    for i in range(0, 40, 2):
        messages = [*messages, *more[i : i + 2]]
        start = time.process_time()
        await reducer.clear(messages)
        times.append(time.process_time() - start)
    return min(times)


def timed_plain(messages: list[Message]) -> float:
    """Seconds of the plain loop."""
    gc.collect()
    start = time.process_time()
    plain(messages)
    return time.process_time() - start


def passes(messages: list[Message], runs: int) -> tuple[float, float, float]:
    """Seconds of the plain loop, and of ours without and with writes: the best of several runs in turns."""
    base, bare, stored = [], [], []
    for _ in range(runs):
        base.append(timed_plain(messages))
        bare.append(asyncio.run(timed(messages, stores=False)))
    stored += [asyncio.run(timed(messages, stores=True)) for _ in range(min(runs, 2))]
    return min(base), min(bare), min(stored)


def peak_mb(work: Callable[[], Any]) -> float:
    """Megabytes that one run allocates at its peak."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def peers(python: str, size: int) -> dict[str, float]:
    """Seconds of the other libraries, measured in their own process."""
    script = Path(__file__).with_name("clear_peers.py")
    done = subprocess.run([python, str(script), str(size)], stdout=subprocess.PIPE, text=True, check=False, timeout=600)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else {}


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has langchain and pydantic-ai-harness")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out larger histories")
    options = parser.parse_args()
    for size in (size for size in SIZES if size <= options.largest):
        messages = history(size)
        base, bare, stored = passes(messages, 15 if size < SIZES[-1] else 5)
        memory = peak_mb(lambda messages=messages: asyncio.run(ours(messages, stores=False)))
        print(f"{size:,} messages\n  plain loop            {base * 1e3:8.2f} ms")
        print(f"  stead, nothing stored {bare * 1e3:8.2f} ms  {bare / base:6.1f} x plain  {memory:6.1f} MB at its peak")
        print(f"  ... its writes beside {(stored - bare) * 1e3:8.2f} ms, in memory, {size // 2 - 1:,} offloads")
        print(f"  stead, 2 new messages {asyncio.run(turn(size)) * 1e3:8.2f} ms")
        for name, seconds in peers(options.peers, size).items():
            print(f"  {name:22}{seconds * 1e3:8.2f} ms  {seconds / base:6.1f} x plain")


if __name__ == "__main__":
    main()
