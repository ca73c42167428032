"""Stores what clearing takes out: all contents first, then all records; only then is anything replaced."""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stead.reducer.arguments import arguments_text
from stead.reducer.blocks import texts_hash
from stead.reducer.calls import Reduced, ToolCall
from stead.reducer.context import Context
from stead.reducer.edits import Edit, Paths, fill_in
from stead.reducer.messages.blocks import json_text
from stead.reducer.messages.codec import Content
from stead.reducer.pointers import whole_notices
from stead.reducer.records import OffloadRecord, Stored, hash_text
from stead.reducer.redact import redacted, redacted_content, redacted_data
from stead.reducer.rounds import RoundPlan
from stead.reducer.store import SessionStore

__all__ = ["content_hash", "store_edits", "store_group"]

_AT_ONCE = 8


def content_hash(content: Content) -> str:
    """Hash by which the same result is known again, opaque blocks included.

    Args:
        content: A result's content.
    """
    return hash_text(content) if isinstance(content, str) else hash_text(json_text(content))


async def store_edits(context: Context, rounds: Sequence[Sequence[Edit]]) -> dict[Edit, Exception]:
    """Stores what the edits take out, and fills in their paths.

    A round that is to be left, because something of it could not be stored, has no record: another process would clear
    a part of it.

    Args:
        context: The reducer's settings and means.
        rounds: The edits of one pass, round by round.

    Returns:
        The error of each edit that could not be stored. An edit whose result turned out to be a notice already has no
        new result afterwards.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    made: dict[Edit, list[OffloadRecord]] = {}

    async def contents(edit: Edit) -> None:
        async with gate:
            made[edit] = await _store(context, edit)

    async def records(edit: Edit) -> None:
        async with gate:
            for record in made[edit]:
                await context.needed_store(edit.call).records.add(_with_replacement(edit, record))

    async def take_back(edit: Edit) -> None:
        async with gate:
            for record in made[edit]:
                await context.needed_store(edit.call).records.remove(_with_replacement(edit, record))

    def recorded() -> list[Edit]:
        return [edit for edits in rounds if lossy or failed.keys().isdisjoint(edits) for edit in edits if edit in made]

    lossy = context.config.on_offload_error == "truncate"
    # Without an environment a pass stays free of tasks: it is as fast as the reading of the history.
    failed = await _all(contents, [edit for edits in rounds for edit in edits if _stores(context, edit)])
    written = recorded()
    failed |= await _all(records, written)
    left = set(recorded())
    # What cannot be taken back either stays: the environment is out of reach.
    await _all(take_back, [edit for edit in written if edit not in left])
    return failed


async def _all(work: Callable[[Edit], Coroutine[Any, Any, None]], edits: Sequence[Edit]) -> dict[Edit, Exception]:
    """Does the same with all edits, and gives the error of each that failed."""
    failed: dict[Edit, Exception] = {}
    for edit, end in zip(edits, await asyncio.gather(*map(work, edits), return_exceptions=True), strict=True):
        if isinstance(end, Exception):
            failed[edit] = end
        elif end is not None:
            raise end
    return failed


async def store_group(context: Context, plan: RoundPlan, entries: Sequence[Any], source_hash: str) -> str | None:
    """Stores a round that the caller's rewriter replaced, as one JSON text a line.

    Args:
        context: The reducer's settings and means.
        plan: The round's plan.
        entries: The round's own entries.
        source_hash: Their hash.

    Returns:
        Where they are; None in a reducer without an environment.

    Raises:
        SteadError: They could not be stored.
    """
    first = plan.round.exchanges[0].call
    call = ToolCall(first.id, first.name or "tool", first.arguments, "clear", context.session)
    store = context.store_for(call.name)
    if store is None:
        return None
    text = redacted(context.config.redact, "".join(f"{json_text(entry)}\n" for entry in entries))
    stored = await store.put(call, text)
    group = [plan.entries.get(index, entry) for index, entry in enumerate(plan.group or ())]
    replacement = redacted_data(context.config.redact, _plain(group), naming=store.folder, messages=True)
    if replacement is not None:
        plan.group, plan.entries = replacement, {}  # What the model sees is what another process will repeat.
    record = OffloadRecord.of("rewritten", call, stored, source_hash=source_hash)
    await store.records.add(dataclasses.replace(record, replacement=replacement))
    return stored.path


def _stores(context: Context, edit: Edit) -> bool:
    if edit.answer is not None:
        return edit.answer.offload is not None
    return context.store_for(edit.tool) is not None


async def _store(context: Context, edit: Edit) -> list[OffloadRecord]:
    """Stores one exchange's content; its records are still to be written."""
    store = context.needed_store(edit.call)
    redact = context.config.redact
    made: list[OffloadRecord] = []
    paths = Paths()
    clears_arguments = edit.arguments is not None and edit.answer is None
    record = await _store_result(context, store, edit) if edit.result is not None else None
    if record is not None:
        made.append(record)
        paths = Paths(record.path, None, record.paths[1:])
    if clears_arguments:
        text = redacted(redact, arguments_text(edit.exchange.call))
        stored = await store.put(edit.call, text)
        source = hash_text(arguments_text(edit.exchange.call))
        made.append(OffloadRecord.of("arguments", edit.call, stored, source_hash=source, ordinal=edit.exchange.number))
        paths = dataclasses.replace(paths, arguments=stored.path)
    edit.paths = paths
    # The record keeps what the model sees, so neither may hold what is redacted.
    if edit.answer is not None:
        edit.answer = _redacted_answer(context, edit.answer)
    fill_in(context, edit, result=record is not None, arguments=clears_arguments)
    if paths.arguments is not None:
        edit.arguments = redacted_data(redact, edit.arguments, naming=paths.arguments)
    return made


