"""Clearing where nothing is stored or asked: a long history of plain chat dicts costs little more than its copy.

What becomes of it is the same as by the general way (`rounds.py`), which also plans every round that is not a single
short call with a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from stead.reducer.calls import Decision
from stead.reducer.columns import Columns
from stead.reducer.context import Context
from stead.reducer.edits import SURELY_SHORTER, Edit, unsaved_notice
from stead.reducer.estimate import UNIT, text_units
from stead.reducer.rounds import RoundPlan, Rounds
from stead.reducer.tokens import MESSAGE_TOKENS, TokenMeter

__all__ = ["Cleared", "Quick", "QuickPlan", "suits"]

# Rounds that are planned in one go; where an odd one is among them, fewer, down to a few that are planned one by one.
_AT_ONCE, _LEAST = 512, 8


def suits(context: Context, meter: TokenMeter) -> bool:
    """Says whether the settings leave nothing to store and nothing to ask about each entry.

    Args:
        context: The reducer's settings and means.
        meter: Counts its requests.
    """
    config = context.config
    return not (context.stores() or config.clear_message_rewriter or config.repair or meter.is_custom)


@dataclass(slots=True, eq=False)
class Cleared(Sequence[Decision]):
    """Decisions on texts in whose place their tool's notice stands, as columns: each is made when it is looked at."""

    reason: str
    tools: list[str] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    """Characters of the notice."""
    before: list[int] = field(default_factory=list)
    """Tokens of the entry."""
    after: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tools)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | Sequence[Decision]:
        if isinstance(index, slice):
            return tuple([self[number] for number in range(*index.indices(len(self)))])
        tool, call_id = self.tools[index], self.call_ids[index]
        sizes = self.characters[index], self.shown[index], self.before[index], self.after[index]
        return Decision("clear", tool, call_id, "reduced", self.reason, *sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(slots=True)
class QuickPlan:
    """What one pass would do.

    Attributes:
        entries: The list as it would be.
        result_tokens: As in `Columns`.
        cleared: The texts that are planned here.
        others: Rounds that were planned the general way, each with the number of texts before it.
        freed: Tokens, not calibrated.
        done: The `Columns.done` that follows.
    """

    entries: list[Any]
    result_tokens: list[int]
    cleared: Cleared
    others: list[tuple[int, RoundPlan]] = field(default_factory=list)
    freed: int = 0
    done: int = 0

    @property
    def edits(self) -> list[Edit]:
        """Of the rounds that were planned the general way."""
        return [edit for _, other in self.others for edit in other.edits]


class _Notice(NamedTuple):
    """What stands in the place of a tool's cleared results."""

    text: str
    size: int
    entry_tokens: int
    """Of an entry with it."""


class Quick:
    """Plans passes over columns.

    Args:
        context: The reducer's settings and means.
        meter: Counts its requests.
    """

    def __init__(self, context: Context, meter: TokenMeter) -> None:
        self._context = context
        self._meter = meter
        self._notices: dict[str, _Notice | None] = {}

    async def plan(
        self, columns: Columns, messages: Sequence[Any], total: int, rounds: Rounds, reason: str
    ) -> QuickPlan:
        """Plans rounds, the oldest first, until the target is reached.

        Args:
            columns: Of the list.
            messages: The list.
            total: Tokens of the request, not calibrated.
            rounds: Plans what is not as simple.
            reason: Why results are cleared.
        """
        plan = QuickPlan(list(messages), columns.result_tokens.copy(), Cleared(reason), done=columns.done)
        stop = columns.stop_before(self._context.config.clear_retention_suffix_limit)
        enough = self._enough(total)
        size = _AT_ONCE
        while plan.done < stop and plan.freed < enough:
            until = min(stop, plan.done + size)
            if self._plan_texts(plan, columns, (until, enough)):
                size = min(2 * size, _AT_ONCE)
            elif size > _LEAST:
                size = max(size // 4, _LEAST)
            else:
                await _plan_rounds(plan, columns, (until, enough), rounds)
        return plan

    def _enough(self, total: int) -> int:
        """How many tokens, not calibrated, must be freed to reach the target."""
        target = self._context.config.clear_target_tokens or 0
        enough = max(0, total - int((target + 1) / self._meter.factor) - 1)
        while self._meter.calibrated(total - enough) > target:
            enough += 1
        return enough

    def _plan_texts(self, plan: QuickPlan, columns: Columns, bounds: tuple[int, int]) -> bool:
        """Plans exchanges in one go, if each is a round of a short call with a long text; else does nothing."""
        first, (stop, enough) = plan.done, bounds
        at, tools = columns.result_at[first:stop], columns.tools[first:stop]
        notices = {tool: notice for tool in set(tools) if (notice := self._notice(tool)) is not None}
        if min(at) < 0 or len(notices) < len(set(tools)):
            return False
        if columns.special and not columns.special.isdisjoint(range(first, stop)):
            return False
        old = [plan.entries[index] for index in at]
        before, sizes = plan.result_tokens[first:stop], [len(entry["content"]) for entry in old]
        texts, shown, after = zip(*map(notices.__getitem__, tools), strict=True)
        if min(sizes) <= SURELY_SHORTER * max(shown) or min(before) <= max(after):
            return False
        freed = plan.freed + sum(before) - sum(after)
        if freed - (before[-1] - after[-1]) >= enough:
            return False  # the target is reached before the last
        for index, entry, text in zip(at, old, texts, strict=True):
            plan.entries[index] = {**entry, "content": text}
        plan.result_tokens[first:stop] = after
        cleared = plan.cleared
        cleared.tools += tools
        cleared.call_ids += columns.call_ids[first:stop]
        cleared.characters += sizes
        cleared.shown += shown
        cleared.before += before
        cleared.after += after
        plan.freed, plan.done = freed, stop
        return True

    def _notice(self, tool: str) -> _Notice | None:
        """A tool's notice; None if its results are left alone, handled, or told of with their sizes."""
        if tool in self._notices:
            return self._notices[tool]
        config, found = self._context.config, None
        rule = self._context.rule("clear", tool)
        asks = isinstance(rule, str) or rule.handler is not None or config.gen_clear_offload_file_path is not None
        if not asks and "{characters" not in self._context.notices.cleared_unsaved:
            text = unsaved_notice(self._context, tool, 0)
            entry_tokens = -(-(MESSAGE_TOKENS * UNIT + text_units(text)) // UNIT)
            found = _Notice(text, len(text), entry_tokens)
        self._notices[tool] = found
        return found


async def _plan_rounds(plan: QuickPlan, columns: Columns, bounds: tuple[int, int], rounds: Rounds) -> None:
    """Plans rounds one by one, whatever is in them."""
    stop, enough = bounds
    while plan.done < stop and plan.freed < enough:
        first = plan.done
        plan.done = columns.next_round(first)
        turn = columns.round(first, plan.done, plan.entries)
        if not turn.complete:
            continue
        found = await rounds.plan(turn)
        if not found.is_worth_it:
            continue
        plan.freed += found.gain
        plan.others.append((len(plan.cleared), found))
        for index, entry in found.entries.items():
            plan.entries[index] = entry
        for number in range(first, plan.done):
            at = columns.result_at[number]
            plan.result_tokens[number] = found.counts.get(at, plan.result_tokens[number])
