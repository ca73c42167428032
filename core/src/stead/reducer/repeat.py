"""Makes a raw history look as it did: what was cleared before, in this process or an earlier one, is cleared again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stead.reducer.arguments import arguments_text
from stead.reducer.blocks import texts_hash
from stead.reducer.columns import Columns
from stead.reducer.context import Context, Undo
from stead.reducer.ledger import Reading
from stead.reducer.messages.blocks import block_text, json_text, with_text
from stead.reducer.messages.codec import Codec, Content
from stead.reducer.messages.detect import find_codec
from stead.reducer.messages.pairing import Exchange, Round
from stead.reducer.quick import Cleared
from stead.reducer.records import Kind, OffloadRecord, hash_text
from stead.reducer.rounds import RoundPlan, edited_entries, entry_hash
from stead.reducer.writes import content_hash

__all__ = ["Repeater", "group_hash", "spliced", "with_undone"]

_AT_ONCE = 8


@dataclass(slots=True)
class _Known:
    """What was done with an exchange before."""

    exchange: Exchange
    result: Any
    arguments: Any


class Repeater:
    """Knows what was done before: by the records, and without an environment by what this process did.

    Attributes:
        rewritten: Hashes of entries that the caller's rewriter made.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # By kind, call id and number: what stands in the place of which text, by the text's hash.
        self._memory: dict[tuple[Kind, str | None, int], dict[int, Any]] = {}
        self._unsorted: list[tuple[Cleared, Sequence[str]]] = []
        self._groups: dict[str, list[Any]] = {}
        self.rewritten: set[str] = set()

    async def repeat(self, codec: Codec, messages: Sequence[Any], reading: Reading, start: int) -> list[Any] | None:
        """The list with everything that was reduced before in its place again; None if nothing of it was.

        Args:
            codec: Reads and edits the messages.
            messages: The list.
            reading: What the ledger read of it.
            start: Index of the first entry that is new to this process.

        Raises:
            SteadError: The records could not be read.
        """
        for store in self._context.stores():
            await store.records.load()
        self._sort()
        new = _since(reading.rounds, start)
        suspects = [e for turn in new for e in turn.exchanges if e.result and self._is_suspect(e)]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def known(exchange: Exchange) -> tuple[Any, Any]:
            async with gate:
                return await self._known(exchange)

        found = await asyncio.gather(*map(known, suspects))
        edited = edited_entries(codec, messages, [_Known(e, *new) for e, new in zip(suspects, found, strict=True)])
        groups = await self._known_groups(messages, new)
        if not edited and not groups:
            return None
        return spliced(messages, edited, groups)

    def remember(self, plan: RoundPlan, messages: Sequence[Any]) -> None:
        """Takes in what a pass did, as far as no record tells it.

        Args:
            plan: A plan that was carried out.
            messages: The list that it was made for.
        """
        if plan.group is not None:
            group = [plan.entries.get(index, entry) for index, entry in enumerate(plan.group)]
            self._groups[group_hash(messages, plan)] = group
            self.rewritten |= {entry_hash(entry) for entry in group}
            return
        for edit in plan.edits:
            exchange, call_id = edit.exchange, edit.exchange.call.id
            if edit.paths.result is not None or edit.paths.arguments is not None:
                continue
            if edit.result is not None and exchange.result is not None:
                self._keep("cleared", call_id, exchange.number, exchange.result.content, edit.result)
            if edit.arguments is not None:
                self._keep("arguments", call_id, exchange.number, exchange.call.arguments, edit.arguments)

    def remember_notices(self, cleared: Cleared, texts: Sequence[str]) -> None:
        """As `remember`, for results in whose place their tool's notice stands. Costs nothing until the next pass.

        Args:
            cleared: What was done, each to the only call of its id.
            texts: What the results were. They are let go of with the next pass, as the history lets go of them.
        """
        if texts:
            self._unsorted.append((cleared, texts))

    def knows_any(self, columns: Columns, messages: Sequence[Any], start: int) -> bool:
        """True if something that is new in a list, or in the round before, was cleared in another one.

        Args:
            columns: Of the list.
            messages: The list.
            start: Index of the first entry that is new.
        """
        self._sort()
        if start == len(messages) or not self._memory:
            return False
        view = columns.codec.view
        round_before: int | None = None
        for number in range(len(columns.call_at) - 1, -1, -1):
            index, at, identity = columns.call_at[number], columns.result_at[number], columns.call_ids[number]
            if index < start and round_before is None:
                round_before = index
            if round_before is not None and index < round_before:
                break
            if at >= 0 and self._recall("cleared", identity, 0, view(messages[at]).results[0].content) is not None:
                return True
            if ("arguments", identity, 0) in self._memory:
                arguments = [call.arguments for call in view(messages[index]).calls if call.id == identity]
                if any(self._recall("arguments", identity, 0, item) is not None for item in arguments):
                    return True
        return False

    def _keep(self, kind: Kind, call_id: str | None, number: int, before: Any, after: Any) -> None:
        self._memory.setdefault((kind, call_id, number), {})[_hash(before)] = after

    def _recall(self, kind: Kind, call_id: str | None, number: int, before: Any) -> Any:
        """What took the place of just this content of a call; None if nothing did. Ids and sizes may be others' too."""
        known = self._memory.get((kind, call_id, number))
        return None if known is None else known.get(_hash(before))

    def _sort(self) -> None:
        """Fills the memory with what was only kept so far."""
        for cleared, texts in self._unsorted:
            for tool, call_id, text in zip(cleared.tools, cleared.call_ids, texts, strict=True):
                self._keep("cleared", call_id, 0, text, cleared.notices[tool].text)
        self._unsorted.clear()

    def _is_suspect(self, exchange: Exchange) -> bool:
        store = self._context.store_for(exchange.call.name or "tool")
        if store is None:
            return bool(self._memory)
        records, call_id = store.records, exchange.call.id
        known = records.has_call("cleared", call_id) or records.has_call("arguments", call_id)
        return known or bool(self._memory)

    async def _known(self, exchange: Exchange) -> tuple[Any, Any]:
        """What stands in place of the result and of the arguments; None for each that was not replaced."""
        call_id, number = exchange.call.id, exchange.number
        store = self._context.store_for(exchange.call.name or "tool")
        if exchange.result is None:
            return None, None
        result = self._recall("cleared", call_id, number, exchange.result.content)
        arguments = self._recall("arguments", call_id, number, exchange.call.arguments)
        if store is None or result is not None or arguments is not None:
            return result, arguments
        records = store.records
        if records.has_call("cleared", call_id):
            source = content_hash(exchange.result.content)
            record = await records.of_source("cleared", call_id, source, ordinal=number)
            if record is not None and await store.keeps(record):
                result, arguments = record.replacement, record.handler_arguments
        if records.has_call("arguments", call_id):
            source = hash_text(arguments_text(exchange.call))
            record = await records.of_source("arguments", call_id, source, ordinal=number)
            if record is not None and await store.keeps(record):
                arguments = record.replacement
        return result, arguments

    async def _known_groups(self, messages: Sequence[Any], turns: Sequence[Round]) -> list[tuple[RoundPlan, list[Any]]]:
        if self._context.config.clear_message_rewriter is None:
            return []
        found = []
        for plan in map(RoundPlan, turns):
            if not plan.round.complete:
                continue
            source = group_hash(messages, plan)
            group = self._groups.get(source)
            if group is None and (record := await self._group_record(plan, source)) is not None:
                group = record.replacement
            if isinstance(group, list):
                self.rewritten |= {entry_hash(entry) for entry in group}
                found.append((plan, group))
        return found

    async def _group_record(self, plan: RoundPlan, source: str) -> OffloadRecord | None:
        call = plan.round.exchanges[0].call
        store = self._context.store_for(call.name or "tool")
        if store is None or not store.records.has_call("rewritten", call.id):
            return None
        record = await store.records.of_source("rewritten", call.id, source)
        return record if record is not None and await store.keeps(record) else None


