"""Truncation: a long result becomes head, tail and a notice that names where all of it is."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from stead.errors import ConfigError
from stead.reducer.blocks import Parts, parts_of, with_text
from stead.reducer.budget import ERROR_CHARS, Budget, budget_for, fill, hint_for
from stead.reducer.calls import Action, Decision, Reduced, ToolCall
from stead.reducer.config import Handler, ReducerConfig
from stead.reducer.copying import carried
from stead.reducer.preview import clean_text, cut_blocks, head_and_tail
from stead.reducer.records import OffloadRecord, hash_text
from stead.reducer.replacement import pack, unpack
from stead.reducer.rules import rule_for
from stead.reducer.store import SessionStore, new_record

__all__ = ["Truncation"]

# The text of each block of the result; None leaves the block out if it was text. A plain result has one.
Texts = list[str | None]


@dataclass(frozen=True, slots=True)
class _Work:
    """One long result on its way."""

    call: ToolCall
    parts: Parts
    budget: Budget
    path: str | None
    """Where the caller's generator wants it."""


class Truncation:
    """The first phase, for results that are there as a whole."""

    def __init__(
        self,
        config: ReducerConfig,
        *,
        store_for: Callable[[str], SessionStore | None],
        readers: set[str],
        report: Callable[[Decision], Awaitable[None]],
    ) -> None:
        self._config = config
        self._notices = config.notices()
        self._store_for = store_for
        self._readers = readers
        self._report = report

    async def run(self, call: ToolCall, result: Any) -> Any:
        """Reduces a result if it is too long; otherwise the same object is returned."""
        rule = rule_for(self._config, "truncate", call.name, self._readers)
        if isinstance(rule, str):
            return result
        if rule.handler is not None:
            return await self._by_handler(call, result, rule.handler)
        content, rebuild = carried(result)
        parts = parts_of(content)
        if parts is None or parts.length <= self._config.max_length_for_trunc:
            return result
        path = await self._own_path(call)
        budget = self.budget(call, path)
        if parts.length <= budget.threshold:
            return result
        texts = await self._reduce(_Work(call, parts, budget, path))
        return result if texts is None else rebuild(_assemble(parts, texts))

    def budget(self, call: ToolCall, path: str | None) -> Budget:
        """The sizes of a call's answer."""
        store = self._store_for(call.name)
        folder = store.folder if store is not None else ""
        return budget_for(self._config, self._notices, tool=call.name, folder=folder, path=path)

    async def _own_path(self, call: ToolCall) -> str | None:
        generate = self._config.gen_trunc_offload_file_path
        if generate is None:
            return None
        path = generate(call)
        return await path if inspect.isawaitable(path) else path

    # ---- the built-in way ------------------------------------------------------------------------------------------

    async def _reduce(self, work: _Work) -> Texts | None:
        """The new text of each block, or None if the result stays as it is."""
        stored = clean_text(self._redacted(work.parts.joined()))
        try:
            texts, path = await self._offloaded(work, stored)
        except Exception as error:  # noqa: BLE001 - any environment's error is subject to the one policy
            return await self._failed(work, stored, error)
        if texts is None or sum(len(text) for text in texts if text) >= work.parts.length:
            await self._decided(work, None, "kept", "it is a notice of this session already, or no notice is shorter")
            return None
        await self._decided(work, texts, "reduced", self._reason(work), path)
        return texts

    async def _offloaded(self, work: _Work, stored: str) -> tuple[Texts | None, str | None]:
        store = self._store_for(work.call.name)
        if store is None:
            raise ConfigError("truncation needs an environment to store in")
        source_hash = _source_hash(work.parts)
        known = await store.find("truncate", work.call.id, source_hash)
        if known is not None and (texts := _recorded(known, stored)) is not None:
            return texts, known.path
        if work.parts.plain and await store.find_replacement(work.parts.joined()) is not None:
            return None, None
        content = stored.encode()
        path = await store.put(work.call, content, work.path)
        texts, packed = self._shown(work, stored, path)
        record = new_record(work.call, session=store.session, path=path, content=content, source_hash=source_hash)
        visible = texts[0] if work.parts.plain and texts[0] else None
        sha = hash_text(visible) if visible is not None else ""
        await store.record(replace(record, replacement=packed, replacement_sha256=sha))
        return texts, path

    def _shown(self, work: _Work, stored: str, path: str | None, error: str = "") -> tuple[Texts, Any]:
        """The new texts, and how the record keeps them."""
        head, tail = ("", "") if not work.parts.plain else head_and_tail(stored, work.budget.preview)
        omitted = len(stored) - len(head) - len(tail)
        pieces: Texts = []
        if not work.parts.plain:
            cut = cut_blocks(self._block_texts(work.parts), work.budget.preview, self._notices.cut)
            pieces = _spread(work.parts, cut)
            omitted = len(stored) - sum(len(text) for text in cut if text)
        notice = fill(
            self._notices.truncated if path is not None else self._notices.unsaved,
            tool=work.call.name,
            path=path or "",
            hint=hint_for(self._config, self._notices, path or ""),
            error=error,
            characters=len(stored),
            lines=stored.count("\n") + (not stored.endswith("\n")),
            head=head,
            tail=tail,
            head_characters=len(head),
            tail_characters=len(tail),
            omitted=omitted,
        )
        if work.parts.plain:
            return [notice], pack(notice, head, tail)
        first = next(i for i, old in enumerate(work.parts.texts) if old is not None and pieces[i] != old)
        pieces[first] = f"{notice}\n{pieces[first] or ''}"
        return pieces, pieces

    def _block_texts(self, parts: Parts) -> list[str]:
        return [clean_text(self._redacted(text)) for text in parts.texts if text is not None]

    def _redacted(self, text: str) -> str:
        redact = self._config.redact
        return text if redact is None else "".join(redact(line) for line in text.splitlines(keepends=True))

    def _reason(self, work: _Work) -> str:
        return f"{work.parts.length} characters are more than {self._config.max_length_for_trunc}"

    # ---- a store that fails ----------------------------------------------------------------------------------------

    async def _failed(self, work: _Work, stored: str, error: Exception) -> Texts | None:
        policy = self._config.on_offload_error
        texts: Texts | None = None
        if policy == "truncate":
            texts, _ = self._shown(work, stored, None, error=_one_line(error))
        await self._decided(work, texts, "failed", f"the offload could not be stored: {_one_line(error)}")
        if policy == "raise":
            raise error
        return texts

    async def _decided(
        self, work: _Work, texts: Texts | None, action: Action, reason: str, path: str | None = None
    ) -> None:
        after = work.parts.length if texts is None else sum(len(text) for text in texts if text)
        await self._report(
            Decision(
                phase="truncate",
                tool=work.call.name,
                call_id=work.call.id,
                action=action,
                reason=reason,
                before_chars=work.parts.length,
                after_chars=after,
                path=path,
            )
        )

    # ---- a handler of the caller's ---------------------------------------------------------------------------------

    async def _by_handler(self, call: ToolCall, result: Any, handler: Handler) -> Any:
        answer = await handler(call, result)
        if answer is None:
            return result
        if not isinstance(answer, Reduced):
            raise TypeError(f"a trunc_handler must return Reduced or None, not {type(answer).__name__}")
        if answer.offload is None:
            return answer.result
        store = self._store_for(call.name)
        if store is None:
            raise ConfigError(f"the trunc_handler of {call.name!r} stores something, but there is no environment")
        content = answer.offload if isinstance(answer.offload, bytes) else clean_text(answer.offload).encode()
        path = await store.put(call, content, answer.path)
        source = hash_text(result) if isinstance(result, str) else hash_text(repr(result))
        await store.record(new_record(call, session=store.session, path=path, content=content, source_hash=source))
        return with_path(answer.result, path)


def with_path(result: Any, path: str) -> Any:
    """Puts the path where a handler's text says `{path}`."""
    return result.replace("{path}", path) if isinstance(result, str) else result


def _source_hash(parts: Parts) -> str:
    return hash_text("\0".join("\1" if text is None else text for text in parts.texts))


def _recorded(record: OffloadRecord, stored: str) -> Texts | None:
    texts = unpack(record.replacement, stored)
    return [texts] if isinstance(texts, str) else texts


def _spread(parts: Parts, cut: list[str | None]) -> Texts:
    left = iter(cut)
    return [None if text is None else next(left) for text in parts.texts]


def _assemble(parts: Parts, texts: Texts) -> Any:
    if parts.plain:
        return texts[0]
    kept = []
    for block, old, new in zip(parts.blocks, parts.texts, texts, strict=True):
        if old is None or new == old:
            kept.append(block)
        elif new is not None:
            kept.append(with_text(block, new))
    return kept


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= ERROR_CHARS else f"{text[: ERROR_CHARS - 3]}..."
