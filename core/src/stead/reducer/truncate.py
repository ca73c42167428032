"""Truncation: a long result becomes head, tail and a notice that names where all of it is."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from stead.reducer.blocks import Parts, Texts, carried, parts_of, texts_hash
from stead.reducer.budget import Budget, fill, hint_for
from stead.reducer.calls import Action, Decision, Reduced, ToolCall
from stead.reducer.config import Handler
from stead.reducer.context import Context, approximate_tokens, lines_in, one_line, own_path
from stead.reducer.preview import Preview, cut_blocks, head_and_tail, weight_in_chars
from stead.reducer.records import OffloadRecord, Stored
from stead.reducer.redact import redacted, redacted_content
from stead.reducer.replacement import pack, unpack
from stead.reducer.session import off_loop
from stead.reducer.shapes import shape_of

__all__ = ["Truncation", "store_for_handler"]


@dataclass(frozen=True, slots=True)
class _Work:
    """One long result on its way."""

    call: ToolCall
    parts: Parts
    budget: Budget
    preview: Preview
    path: str | None
    """Where the caller's generator wants it."""


class Truncation:
    """The first phase, for results that are there as a whole."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._config = context.config
        self._notices = context.notices

    async def run(self, call: ToolCall, result: Any) -> Any:
        """Reduces a result if it is too long; otherwise the same object is returned."""
        rule = self._context.rule("truncate", call.name)
        if isinstance(rule, str):
            return result
        if rule.handler is not None:
            return await self.by_handler(call, result, rule.handler)
        content, rebuild = carried(result)
        parts = parts_of(content)
        if parts is None or parts.length <= self._config.max_length_for_trunc:
            return result
        path = await own_path(self._config.gen_trunc_offload_file_path, call)
        budget = self._context.budget(call, path)
        if parts.length <= budget.threshold:
            return result
        texts = await self._reduce(_Work(call, parts, budget, rule.preview, path))
        return result if texts is None else rebuild(parts.assemble(texts))

    async def by_handler(self, call: ToolCall, result: Any, handler: Handler) -> Any:
        """What a handler of the caller's makes of a result."""
        answer = await handler(call, result)
        if answer is None:
            return result
        if not isinstance(answer, Reduced):
            raise TypeError(f"a trunc_handler must return Reduced or None, not {type(answer).__name__}")
        answer = await store_for_handler(self._context, call, result, answer)
        return result if answer is None else answer.result

    async def _reduce(self, work: _Work) -> Texts | None:
        """The new text of each block, or None if the result stays as it is."""
        try:
            texts, path = await self._offloaded(work)
        except Exception as error:  # noqa: BLE001 - any environment's error is subject to the one policy
            return await self._failed(work, error)
        if texts is None or sum(len(text) for text in texts if text) >= work.parts.length:
            await self._decided(work, None, "kept", "it is a notice of this session already, or no notice is shorter")
            return None
        reason = f"{work.parts.length} characters are more than {self._config.max_length_for_trunc}"
        await self._decided(work, texts, "reduced", reason, path)
        return texts

    async def _offloaded(self, work: _Work) -> tuple[Texts | None, str | None]:
        store = self._context.needed_store(work.call)
        source_hash = await off_loop(work.parts.length, work.parts.source_hash)
        known = await store.records.of_source("truncated", work.call.id, source_hash)
        if known is not None and not await store.keeps(known):
            known = None
        if known is None and await store.records.of_replacement(source_hash) is not None:
            return None, None
        text = await off_loop(work.parts.length, lambda: self._redacted(work.parts.joined()))
        if known is not None and (texts := _recorded(known, text)) is not None:
            return texts, known.path
        if self._config.background_writes:
            path = work.path or await store.place(work.call, text)
            texts, packed = self._shown(work, text, path)
            self._context.in_background(self._write_later(work, text, path, source_hash, (texts, packed)))
            return texts, path
        stored = await store.put(work.call, text, work.path)
        texts, packed = self._shown(work, text, stored.path)
        await store.records.add(_record(work.call, stored, source_hash, (texts, packed)))
        return texts, stored.path

    async def _write_later(self, work: _Work, text: str, path: str, source_hash: str, shown: tuple[Texts, Any]) -> None:
        """Stores what a notice, which is out already, names; if that fails `clear` puts the result back."""
        store = self._context.needed_store(work.call)
        try:
            stored = await store.put(work.call, text, path)
            await store.records.add(_record(work.call, stored, source_hash, shown))
        except Exception as error:  # noqa: BLE001 - any environment's error is subject to the one policy
            self._context.undo[_visible_hash(work.parts, shown[0])] = list(zip(work.parts.texts, shown[0], strict=True))
            self._context.failures.append(error)
            await self._decided(work, None, "failed", f"the offload could not be stored: {one_line(error)}")
        else:
            self._context.undo.pop(_visible_hash(work.parts, shown[0]), None)

    def _redacted(self, text: str) -> str:
        return redacted(self._config.redact, text)

    def _shown(self, work: _Work, text: str, path: str | None, error: str = "") -> tuple[Texts, Any]:
        """The new texts, and how the record keeps them."""
        if work.parts.plain:
            return self._shown_plain(work, text, path, error)
        cut = cut_blocks(
            [self._redacted(block) for block in work.parts.texts if block is not None],
            work.budget.preview,
            self._notices.cut,
        )
        left = iter(cut)
        texts: Texts = [None if old is None else next(left) for old in work.parts.texts]
        notice = self._notice(work, text, path, error, omitted=len(text) - sum(len(block) for block in cut if block))
        changed = [i for i, old in enumerate(work.parts.texts) if old is not None and texts[i] != old]
        texts[changed[0]] = f"{notice}\n{texts[changed[0]] or ''}"
        return texts, texts

    def _shown_plain(self, work: _Work, text: str, path: str | None, error: str) -> tuple[Texts, Any]:
        shape = None if path is None else shape_of(work.preview, text, work.budget.preview)
        if shape is not None and _is_lighter(shape, text, work.budget.frame):
            notice = self._notice(work, text, path, error, shape=shape)
            return [notice], notice
        head, tail = head_and_tail(text, work.budget.preview)
        notice = self._notice(work, text, path, error, head=head, tail=tail, omitted=len(text) - len(head) - len(tail))
        return [notice], pack(notice, head, tail)

    def _notice(self, work: _Work, text: str, path: str | None, error: str, **shown: Any) -> str:
        template = self._notices.unsaved
        if path is not None:
            template = self._notices.shaped if "shape" in shown else self._notices.truncated
        values = {
            "path": path or "",
            "hint": hint_for(self._config, self._notices, path or ""),
            "error": error,
            "characters": len(text),
            "lines": lines_in(text),
            "head_characters": len(shown.get("head", "")),
            "tail_characters": len(shown.get("tail", "")),
            **shown,
        }
        return fill(template, work.call.name, values)

    async def _failed(self, work: _Work, error: Exception) -> Texts | None:
        policy = self._config.on_offload_error
        texts: Texts | None = None
        if policy == "truncate":
            texts = self._without_offload(work, one_line(error))
        await self._decided(work, texts, "failed", f"the offload could not be stored: {one_line(error)}")
        if policy == "raise":
            raise error
        return texts

    def _without_offload(self, work: _Work, error: str) -> Texts:
        """The new texts if nothing could be stored; they show nothing of a text that could not be redacted."""
        text = work.parts.joined()
        try:
            return self._shown(work, self._redacted(text), None, error)[0]
        except Exception:  # noqa: BLE001 - the redaction's own error, which `error` tells already
            texts: Texts = [None] * len(work.parts.texts)
            first = next(i for i, old in enumerate(work.parts.texts) if old is not None)
            texts[first] = self._notice(work, text, None, error, omitted=len(text))
            return texts

    async def _decided(
        self, work: _Work, texts: Texts | None, action: Action, reason: str, path: str | None = None
    ) -> None:
        shown = work.parts.texts if texts is None else texts
        await self._context.report(
            Decision(
                phase="truncate",
                tool=work.call.name,
                call_id=work.call.id,
                action=action,
                reason=reason,
                before_chars=work.parts.length,
                after_chars=work.parts.length if texts is None else sum(len(text) for text in texts if text),
                before_tokens=sum(approximate_tokens(text) for text in work.parts.texts if text),
                after_tokens=sum(approximate_tokens(text) for text in shown if text),
                path=path,
            )
        )


