"""What clearing costs a prompt cache: a long agent run, billed turn by turn, under several policies.

    python tests/benchmarks/bench_prompt_cache.py [--peers PYTHON]

The trace has 200 turns of one call and one result of 1 to 20 KB. A request is billed by what the provider has not seen:
cached input costs a tenth. Two kinds of cache are counted: one that knows every prefix of every earlier request
(OpenAI, Gemini, vLLM), and one that knows only whole earlier requests, since the caller sets one breakpoint at the end
(Anthropic). `--peers` names a Python that has langchain and pydantic-ai-harness; without them their rows are missing.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stead.environments import MemoryEnvironment
from stead.reducer import Reducer, ReducerConfig

TURNS = 200
BUDGET = 100_000
CACHED_PRICE = 0.1
CHARS_PER_TOKEN = 4
Message = dict[str, Any]
Policy = Callable[[list[Message]], Awaitable[list[Message]]]

RECOMMENDED: dict[str, Any] = {
    "max_tokens_for_clear": BUDGET,
    "clear_target_tokens": BUDGET // 10,
    "clear_retention_suffix_limit": 1,
}
"""The settings that docs/explanation/tokens.md recommends for a budget."""


def trace(seed: int = 1) -> list[list[Message]]:
    """What each turn adds to the history: the call and its result."""
    numbers = random.Random(seed)
    turns = []
    for turn in range(TURNS):
        size = numbers.randrange(1_000, 20_001)
        words = " ".join(numbers.choices(WORDS, k=size // 4))[:size]
        arguments = json.dumps({"path": f"src/module_{turn}.py"})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "ReadFile", "arguments": arguments}}
        assistant = {"role": "assistant", "content": f"I look at module {turn}.", "tool_calls": [call]}
        turns.append([assistant, {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn}: {words}"}])
    return turns


WORDS = ["alpha", "handler", "returns", "module", "reads", "table", "order", "parts", "writes", "message", "value"]
START: list[Message] = [
    {"role": "system", "content": "You are a careful engineer. " * 40},
    {"role": "user", "content": "Go through the modules one by one and write down what each does."},
]


def tokens_of(message: Message) -> int:
    """The measure of all policies alike: a quarter of the characters that are sent."""
    calls = message.get("tool_calls") or ()
    text = len(message.get("content") or "") + sum(len(call["function"]["arguments"]) for call in calls)
    return text // CHARS_PER_TOKEN + 4


@dataclass
class Bill:
    """What a run costs."""

    breaks: int = 0
    """Requests that do not begin with the request before."""
    prefix_billed: float = 0
    """Tokens billed where any prefix is cached."""
    whole_billed: float = 0
    """Tokens billed where only whole requests are cached."""
    largest: int = 0
    """Tokens of the largest request."""
    whole_results: int = 0
    """Results that the last request holds in full."""


class Cache:
    """A provider that remembers all earlier requests."""

    def __init__(self) -> None:
        self._prefixes: set[tuple[int, int]] = set()
        self._requests: set[tuple[int, int]] = set()
        self.last: list[str] = []

    def bill(self, request: list[Message]) -> tuple[float, float, int, bool]:
        """Bills for both kinds of cache, the request's tokens, and whether it breaks the last one."""
        texts = [json.dumps(message, sort_keys=True) for message in request]
        sizes = [tokens_of(message) for message in request]
        by_prefix = by_whole = total = state = 0
        keys = []
        for text, size in zip(texts, sizes, strict=True):
            state = hash((state, text))
            total += size
            keys.append((state, total))
            by_prefix = total if keys[-1] in self._prefixes else by_prefix
            by_whole = total if keys[-1] in self._requests else by_whole
        breaks = texts[: len(self.last)] != self.last
        self._prefixes.update(keys)
        self._requests.add(keys[-1])
        self.last = texts
        rest = 1 - CACHED_PRICE
        return total - by_prefix * rest, total - by_whole * rest, total, breaks


