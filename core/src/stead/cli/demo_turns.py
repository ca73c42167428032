"""The second half of `stead demo`: the agent goes on for many turns, and old results are cleared when there is no room."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stead.environment import Environment
from stead.reducer import Decision, Outcome, Reducer
from stead.reducer.ledger import Ledger
from stead.reducer.messages import find_codec
from stead.tools import Tool

__all__ = ["BUDGET", "Turns", "play_turns"]

BUDGET = 100_000
"""Tokens of a request above which old results are cleared."""
_LEAST_LINES, _MORE_LINES = 10, 170
"""Of a page that the agent reads: about 1 to 20 KB."""


@dataclass
class Turns:
    """What became of the conversation."""

    turns: int
    raw_tokens: list[int] = field(default_factory=list)
    """By turn, tokens of the request as it would be without the reducer."""
    sent_tokens: list[int] = field(default_factory=list)
    """By turn, tokens of the request that is sent."""
    cleared: list[Decision] = field(default_factory=list)
    passes: int = 0
    exact: bool = True
    """True if the full text of every result that was cleared is where its notice says."""

    def as_data(self) -> dict[str, Any]:
        """The figures, as what JSON can hold."""
        return {**asdict(self), "cleared": [decision._asdict() for decision in self.cleared]}


async def play_turns(
    env: Environment, reducer: Reducer, read: Tool, path: str, *, lines: int, turns: int, say: Callable[[str], None]
) -> Turns:
    """Lets the scripted agent read one page of a file a turn, with `Reducer.clear` before each request.

    Args:
        env: Where the reducer stores.
        reducer: The reducer.
        read: The tool ReadFile.
        path: The file.
        lines: How many it has.
        turns: How many turns.
        say: Prints a line for a reader.

    Raises:
        SteadError: A result could not be stored.
    """
    told = Turns(turns)
    raw: list[dict[str, Any]] = [{"role": "user", "content": "Find out what is wrong, page by page."}]
    messages: list[dict[str, Any]] = list(raw)
    ledger = Ledger(find_codec(raw))
    for turn in range(1, turns + 1):
        count = _LEAST_LINES + turn * 37 % _MORE_LINES
        start = turn * 7919 % max(1, lines - count) + 1
        new = await _call(read, f"turn-{turn}", {"path": path, "start_line": start, "end_line": start + count - 1})
        raw, messages = [*raw, *new], [*messages, *new]
        outcome = await reducer.clear(messages)
        messages = outcome.messages
        _take(told, outcome, turn, say)
        told.raw_tokens.append((await ledger.read(raw)).tokens)
    told.exact = await _is_there(env, told.cleared, raw)
    return told


async def _call(read: Tool, call_id: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A call and its result, as messages."""
    page = await read(**arguments)
    function = {"name": "ReadFile", "arguments": json.dumps(arguments)}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": page.get("content", page.get("error", ""))},
    ]


def _take(told: Turns, outcome: Outcome, turn: int, say: Callable[[str], None]) -> None:
    report = outcome.report
    told.sent_tokens.append(report.after_tokens)
    if not outcome.changed:
        return
    reduced = [decision for decision in report.decisions if decision.action == "reduced"]
    told.cleared += reduced
    told.passes += 1
    say(
        f"    turn {turn:3}: {report.before_tokens:,} tokens became {report.after_tokens:,}; "
        f"{len(reduced)} old results are notices now"
    )


async def _is_there(env: Environment, cleared: Sequence[Decision], raw: Sequence[Mapping[str, Any]]) -> bool:
    texts = {entry["tool_call_id"]: entry["content"] for entry in raw if entry["role"] == "tool"}
    stored = [(decision, await env.read_file(decision.path)) for decision in cleared if decision.path is not None]
    return len(stored) == len(cleared) and all(data.decode() == texts[d.call_id] for d, data in stored)