def _redacted_answer(context: Context, answer: Reduced) -> Reduced:
    redact = context.config.redact
    result, arguments = redacted_data(redact, answer.result, messages=True), redacted_data(redact, answer.arguments)
    return dataclasses.replace(answer, result=result, arguments=arguments)


async def _store_result(context: Context, store: SessionStore, edit: Edit) -> OffloadRecord | None:
    """The record of the result; None if it is a cleared one's notice already."""
    content = edit.exchange.result.content if edit.exchange.result is not None else ""
    source = content_hash(content)
    if edit.answer is not None:
        offload = edit.answer.offload
        data = redacted_content(context.config.redact, b"" if offload is None else offload)
        stored = await store.put(edit.call, data, edit.own_path)
        return OffloadRecord.of("cleared", edit.call, stored, source_hash=source, ordinal=edit.exchange.number)
    before = await _replaced_before(store, edit)
    if before is not None and before.kind == "cleared" and not edit.media:
        return None
    media = [await _store_media(context, store, edit, number) for number in range(len(edit.media))]
    if before is not None and before.kind == "truncated" and await store.keeps(before):
        # The full text is there already; a copy of its notice would only be a second hop.
        fields = (before.path, before.size, before.characters, before.sha256, before.encoding, before.frames)
        stored = Stored(*fields)
    else:
        stored = await store.put(edit.call, redacted(context.config.redact, _as_text(edit, media)), edit.own_path)
    record = OffloadRecord.of("cleared", edit.call, stored, source_hash=source, ordinal=edit.exchange.number)
    return dataclasses.replace(record, media=media)


async def _replaced_before(store: SessionStore, edit: Edit) -> OffloadRecord | None:
    """The record in whose place the result stands, also if the caller's framework wrapped its notice."""
    record = await store.records.of_replacement(texts_hash([text for text in edit.texts if text is not None]))
    if record is None and edit.full:
        for notice in whole_notices(edit.texts):
            record = await store.records.of_replacement(hash_text(notice))
            if record is not None:
                edit.full = ()
                break
    return record


async def _store_media(context: Context, store: SessionStore, edit: Edit, number: int) -> dict[str, Any]:
    part, redact = edit.media[number], context.config.redact
    shell = redacted_data(redact, part.shell, messages=True)
    entry: dict[str, Any] = {"mime_type": part.mime_type, "path": None, "size": 0, "block": shell}
    if part.data is not None:
        stored = await store.put(edit.media_call, redacted_content(redact, part.data), suffix=part.suffix)
        entry |= {"path": stored.path, "size": stored.size}
    return entry


def _as_text(edit: Edit, media: Sequence[dict[str, Any]]) -> str:
    """The result as one text, each block on a line of its own; a line tells of each block that is no text."""
    left = iter(media)
    pieces: list[str] = []
    for text in edit.texts:
        if text is None:
            item = next(left)
            where = item["path"] or json_text(item["block"])
            text = f"[{item['mime_type']}, {item['size']} bytes: {where}]"  # noqa: PLW2901 - stands for the block
        if pieces and pieces[-1] and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        pieces.append(text)
    return "".join(pieces)


def _with_replacement(edit: Edit, record: OffloadRecord) -> OffloadRecord:
    """The record with what stands in the place of its content, where that is plain data."""
    new = edit.result if record.kind == "cleared" else edit.arguments
    if record.kind == "cleared" and edit.answer is not None:
        record = dataclasses.replace(record, handler_arguments=_plain(edit.arguments))
    sha = hash_text(new) if isinstance(new, str) else ""
    return dataclasses.replace(record, replacement=_plain(new), replacement_sha256=sha)


def _plain(value: Any) -> Any:
    """The value if JSON gives it back as it is, else None: another process could not repeat it."""
    try:
        return value if json.loads(json.dumps(value)) == value else None
    except (TypeError, ValueError, RecursionError):
        return None
