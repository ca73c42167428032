"""Plans for whole rounds: which entries of the history become what, and how much that frees."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from stead.reducer.config import Rewriter
from stead.reducer.context import Context
from stead.reducer.edits import Edit, ask_for_edit, plan_edit
from stead.reducer.ledger import Ledger
from stead.reducer.messages.blocks import json_text
from stead.reducer.messages.codec import Codec
from stead.reducer.messages.pairing import Exchange, Round, pair_rounds
from stead.reducer.records import hash_text

__all__ = ["RoundPlan", "Rounds", "edited_entries", "entry_hash"]


class RoundPlan:
    """What becomes of one round.

    Attributes:
        round: The round.
        edits: Their indexes are those of the history, or of `group` where there is one.
        group: What the caller's rewriter put in the round's place; None without one.
        entries: Edited entries by index (of the history or of `group`).
        counts: Units of the edited entries.
        gain: Units that are freed.
        kept: Exchanges that are left, and why.
    """

    __slots__ = ("counts", "edits", "entries", "gain", "group", "kept", "round")

    def __init__(self, turn: Round) -> None:
        self.round = turn
        self.edits: list[Edit] = []
        self.group: list[Any] | None = None
        self.entries: dict[int, Any] = {}
        self.counts: dict[int, int] = {}
        self.gain = 0
        self.kept: list[tuple[Exchange, str]] = []

    @property
    def is_worth_it(self) -> bool:
        """A round is changed if that frees tokens, or if a handler of the caller's said so."""
        return self.gain > 0 or any(edit.answer is not None for edit in self.edits)

    @property
    def indexes(self) -> list[int]:
        """The entries of the history that belong to the round."""
        found = {exchange.call_index for exchange in self.round.exchanges}
        found |= {exchange.result_index for exchange in self.round.exchanges if exchange.result_index is not None}
        return sorted(found)


