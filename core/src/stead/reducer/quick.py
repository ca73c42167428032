"""Clearing where nothing is stored or asked: a long history of plain chat dicts costs little more than its copy.

What becomes of it is the same as by the general way (`rounds.py`), which also plans every round that is not a single
short call with a text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, overload

from stead.reducer.calls import Decision
from stead.reducer.columns import Columns
from stead.reducer.context import Context
from stead.reducer.edits import SURELY_SHORTER, Edit, unsaved_notice
from stead.reducer.estimate import UNIT, text_units, tokens_in
from stead.reducer.rounds import RoundPlan, Rounds
from stead.reducer.tokens import MESSAGE_TOKENS, TokenMeter
from stead.reducer.weights import Weights

__all__ = ["Cleared", "Notice", "Quick", "QuickPlan", "suits"]

# Rounds that are planned in one go; where an odd one is among them, fewer, down to a few that are planned one by one.
_AT_ONCE, _LEAST = 512, 8
_AROUND = MESSAGE_TOKENS * UNIT
_content = itemgetter("content")


def suits(context: Context, meter: TokenMeter) -> bool:
    """Says whether the settings leave nothing to store and nothing to ask about each entry.

    Args:
        context: The reducer's settings and means.
        meter: Counts its requests.
    """
    config = context.config
    return not (context.stores() or config.clear_message_rewriter or config.repair or meter.is_custom)


class Notice(NamedTuple):
    """What stands in the place of a tool's cleared results."""

    text: str
    units: int
    """Of an entry with it."""


@dataclass(slots=True, eq=False)
class Cleared(Sequence[Decision]):
    """Decisions on texts in whose place their tool's notice stands, as columns: each is made when it is looked at."""

    reason: str
    notices: Mapping[str, Notice]
    """By tool."""
    tools: list[str] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    texts: Weights = field(default_factory=lambda: Weights([], [], {}))
    """Of those that are cleared."""

    def __len__(self) -> int:
        return len(self.tools)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | Sequence[Decision]:
        if isinstance(index, slice):
            return tuple([self[number] for number in range(*index.indices(len(self)))])
        index = range(len(self))[index]
        tool, size = self.tools[index], self.texts.characters[index]
        text, units = self.notices[tool]
        counts = tokens_in(_AROUND + self.texts[index]), tokens_in(units)
        return Decision("clear", tool, self.call_ids[index], "reduced", self.reason, size, len(text), *counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(slots=True)
class QuickPlan:
    """What one pass would do.

    Attributes:
        entries: The list as it would be.
        cleared: The texts that are planned here.
        texts: The texts themselves. Decisions outlive a pass, and must not keep them.
        others: Rounds that were planned the general way, each with the number of texts before it.
        freed: Units.
        done: The `Columns.done` that follows.
    """

    entries: list[Any]
    cleared: Cleared
    texts: list[str] = field(default_factory=list)
    others: list[tuple[int, RoundPlan]] = field(default_factory=list)
    freed: int = 0
    done: int = 0

    @property
    def edits(self) -> list[list[Edit]]:
        """Of the rounds that were planned the general way, round by round."""
        return [other.edits for _, other in self.others]


class Quick:
    """Plans passes over columns.

    Args:
        context: The reducer's settings and means.
        meter: Counts its requests.
    """

    def __init__(self, context: Context, meter: TokenMeter) -> None:
        self._context = context
        self._meter = meter
        self._notices: dict[str, Notice] = {}
        self._others: set[str] = set()

    async def plan(
        self, columns: Columns, messages: Sequence[Any], total: int, rounds: Rounds, reason: str
    ) -> QuickPlan:
        """Plans rounds, the oldest first, until the target is reached.

        Args:
            columns: Of the list.
            messages: The list.
            total: Units of the request.
            rounds: Plans what is not as simple.
            reason: Why results are cleared.
        """
        plan = QuickPlan(list(messages), Cleared(reason, self._notices), done=columns.done)
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
        """How many units must be freed to reach the target."""
        target = self._context.config.clear_target_tokens or 0
        enough = max(0, total - int((target + 0.5) * UNIT / self._meter.factor) - 1)
        while self._meter.tokens(total - enough) > target:
            enough += 1
        return enough

    def _plan_texts(self, plan: QuickPlan, columns: Columns, bounds: tuple[int, int]) -> bool:
        """Plans exchanges in one go, if each is a round of a short call with a long text; else does nothing."""
        first, (stop, enough) = plan.done, bounds
        if columns.special and not columns.special.isdisjoint(range(first, stop)):
            return False
        at, tools = columns.result_at[first:stop], columns.tools[first:stop]
        uses = Counter(tools)
        if min(at) < 0 or not all(map(self._tells_all, uses)):
            return False
        notices, weights = self._notices, columns.results.part(first, stop)
        if min(weights.characters) <= SURELY_SHORTER * max([len(notices[tool].text) for tool in uses]):
            return False
        gain = _AROUND * len(at) + weights.total - sum([times * notices[tool].units for tool, times in uses.items()])
        if plan.freed + gain - (_AROUND + weights[-1] - notices[tools[-1]].units) >= enough:
            return False  # the target is reached before the last
        changes, entries = {tool: {"content": notices[tool].text} for tool in uses}, plan.entries
        plan.texts += map(_content, map(entries.__getitem__, at))
        for index, tool in zip(at, tools, strict=True):
            entries[index] = entries[index] | changes[tool]
        cleared = plan.cleared
        cleared.tools += tools
        cleared.call_ids += columns.call_ids[first:stop]
        cleared.texts.extend(weights)
        plan.freed += gain
        plan.done = stop
        return True

    def _tells_all(self, tool: str) -> bool:
        """True if one notice stands for all results of a tool: they are not left alone, handled, or told of with sizes."""
        if tool in self._notices or tool in self._others:
            return tool in self._notices
        config, rule = self._context.config, self._context.rule("clear", tool)
        asks = isinstance(rule, str) or rule.handler is not None or config.gen_clear_offload_file_path is not None
        if asks or "{characters" in self._context.notices.cleared_unsaved:
            self._others.add(tool)
            return False
        text = unsaved_notice(self._context, tool, 0)
        self._notices[tool] = Notice(text, _AROUND + text_units(text))
        return True


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
