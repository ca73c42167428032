"""Clearing: before the model is called, old results and long arguments become short notices.

One pass stores everything first, then replaces everything, and never touches the caller's objects.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stead.errors import ConfigError
from stead.reducer.calls import Action, Decision, Outcome, Report
from stead.reducer.columns import Columns
from stead.reducer.context import Context, one_line
from stead.reducer.edits import NOWHERE, Edit, fill_in
from stead.reducer.estimate import tokens_in
from stead.reducer.history import Histories, History
from stead.reducer.ledger import Reading
from stead.reducer.messages.pairing import Exchange
from stead.reducer.quick import Quick, QuickPlan, suits
from stead.reducer.repeat import Repeater, group_hash, spliced, with_undone
from stead.reducer.rounds import RoundPlan, Rounds
from stead.reducer.schemas import listed_tools
from stead.reducer.tokens import TokenMeter
from stead.reducer.writes import store_edits, store_group

__all__ = ["Clearing"]


@dataclass(slots=True)
class _Pass:
    """One call of `clear` on its way."""

    history: History
    reading: Reading
    before: int
    """Tokens before, calibrated."""
    plans: list[RoundPlan] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Clearing:
    """The second phase."""

    def __init__(self, context: Context, send: Callable[[Report], Awaitable[None]]) -> None:
        self._context = context
        self._config = context.config
        self._send = send
        self._histories = Histories()
        self._repeater = Repeater(context)
        self._lock = asyncio.Lock()
        self.meter = TokenMeter(counter=self._config.token_counter)
        self._quick = Quick(context, self.meter)
        self._last_total = 0

    def calibrate(self, reported: int) -> None:
        """Learns from the usage that the provider reported for the last request."""
        self.meter.calibrate(reported, self._last_total)

    async def run(self, messages: Sequence[Any], tools: Iterable[Any]) -> Outcome:
        """Clears what is old if the request is too large."""
        own = self._config.tool_config.values()
        if self._config.skip_clear and not any(tool.skip_clear is False for tool in own):
            return Outcome(list(messages), Report(phase="clear"))
        # Two calls on one list would plan the same edits twice.
        async with self._lock:
            outcome = await self._run(messages, tools)
        if outcome.report.decisions or outcome.report.warnings:
            await self._send(outcome.report)
        return outcome

    async def _run(self, messages: Sequence[Any], tools: Iterable[Any]) -> Outcome:
        tools = listed_tools(tools)
        await self._context.flush()
        history, start = self._take(messages)
        columns = history.read_quickly(start)
        if columns is not None:
            if not self._repeater.knows_any(columns, history.outputs, start):
                return await self._run_quickly(history, columns, tools)
            history.leave_columns(start)
        work = await self._read(history, start, tools)
        if work.before > self._config.max_tokens_for_clear:
            freed = await self._plan(work)
            if self._is_stale(work):
                self._histories.forget(work.history)
                work = await self._read(*self._take(messages), tools)
                freed = await self._plan(work)
            await self._pass(work, freed)
        self._last_total = work.reading.total - sum([plan.gain for plan in work.plans])
        work.warnings += self.meter.take_warnings()
        return await self._outcome(work, self.meter.tokens(self._last_total))

    def _take(self, messages: Sequence[Any]) -> tuple[History, int]:
        """The history that a list goes on from, and the index of its first new entry."""
        if self._context.undo:
            messages = with_undone(messages, self._context.undo, self._config.message_format)
        found = self._histories.find(messages)
        if found is None:
            quick = suits(self._context, self.meter)
            found = History(self.meter, self._config.message_format, quick=quick), (False, 0)
            self._histories.add(found[0])
        return found[0], found[0].take(messages, found[1])

    async def _read(self, history: History, start: int, tools: Sequence[Any]) -> _Pass:
        """Reads a list, with all that was reduced before in its place again."""
        history.learn_format()
        reading = await history.ledger.read(history.outputs, tools)
        warnings = []
        try:
            repeated = await self._repeater.repeat(history.ledger.codec, history.outputs, reading, start)
        except Exception as error:
            self._histories.forget(history)
            if self._config.on_offload_error == "raise":
                raise
            warnings.append(f"the records of earlier passes could not be read: {one_line(error)}")
            repeated = None
        if repeated is not None:
            history.commit(repeated, moved=len(repeated) != len(history.outputs))
            reading = await history.ledger.read(history.outputs, tools)
        if self._config.repair and reading.strays:
            history.commit(_without_strays(history, reading), moved=True)
            reading = await history.ledger.read(history.outputs, tools)
        return _Pass(history, reading, self.meter.tokens(reading.total), warnings=warnings)

    async def _outcome(self, work: _Pass, after: int) -> Outcome:
        report = Report(
            phase="clear",
            decisions=tuple(work.decisions),
            before_tokens=work.before,
            after_tokens=after,
            warnings=tuple(work.warnings),
        )
        return await self._processed(Outcome(list(work.history.outputs), report))

    async def _processed(self, outcome: Outcome) -> Outcome:
        process = self._config.clear_post_process
        if process is None or not outcome.changed:
            return outcome
        answer = process(outcome)
        answer = await answer if inspect.isawaitable(answer) else answer
        return outcome if answer is None else answer

    async def _run_quickly(self, history: History, columns: Columns, tools: Sequence[Any]) -> Outcome:
        """As `_run`, with what the columns tell."""
        config, tokens = self._config, self.meter.tokens
        total = columns.units + await self.meter.count_tools(tools)
        before = tokens(total)
        decisions: Sequence[Decision] = ()
        warnings: list[str] = []
        if before > config.max_tokens_for_clear:
            counts = partial(columns.units_at, history.outputs)
            rounds = Rounds(self._context, history.ledger, history.outputs, counts, set())
            plan = await self._quick.plan(columns, history.outputs, total, rounds, self._reason(before))
            plans = len(plan.cleared) + len(plan.others)
            if plans == 0:
                columns.done = plan.done
            problem = self._too_little(before, tokens(plan.freed), plans=plans)
            if problem is None:
                # Nothing can be stored here; a handler that wants it to be is told so.
                for error in (await store_edits(self._context, plan.edits)).values() if plan.others else ():
                    raise error
                total -= plan.freed
                decisions = self._commit_quickly(history, columns, plan)
            else:
                warnings.append(problem)
        self._last_total = total
        warnings += self.meter.take_warnings()
        report = Report(
            phase="clear",
            decisions=decisions,
            before_tokens=before,
            after_tokens=tokens(total),
            warnings=tuple(warnings),
        )
        return await self._processed(Outcome(list(history.outputs), report))

    def _commit_quickly(self, history: History, columns: Columns, plan: QuickPlan) -> Sequence[Decision]:
        self._repeater.remember_notices(plan.cleared, plan.texts)
        decisions: list[Decision] = []
        taken = 0
        for position, other in plan.others:
            decisions += plan.cleared[taken:position]
            self._repeater.remember(other, history.outputs)
            decisions += self._decisions(other, partial(columns.units_at, history.outputs), plan.cleared.reason)
            taken = position
        history.commit(plan.entries, moved=False)
        columns.units -= plan.freed
        columns.done = plan.done
        columns.look_at_last(history.outputs)
        return (*decisions, *plan.cleared[taken:]) if plan.others else plan.cleared

    # ---- one pass --------------------------------------------------------------------------------------------------

    def _reason(self, before: int) -> str:
        return f"the request has {before} tokens, more than {self._config.max_tokens_for_clear}"

    def _too_little(self, before: int, freed: int, *, plans: int) -> str | None:
        """Why a pass changes nothing; None if it does."""
        if plans == 0:
            return f"{self._reason(before)}, and nothing is left to clear"
        least = self._config.clear_at_least_tokens
        if freed < least:
            return f"clearing would free {freed} tokens, fewer than {least}; nothing was changed"
        return None

    async def _pass(self, work: _Pass, freed: int) -> None:
        if work.reading.strays:
            work.warnings.append(f"{len(work.reading.strays)} results answer no call; they were left in place")
        problem = self._too_little(work.before, freed, plans=len(work.plans))
        if problem is not None:
            work.warnings.append(problem)
            work.plans = []
            work.decisions = []
            return
        await self._store(work)
        self._commit(work)

    async def _plan(self, work: _Pass) -> int:
        """Plans rounds, the oldest first, until the target is reached; gives the tokens that they free."""
        stop = max(0, len(work.reading.rounds) - self._config.clear_retention_suffix_limit)
        candidates = work.reading.rounds[:stop]
        rounds = self._rounds(work)
        target, freed = self._config.clear_target_tokens or 0, 0
        for turn in candidates:
            if self.meter.tokens(work.reading.total - freed) <= target:
                break
            if turn.index in work.history.exhausted or not turn.complete:
                continue
            plan = await rounds.plan(turn)
            if plan.is_worth_it:
                freed += plan.gain
                work.plans.append(plan)
            else:
                work.history.exhausted.add(turn.index)
        return self.meter.tokens(freed)

    def _is_stale(self, work: _Pass) -> bool:
        """True if the caller changed an entry in place since it was read: what would be stored is not what is there."""
        if not self._context.stores():
            return False
        outputs, view = work.history.outputs, work.history.ledger.codec.view
        for exchange in (edit.exchange for plan in work.plans if plan.group is None for edit in plan.edits):
            if exchange.result is not None and exchange.result_index is not None:
                now = view(outputs[exchange.result_index]).results
                if exchange.result not in now:
                    return True
            if exchange.call not in view(outputs[exchange.call_index]).calls:
                return True
        return False

    def _rounds(self, work: _Pass) -> Rounds:
        history, counts = work.history, work.reading.by_message.__getitem__
        return Rounds(self._context, history.ledger, history.outputs, counts, self._repeater.rewritten)

    async def _store(self, work: _Pass) -> None:
        """Stores what the plans take out; a round of which something could not be stored is left, as configured."""
        predicted = {edit: edit.paths for plan in work.plans for edit in plan.edits}
        failed = await store_edits(self._context, [plan.edits for plan in work.plans])
        for edit, error in failed.items():
            if isinstance(error, ConfigError) or self._config.on_offload_error == "raise":
                raise error
            reason = f"the offload could not be stored: {one_line(error)}"
            work.decisions.append(self._decision(edit, "failed", reason))
            edit.paths = NOWHERE
            fill_in(self._context, edit)
        kept = []
        for plan in work.plans:
            if not failed.keys().isdisjoint(plan.edits) and self._config.on_offload_error == "keep":
                continue
            if any(edit.paths is not predicted[edit] for edit in plan.edits):
                await self._rounds(work).apply(plan)
            if not plan.is_worth_it:
                work.history.exhausted.add(plan.round.index)
            elif plan.group is None or await self._store_group(work, plan):
                kept.append(plan)
        work.plans = kept

    async def _store_group(self, work: _Pass, plan: RoundPlan) -> bool:
        """Stores a round that the caller's rewriter replaces; False if it is to be left."""
        entries = [work.history.outputs[index] for index in plan.indexes]
        call = plan.round.exchanges[0].call
        decision = Decision(phase="clear", tool=call.name, call_id=call.id, action="reduced", reason="it was rewritten")
        try:
            path = await store_group(self._context, plan, entries, group_hash(work.history.outputs, plan))
        except Exception as error:
            if self._config.on_offload_error == "raise":
                raise
            reason = f"the rewritten round could not be stored: {one_line(error)}"
            work.decisions.append(decision._replace(action="failed", reason=reason))
            return self._config.on_offload_error == "truncate"
        work.decisions.append(decision._replace(path=path))
        return True

    def _commit(self, work: _Pass) -> None:
        """From here on nothing is awaited: all of the pass is done, or none."""
        history = work.history
        edited: dict[int, Any] = {}
        counts: dict[int, int] = {}
        reason = self._reason(work.before)
        groups: list[tuple[RoundPlan, list[Any]]] = []
        for plan in work.plans:
            self._repeater.remember(plan, history.outputs)
            if plan.group is None:
                edited |= plan.entries
                counts |= plan.counts
            else:
                groups.append((plan, [plan.entries.get(index, entry) for index, entry in enumerate(plan.group)]))
            work.decisions += self._decisions(plan, work.reading.by_message.__getitem__, reason)
            history.exhausted.add(plan.round.index)
        history.commit(spliced(history.outputs, edited, groups), moved=bool(groups))
        if not groups:
            history.ledger.replace(edited, counts)

    def _decisions(self, plan: RoundPlan, counts: Callable[[int], int], reason: str) -> list[Decision]:
        decisions = []
        for edit, (before, after) in zip(plan.edits, _shares(plan, counts), strict=True):
            decisions.append(self._decision(edit, "reduced", reason, (tokens_in(before), tokens_in(after))))
            edit.settle()
        return decisions + [_kept(exchange, why) for exchange, why in plan.kept]

    def _decision(self, edit: Edit, action: Action, reason: str, counts: tuple[int, int] = (0, 0)) -> Decision:
        before, after, path = edit.characters, edit.characters, None
        if action == "reduced":
            after = len(edit.result) if isinstance(edit.result, str) else before
            path = edit.paths.result or edit.paths.arguments
        tool, call_id = edit.tool, edit.exchange.call.id
        return Decision("clear", tool, call_id, action, reason, before, after, counts[0], counts[1], path)