async def run(policy: Policy, seed: int = 1) -> Bill:
    """Goes through the trace; a policy's answer is the history from then on."""
    bill, cache = Bill(), Cache()
    turns = trace(seed)
    history = list(START)
    for turn in turns:
        history = await policy(history)
        by_prefix, by_whole, total, breaks = cache.bill(history)
        bill.prefix_billed += by_prefix
        bill.whole_billed += by_whole
        bill.breaks += breaks
        bill.largest = max(bill.largest, total)
        sent = {message["content"] for message in history if message["role"] == "tool"}
        history = [*history, *turn]
    bill.whole_results = sum(turn[1]["content"] in sent for turn in turns)
    return bill


def show_range(name: str, bills: list[Bill]) -> None:
    """One row for several traces: the least and the most."""
    spans = [
        (min(values), max(values))
        for values in zip(
            *((b.breaks, b.prefix_billed / 1e6, b.whole_billed / 1e6, b.largest, b.whole_results) for b in bills),
            strict=True,
        )
    ]
    breaks, by_prefix, by_whole, largest, whole = spans
    print(
        f"{name:34} {breaks[0]}-{breaks[1]} breaks, {by_prefix[0]:.2f}-{by_prefix[1]:.2f} M,"
        f" {by_whole[0]:.2f}-{by_whole[1]:.2f} M, largest {largest[1]:,}, whole {whole[0]}-{whole[1]}"
    )


async def nothing(history: list[Message]) -> list[Message]:
    """No reduction."""
    return history


async def run_ours(settings: dict[str, Any], seed: int = 1, *, raw: bool = False) -> Bill:
    """The reducer; with `raw` under a framework that keeps no edits and passes the raw history each time."""
    config = ReducerConfig(session_id="bench", token_counter=tokens_of, **settings)
    seen: list[Message] = []

    async def policy(history: list[Message]) -> list[Message]:
        seen.extend(history[len(seen) :])
        return (await reducer.clear(list(seen) if raw else history)).messages

    async with MemoryEnvironment() as environment, Reducer(environment, config) as reducer:
        return await run(policy, seed)


def peer(python: str, name: str) -> Policy:
    """Another library's policy, in a process of its own that is asked line by line."""
    script = Path(__file__).with_name("prompt_cache_peers.py")
    process = subprocess.Popen(
        [python, str(script), name, str(BUDGET)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    async def policy(history: list[Message]) -> list[Message]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(history) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{name}: the peer ended")
        return json.loads(line)

    return policy


def show(name: str, bill: Bill) -> None:
    """One row."""
    print(
        f"{name:34} {bill.breaks:6} {bill.prefix_billed / 1e6:9.2f} M {bill.whole_billed / 1e6:9.2f} M"
        f" {bill.largest:10,} {bill.whole_results:6}"
    )


async def main() -> None:
    """Runs all policies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has langchain and pydantic-ai-harness")
    options = parser.parse_args()
    print(f"{TURNS} turns, budget {BUDGET:,} tokens, cached input at {CACHED_PRICE:.0%}")
    print(f"{'policy':34} {'breaks':>6} {'any prefix':>11} {'whole only':>11} {'largest':>10} {'whole':>6}")
    show("none", await run(nothing))
    for name in ("langchain", "pydantic"):
        try:
            show(name, await run(peer(options.peers, name)))
        except (SystemExit, BrokenPipeError) as error:
            print(f"{name:34} absent ({error})")
    show("stead, recommended", await run_ours(RECOMMENDED))
    show("stead, recommended, raw history", await run_ours(RECOMMENDED, raw=True))
    show("stead, defaults at this budget", await run_ours({"max_tokens_for_clear": BUDGET}))
    show_range("stead, recommended, 8 traces", [await run_ours(RECOMMENDED, seed) for seed in range(1, 9)])


if __name__ == "__main__":
    asyncio.run(main())
