"""Chat histories, and a reducer to clear them, for several test files."""

import asyncio
import json
from typing import Any

from stead.environments import MemoryEnvironment
from stead.errors import Unavailable
from stead.reducer import Reducer, ReducerConfig


def call(call_id: str, name: str = "Read", arguments: Any = None) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {"path": f"{call_id}.txt"})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def asks(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def says(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Go on."}
BIG = {"path": "a.txt", "content": "x" * 100_000, "mode": 420, "lines": list(range(500)), "flag": True, "none": None}


def rounds(count: int, size: int = 4_000, *, first: int = 0) -> list[dict[str, Any]]:
    """Rounds of one call and one result of about `size` characters."""
    history = []
    for number in range(first, first + count):
        history += [asks(call(f"c{number}")), says(f"c{number}", f"result {number}: " + "word " * (size // 5))]
    return history


def run(body, environment=None, *, reports=None, **options: Any):
    """Runs `body(reducer)` with a reducer over a fresh environment."""

    async def main():
        async with environment or MemoryEnvironment() as env:
            config = {"session_id": "s", "max_tokens_for_clear": 100, "clear_target_tokens": 0, **options}
            on_report = None if reports is None else reports.append
            async with Reducer(env, ReducerConfig(**config), on_report=on_report) as reducer:
                return await body(reducer)

    return asyncio.run(main())


def path_in(text: str) -> str:
    return next(word.rstrip("().,:[]<>") for word in text.split() if word.startswith(".stead/"))


async def stored(reducer: Reducer, message: dict[str, Any]) -> str:
    return (await reducer.offloads.read(path_in(message["content"]))).decode()


class Selective(MemoryEnvironment):
    """Refuses what a test says."""

    refuses = staticmethod(lambda path: False)

    async def write_file(self, path, content, **options):
        if self.refuses(str(path)):
            raise Unavailable(f"no {path}")
        return await super().write_file(path, content, **options)