async def store_for_handler(context: Context, call: ToolCall, result: Any, answer: Reduced) -> Reduced | None:
    """Stores what a handler wants stored, and gives its answer with the path in it; None if it could not be stored.

    Raises:
        ConfigError: There is no environment.
        SteadError: It could not be stored and the policy is `"raise"`.
    """
    if answer.offload is None:
        return answer
    store = context.needed_store(call)
    offload = answer.offload
    parts = parts_of(carried(result)[0])
    source = texts_hash([repr(result)]) if parts is None else parts.source_hash()
    decision = Decision(phase="truncate", tool=call.name, call_id=call.id, action="reduced", reason="its handler said")
    try:
        content = await off_loop(len(offload), lambda: redacted_content(context.config.redact, offload))
        stored = await store.put(call, content, answer.path)
        await store.records.add(OffloadRecord.of("truncated", call, stored, source_hash=source))
    except Exception as error:
        reason = f"the offload of its handler could not be stored: {one_line(error)}"
        await context.report(decision._replace(action="failed", reason=reason))
        if context.config.on_offload_error == "raise":
            raise
        return None
    await context.report(decision._replace(path=stored.path))
    shown = answer.result
    shown = shown.replace("{path}", stored.path) if isinstance(shown, str) else shown
    return dataclasses.replace(answer, result=shown)


def _record(call: ToolCall, stored: Stored, source_hash: str, shown: tuple[Texts, Any]) -> OffloadRecord:
    texts, packed = shown
    record = OffloadRecord.of("truncated", call, stored, source_hash=source_hash)
    visible = texts_hash([text for text in texts if text is not None])
    return dataclasses.replace(record, replacement=packed, replacement_sha256=visible)


def _is_lighter(shape: str, text: str, frame: int) -> bool:
    """False for a shape of so many marks and digits that it weighs more than a text that is hardly too long."""
    weight = weight_in_chars(shape) + frame
    return weight <= len(text) or weight <= weight_in_chars(text)


def _visible_hash(parts: Parts, texts: Texts) -> str:
    """Hash of the texts of a result as it was given out, without the blocks that were left out of it."""
    return texts_hash([new for old, new in zip(parts.texts, texts, strict=True) if old is None or new is not None])


def _recorded(record: OffloadRecord, text: str) -> Texts | None:
    texts = unpack(record.replacement, text)
    return [texts] if isinstance(texts, str) else texts