class Rounds:
    """Plans one pass over one history.

    Args:
        context: The reducer's settings and means.
        ledger: What read the history.
        messages: The history.
        counts: Units of an entry by its index.
        rewritten: Hashes of entries that the caller's rewriter made; they are not rewritten again.
    """

    def __init__(
        self,
        context: Context,
        ledger: Ledger,
        messages: Sequence[Any],
        counts: Callable[[int], int],
        rewritten: set[str],
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._rewritten = rewritten
        self._messages = messages
        self._counts = counts
        self._rewriter = context.config.clear_message_rewriter
        self._estimates = not ledger.meter.is_custom

    async def plan(self, turn: Round) -> RoundPlan:
        """The plan of a complete round. Its gain is 0 if it is to be left.

        Args:
            turn: The round.
        """
        return self._plan_now(turn) or await self._plan_by_asking(turn)

    async def apply(self, plan: RoundPlan) -> None:
        """Makes the edited entries by the paths that the edits have now, and counts what they free.

        Args:
            plan: The plan.
        """
        if plan.group is None and self._estimates:
            return self._apply_now(plan)
        base = self._messages if plan.group is None else plan.group
        plan.entries = edited_entries(self._ledger.codec, base, plan.edits)
        plan.counts = {index: await self._count(entry) for index, entry in plan.entries.items()}
        if plan.group is None:
            plan.gain = sum([self._counts(index) - count for index, count in plan.counts.items()])
        else:
            after = [plan.counts.get(i, None) or await self._count(entry) for i, entry in enumerate(plan.group)]
            plan.gain = sum(self._counts(index) for index in plan.indexes) - sum(after)
        return None

    def _plan_now(self, turn: Round) -> RoundPlan | None:
        """The plan, where nothing of the caller's has to be awaited: a long history is planned in one go."""
        if self._rewriter is not None or not self._estimates:
            return None
        plan = RoundPlan(turn)
        for exchange in turn.exchanges:
            edit = plan_edit(self._context, exchange)
            if edit is None:
                return None
            if isinstance(edit, str):
                plan.kept.append((exchange, edit))
            else:
                plan.edits.append(edit)
        self._apply_now(plan)
        return plan

    def _apply_now(self, plan: RoundPlan) -> None:
        plan.entries = edited_entries(self._ledger.codec, self._messages, plan.edits)
        view, estimate, gain = self._ledger.codec.view, self._ledger.meter.estimate, 0
        plan.counts = {}
        for index, entry in plan.entries.items():
            plan.counts[index] = count = estimate(view(entry))
            gain += self._counts(index) - count
        plan.gain = gain

    async def _plan_by_asking(self, turn: Round) -> RoundPlan:
        plan = RoundPlan(turn)
        if self._rewriter is not None:
            await self._rewrite(plan, self._rewriter)
        exchanges = turn.exchanges
        if plan.group is not None:
            views = [self._ledger.codec.view(message) for message in plan.group]
            inner, _ = pair_rounds(views, splits_turns=self._ledger.codec.splits_turns)
            numbers = {exchange.call.id: exchange.number for exchange in turn.exchanges}
            exchanges = [exchange for part in inner if part.complete for exchange in part.exchanges]
            for exchange in exchanges:
                exchange.number = numbers.get(exchange.call.id, 0)
        for exchange in exchanges:
            edit = plan_edit(self._context, exchange) or await ask_for_edit(self._context, exchange)
            if isinstance(edit, str):
                plan.kept.append((exchange, edit))
            else:
                plan.edits.append(edit)
        await self.apply(plan)
        return plan

    async def _count(self, entry: Any) -> int:
        return await self._ledger.meter.count(entry, self._ledger.codec.view(entry))

    async def _rewrite(self, plan: RoundPlan, rewriter: Rewriter) -> None:
        """Asks the caller's rewriter, unless entries of the round hold anything that is not the round's own."""
        calls = sorted({exchange.call_index for exchange in plan.round.exchanges})
        results = [index for index in plan.indexes if index not in calls]
        own = {id(exchange.result) for exchange in plan.round.exchanges}
        for index in results:
            view = self._ledger.codec.view(self._messages[index])
            if view.texts or view.media or view.calls or len(view.results) > len(own):
                return
        if any(entry_hash(self._messages[index]) in self._rewritten for index in calls):
            return
        call_entries = [self._messages[index] for index in calls]
        answer = rewriter(
            call_entries[0] if len(call_entries) == 1 else call_entries, [self._messages[index] for index in results]
        )
        group = await answer if inspect.isawaitable(answer) else answer
        plan.group = list(group or ())


class Change(Protocol):
    """What `edited_entries` needs of an edit."""

    exchange: Exchange
    result: Any
    """The new result; None leaves the old one."""
    arguments: Any
    """The new arguments; None leaves the old ones."""


def edited_entries(codec: Codec, messages: Sequence[Any], changes: Sequence[Change]) -> dict[int, Any]:
    """Copies of the entries that change, by index.

    Args:
        codec: Edits the entries.
        messages: The list that the exchanges are of.
        changes: What changes.
    """
    if len(changes) == 1 and changes[0].arguments is None:  # The usual round: one call, and its result goes.
        exchange, content = changes[0].exchange, changes[0].result
        if content is None or exchange.result is None or exchange.result_index is None:
            return {}
        index = exchange.result_index
        return {index: codec.replace(messages[index], results={exchange.result.ordinal: content})}
    results: dict[int, dict[int, Any]] = {}
    arguments: dict[int, dict[int, Any]] = {}
    for change in changes:
        exchange = change.exchange
        if change.result is not None and exchange.result is not None and exchange.result_index is not None:
            results.setdefault(exchange.result_index, {})[exchange.result.ordinal] = change.result
        if change.arguments is not None:
            arguments.setdefault(exchange.call_index, {})[exchange.call.ordinal] = change.arguments
    return {
        index: codec.replace(messages[index], results=results.get(index), arguments=arguments.get(index))
        for index in {*results, *arguments}
    }


def entry_hash(entry: Any) -> str:
    """Hash of an entry's content, whatever its class.

    Args:
        entry: An entry of a history.
    """
    return hash_text(json_text(entry))