def _shares(plan: RoundPlan, counts: Callable[[int], int]) -> list[tuple[int, int]]:
    """Units before and after for each edit: those of its entries, and an equal part of what edits share."""
    number = len(plan.edits)
    if plan.group is not None:
        return [(plan.gain // max(1, number), 0)] * number
    if number == 1:
        before = sum([counts(index) for index in plan.counts])
        return [(before, before - plan.gain)]
    owners: dict[int, set[int]] = {index: set() for index in plan.counts}
    for position, edit in enumerate(plan.edits):
        changed = ((edit.result, edit.exchange.result_index), (edit.arguments, edit.exchange.call_index))
        for new, index in changed:
            if new is not None and index in owners:
                owners[index].add(position)
    shares = [(0, 0)] * number
    for index, own in owners.items():
        for position in own:
            before, after = shares[position]
            shares[position] = before + counts(index) // len(own), after + plan.counts[index] // len(own)
    return shares


def _kept(exchange: Exchange, reason: str) -> Decision:
    return Decision(phase="clear", tool=exchange.call.name, call_id=exchange.call.id, action="kept", reason=reason)


def _without_strays(history: History, reading: Reading) -> list[Any]:
    """The list without the entries that hold nothing but results to which there is no call."""
    strays: dict[int, int] = {}
    for index, _ in reading.strays:
        strays[index] = strays.get(index, 0) + 1
    kept = []
    for index, entry in enumerate(history.outputs):
        view = history.ledger.codec.view(entry) if index in strays else None
        if view is None or view.texts or view.calls or view.media or len(view.results) > strays[index]:
            kept.append(entry)
    return kept
