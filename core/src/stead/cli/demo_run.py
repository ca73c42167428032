"""What `stead demo` does: the scripted agent, and what each of its steps costs."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from stead.cli.demo_turns import BUDGET, Turns, play_turns
from stead.conformance.law import Locked
from stead.conformance.peak import Growth, Peak
from stead.errors import SteadError
from stead.reducer import Decision, Reducer, ReducerConfig
from stead.registry import create_environment
from stead.tools import toolset

__all__ = ["Run", "as_data", "play", "print_summary"]

_BLOCK_LINES = 10_000
_WIDTH = 100
_PAGE = 3
"""Lines that the agent asks for at a time."""


@dataclass
class Step:
    """One step and what it cost."""

    name: str
    seconds: float = 0.0
    memory: int | None = None
    """Bytes by which the resident memory rose at most, above where the step began; None where that cannot be seen."""
    peak_rss: int | None = None
    """Most bytes that were resident during the step; where `memory` is None, since the process began."""


@dataclass
class Run:
    """What the demo did."""

    quiet: bool
    steps: list[Step] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    decision: Decision | None = None
    lines: int = 0
    exact: bool = True
    """True if every line that was read back is the line that the tool returned."""
    turns: Turns | None = None
    """What became of the conversation; None if there was none."""

    def say(self, text: str = "") -> None:
        """Prints a line for a reader."""
        if not self.quiet:
            print(text, flush=True)

    @asynccontextmanager
    async def step(self, name: str) -> AsyncIterator[None]:
        """Measures a step."""
        step = Step(name)
        self.steps.append(step)
        async with _growth() as growth:
            began = time.perf_counter()
            yield
            step.seconds = time.perf_counter() - began
            step.peak_rss = _peak_rss()
        step.memory = growth.bytes if growth.bytes >= 0 else None
        self.say(f"    took {_seconds(step.seconds)}, {_added(step.memory)}, peak RSS {_megabytes(step.peak_rss)}")


@asynccontextmanager
async def _growth() -> AsyncIterator[Growth]:
    stack = AsyncExitStack()
    try:
        growth = await stack.enter_async_context(Peak()())
    except Locked:
        yield Growth()  # this system does not tell: -1
        return
    async with stack:
        yield growth


async def play(run: Run, size: int, turns: int, folder: str) -> None:
    """Runs the demo.

    Args:
        run: Takes what happens.
        size: About how many characters the tool returns.
        turns: How many turns the agent goes on for; 0 leaves the second half out.
        folder: Where the local environment works.

    Raises:
        SteadError: The backend `local` is not installed, or the result is too short to be reduced.
    """
    decisions: list[Decision] = []
    async with create_environment("local", root=folder) as env:
        config = ReducerConfig(session_id="demo", max_tokens_for_clear=BUDGET)
        reducer = Reducer(env, config, on_report=lambda report: decisions.extend(report.decisions))
        tools = toolset(env)
        made: list[str] = []

        def fetch_log() -> str:
            return made.pop()

        run.say(f"1. The agent calls fetch_log(), which returns a text of about {size:,} characters:")
        async with run.step("the tool makes its text"):
            made.append(_log(size))
        run.lines = made[0].count("\n")
        run.say("2. The reducer stores the result and gives the model a notice:")
        async with run.step("the reducer stores it"):
            notice = await reducer.wrap(fetch_log, call_id="call-1")()
        run.decision = _stored(decisions)
        run.say(_quoted("\n".join(notice.splitlines()[:6])))
        run.say(f"    | ... and more of its head and tail: {len(notice):,} characters in all")
        run.say("3. The agent reads lines back with ReadFile, wherever they are:")
        for start in (run.lines // 2, 1, run.lines - _PAGE + 1):
            run.say(f"    ReadFile(path={run.decision.path!r}, start_line={start}, end_line={start + _PAGE - 1})")
            async with run.step(f"ReadFile, line {start:,}"):
                page = await tools["ReadFile"](path=run.decision.path, start_line=start, end_line=start + _PAGE - 1)
            _check_page(run, page, start)
        if turns:
            run.say(
                f"4. It goes on for {turns} turns, a page of 1 to 20 KB each; a request may have {BUDGET:,} tokens:"
            )
            path, lines = run.decision.path or "", run.lines
            async with run.step(f"{turns} turns"):
                run.turns = await play_turns(
                    env, reducer, tools["ReadFile"], path, lines=lines, turns=turns, say=run.say
                )
            run.exact = run.exact and run.turns.exact


def _stored(decisions: list[Decision]) -> Decision:
    if not decisions or decisions[0].path is None:
        raise SteadError("the result was too short to be reduced; choose a larger --size")
    return decisions[0]


def _check_page(run: Run, page: dict[str, Any], start: int) -> None:
    text = page.get("content", page.get("error", ""))
    expected = "".join(f"{n:>6}\t{_line(_number_in_block(n))}" for n in range(start, start + _PAGE))
    run.exact = run.exact and text == expected.removesuffix("\n") and page.get("total_lines") == run.lines
    run.pages.append(text)
    run.say(_quoted(text))


def _line(number: int) -> str:
    minute, second = divmod(number, 60)
    return (
        f'{{"time": "2026-01-01T{minute // 60 % 24:02}:{minute % 60:02}:{second:02}Z", "level": "info", '
        f'"request": "{number * 2654435761 % 2**32:08x}", "path": "/carts/{number % 9973}", "ms": {number % 977}}}\n'
    )


def _number_in_block(line: int) -> int:
    return (line - 1) % _BLOCK_LINES + 1


def _log(size: int) -> str:
    """A log of about `size` characters, whole lines, made with little more memory than it has: one block, repeated."""
    block = "".join(_line(number) for number in range(1, _BLOCK_LINES + 1))
    if size < len(block):
        return block[: block.rfind("\n", 0, max(size, 1000)) + 1]
    return block * round(size / len(block))


def _quoted(text: str) -> str:
    return "\n".join(f"    | {line if len(line) <= _WIDTH else line[:_WIDTH] + '...'}" for line in text.splitlines())


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def _megabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e6:,.1f} MB"


def _added(memory: int | None) -> str:
    return "memory of the step unknown" if memory is None else f"+{_megabytes(memory)}"


def _peak_rss() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    # The kernel counts from the beginning of the step where `Peak` could reset it; macOS tells bytes, Linux KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def print_summary(run: Run) -> None:
    """Prints what came out, as tables.

    Args:
        run: A run that has ended.
    """
    from rich.console import Console
    from rich.table import Table

    decision = run.decision
    assert decision is not None  # noqa: S101 - `play` ends with one, or raises
    sizes = Table("", "CHARACTERS", "TOKENS (ESTIMATE)", box=None, pad_edge=False)
    sizes.add_row("what the tool returned", f"{decision.before_chars:,}", f"{decision.before_tokens:,}")
    sizes.add_row("what the model gets", f"{decision.after_chars:,}", f"{decision.after_tokens:,}")
    tables = [sizes] if run.turns is None else [sizes, _turns_table(run.turns)]
    costs = Table("STEP", "TIME", "ADDED AT MOST", "PEAK RSS", box=None, pad_edge=False)
    for step in run.steps:
        costs.add_row(step.name, _seconds(step.seconds), _added(step.memory), _megabytes(step.peak_rss))
    console = Console(markup=False, highlight=False)
    for table in (*tables, costs):
        console.print()
        console.print(table)
    if run.exact:
        print(f"\nEvery line read back is the tool's own, and ReadFile counted all {run.lines:,} of them.")
        if run.turns is not None:
            print(f"The full text of each of the {len(run.turns.cleared)} cleared results is where its notice says.")


def _turns_table(turns: Turns) -> Any:
    from rich.table import Table

    table = Table("TOKENS (ESTIMATE)", "AS IT IS", "REDUCED", box=None, pad_edge=False)
    table.add_row("the last request", f"{turns.raw_tokens[-1]:,}", f"{turns.sent_tokens[-1]:,}")
    table.add_row("the largest request", f"{max(turns.raw_tokens):,}", f"{max(turns.sent_tokens):,}")
    table.add_row(f"all {turns.turns} requests", f"{sum(turns.raw_tokens):,}", f"{sum(turns.sent_tokens):,}")
    table.add_row("passes that changed the prefix", "0", f"{turns.passes}")
    return table


def as_data(run: Run) -> dict[str, Any]:
    """What came out, as what JSON can hold.

    Args:
        run: A run that has ended.
    """
    named = ("tool", "reason", "before_chars", "after_chars", "before_tokens", "after_tokens", "path")
    return {
        "lines": run.lines,
        "exact": run.exact,
        "decision": {name: getattr(run.decision, name) for name in named},
        "steps": [asdict(step) for step in run.steps],
        "pages": run.pages,
        "turns": None if run.turns is None else run.turns.as_data(),
    }