def group_hash(messages: Sequence[Any], plan: RoundPlan) -> str:
    """Hash of the entries of a round.

    Args:
        messages: The history.
        plan: A plan of the round.
    """
    return hash_text(json_text([messages[index] for index in plan.indexes]))


def spliced(
    messages: Sequence[Any], edited: dict[int, Any], groups: Sequence[tuple[RoundPlan, list[Any]]]
) -> list[Any]:
    """The list with some entries edited and some rounds replaced as a whole.

    Args:
        messages: The list.
        edited: New entries by index.
        groups: What stands in the place of a round: at its first entry.
    """
    out = list(messages)
    for index, entry in edited.items():
        out[index] = entry
    if not groups:
        return out
    heads = {plan.indexes[0]: group for plan, group in groups}
    gone = {index for plan, _ in groups for index in plan.indexes}
    flat: list[Any] = []
    for index, entry in enumerate(out):
        flat += heads.get(index, []) if index in gone else [entry]
    return flat


def with_undone(messages: Sequence[Any], undo: Mapping[str, Undo], given: str | Codec | None) -> list[Any]:
    """The list with the notices taken back whose text could not be stored.

    Args:
        messages: The list.
        undo: As `Context.undo`.
        given: The message format, if it is known.
    """
    codec = find_codec(messages, given)
    out = list(messages)
    for index, message in enumerate(messages):
        restored: dict[int, Content] = {}
        for result in codec.view(message).results:
            content = result.content
            texts = [content] if isinstance(content, str) else [block_text(block) for block in content]
            undone = undo.get(texts_hash(texts))
            if undone is not None:
                restored[result.ordinal] = _restored(content, undone)
        if restored:
            out[index] = codec.replace(message, results=restored)
    return out


def _restored(content: Content, undone: Undo) -> Content:
    """A result's content as it was, of the kind that it has now; blocks that were left out are as its last text block."""
    if isinstance(content, str):
        return "".join(old for old, _ in undone if old is not None)
    left = iter(content)
    sample = [block for block in content if block_text(block) is not None][-1]
    whole = []
    for old, new in undone:
        block = sample if old is not None and new is None else next(left)
        whole.append(block if old == new else with_text(block, old or ""))
    return whole


def _since(rounds: Sequence[Round], start: int) -> list[Round]:
    """The rounds that begin at an entry or later, and the one before, to which new results may belong."""
    found: list[Round] = []
    for turn in reversed(rounds):
        found.append(turn)
        if turn.index < start:
            break
    return found[::-1]


def _hash(content: Any) -> int:
    """Tells contents apart within this process. A text keeps its hash, so that it is made once."""
    return hash(content if isinstance(content, str) else json_text(content))
