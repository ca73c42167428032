"""Streaming tools: what fits passes at once, the rest goes to the store as it arrives, and one notice ends the stream.

Whatever happens (the source fails, the consumer leaves or is cancelled, the store or the local disk fails), every
character of the source was handed on, is stored, or is handed on now.
"""

import asyncio
import dataclasses
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any

from stead.reducer.blocks import texts_hash
from stead.reducer.budget import fill, hint_for
from stead.reducer.calls import Decision, ToolCall
from stead.reducer.context import Context, approximate_tokens, one_line, own_path
from stead.reducer.gate import Gate, Passed
from stead.reducer.messages.blocks import block_text, with_text
from stead.reducer.records import OffloadRecord, Stored
from stead.reducer.redact import Redactor
from stead.reducer.replacement import pack
from stead.reducer.session import stop
from stead.reducer.spool import Spool

__all__ = ["closing", "reduce_stream"]

_TAIL_CHARS = 2_000
_LEAST_TAIL = 200


async def reduce_stream(context: Context, call: ToolCall, source: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    """The stream with its overlong rest replaced by a notice.

    Args:
        context: The reducer's settings and means.
        call: The call that the stream answers.
        source: Texts, blocks, or lists of blocks.

    Yields:
        Items of the source's kind.

    Raises:
        SteadError: The rest could not be stored and the policy is `"raise"`.
        Exception: What the source raised, after everything that it gave.
    """
    work = _Stream(context, call, await own_path(context.config.gen_trunc_offload_file_path, call))
    failure: Exception | None = None
    try:
        try:
            async with closing(source) as items:
                async for item in items:
                    for out in await work.feed(item):
                        yield out
                    async with aclosing(work.poured()) as texts:
                        async for out in texts:
                            yield out
        except Exception as error:  # noqa: BLE001 - raised again below, when all that came before it is safe
            failure = error
        async with aclosing(work.finish(complete=failure is None)) as rest:
            async for out in rest:
                yield out
    except (GeneratorExit, asyncio.CancelledError):
        await context.finish_in_background(work.abandon())
        raise
    finally:
        work.close()
    if failure is not None:
        raise failure


class _Stream:
    """One stream on its way."""

    def __init__(self, context: Context, call: ToolCall, path: str | None) -> None:
        self._context = context
        self._call = call
        self._path = path
        budget = context.budget(call, path)
        self._tail_chars = min(_TAIL_CHARS, budget.preview // 5)
        if self._tail_chars < _LEAST_TAIL:
            self._tail_chars = 0
        self._gate = Gate(passing=budget.preview - self._tail_chars, threshold=budget.threshold)
        self._redactor = Redactor(context.config.redact)
        self._tail = ""
        self._spool: Spool | None = None
        self._ended = asyncio.Event()
        self._storing: asyncio.Task[Stored] | None = None
        self._unstorable: Exception | None = None
        self._in_lists = False
        self._coming: deque[Any] = deque()
        self._raw = False
        self._pouring = False
        self._settled = False
        self._abandoned = False

    async def feed(self, item: Any) -> list[Any]:
        """Takes an item of the source; gives what can be handed on."""
        self._in_lists = isinstance(item, list)
        self._coming.extend(item if isinstance(item, list) else [item])
        out = await self._feed_coming()
        return [out] if self._in_lists and out else out

    async def _feed_coming(self) -> list[Any]:
        out = []
        while self._coming:
            block = self._coming.popleft()
            text = block_text(block)
            if text is None:
                # A line that is open ends here, as in a plain result: what came before the block stays before it.
                out += await self._feed_block(self._gate.last_text_block, await self._redacted(), 0)
                out += await self._feed_block(block, None, 0)
            else:
                out += await self._feed_block(block, await self._redacted(text), len(text))
        return out

    async def finish(self, *, complete: bool) -> AsyncGenerator[Any, None]:
        """Ends the stream: what was held back, or the notice, or (if nothing could be stored) the swallowed text.

        Raises:
            SteadError: The rest could not be stored and the policy is `"raise"`.
        """
        for block in await self._feed_block(self._gate.last_text_block, await self._redacted(), 0):
            yield self._item(block)
        async with aclosing(self.poured()) as texts:
            async for out in texts:
                yield out
        if not self._gate.closed or self._raw:
            for block in self._gate.release():
                yield self._item(block)
            self._settled = True
            return
        try:
            stored = await self._stored()
            notice = await self._record(stored, complete=complete)
        except Exception as error:  # noqa: BLE001 - any environment's error is subject to the one policy
            async with aclosing(self._without_store(error, complete=complete)) as rest:
                async for out in rest:
                    yield out
            return
        self._settled = True
        yield self._text_item(notice)

    async def poured(self) -> AsyncGenerator[Any, None]:
        """What was swallowed, once the local disk cannot hold it any more."""
        if not self._pouring:
            return
        self._pouring = False
        async with aclosing(self._swallowed()) as texts:
            async for text in texts:
                yield self._text_item(text)

    async def abandon(self) -> None:
        """The consumer is gone: stores what it was not handed."""
        self._abandoned = True
        try:
            if self._settled or self._raw:
                return
            late = await self._feed_coming()  # The rest of an item, if the consumer was cancelled within.
            late += await self._feed_block(self._gate.last_text_block, await self._redacted(), 0)
            if not self._gate.closed and (late or self._gate.holds):
                await self._start_spool(self._gate.seen_text)
            if self._spool is not None:
                await self._record(await self._stored(), complete=False)
        except Exception as error:  # noqa: BLE001 - nobody is left to raise it to; the report says it
            await self._failed(error, "the stream was closed before its end, and its rest could not be stored")
        finally:
            self._release()

    def close(self) -> None:
        """Releases the local file. Idempotent."""
        # The consumer may be gone for good while its rest is still being stored: that releases the file itself.
        if not self._abandoned:
            self._release()

    def _release(self) -> None:
        if self._storing is not None and not self._storing.done():
            self._storing.cancel()
        if self._spool is not None:
            self._spool.close()

    # ---- on the way ------------------------------------------------------------------------------------------------

    async def _redacted(self, text: str | None = None) -> str:
        """What may go on of a text, by the caller's redaction; without one the end of what it held back."""
        try:
            return self._redactor.finish() if text is None else self._redactor.feed(text)
        except Exception as error:  # noqa: BLE001 - what it raises is subject to the one policy
            # Nothing may be stored any more, nor shown in a notice; what comes goes the way of a store that failed.
            self._unstorable = error
            if self._storing is not None:
                await stop(self._storing)
            self._tail, self._tail_chars = "", 0
            held, self._redactor = self._redactor.held(), Redactor(None)
            return held

    async def _feed_block(self, block: Any, text: str | None, source_chars: int) -> list[Any]:
        if self._raw and not (self._pouring and text):
            return [block] if text is None else [with_text(block, text)] if text else []
        passed = Passed(swallowed=text or "") if self._raw else self._gate.feed(block, text, source_chars)
        try:
            if passed.overflowed:
                await self._start_spool(passed.swallowed)
            elif passed.swallowed:
                await self._spool_text(passed.swallowed)
        except OSError as error:
            if self._raw:  # What could not be written is in memory, and is poured with the rest.
                return passed.blocks
            # Nothing can be kept aside any more, so everything is handed on.
            self._raw = self._pouring = True
            await self._failed(error, "the local disk could not hold the output, which is handed on whole")
        return passed.blocks

    async def _start_spool(self, text: str) -> None:
        self._spool = Spool()
        # Before the first write: that can be cancelled. It begins when the text is in the spool's memory.
        if self._unstorable is None:
            self._storing = asyncio.create_task(self._put(self._spool))
        await self._spool_text(text)

    async def _put(self, spool: Spool) -> Stored:
        return await self._context.needed_store(self._call).put_spool(self._call, spool, self._path, self._ended)

    async def _spool_text(self, text: str) -> None:
        if self._spool is None:
            raise RuntimeError("nothing is spooled yet")
        self._keep_tail(await self._spool.write(text))

    def _keep_tail(self, text: str) -> None:
        if self._tail_chars:
            self._tail = (self._tail + text)[-self._tail_chars :]

    # ---- at the end ------------------------------------------------------------------------------------------------

    async def _stored(self) -> Stored:
        if self._spool is None:
            raise RuntimeError("nothing is spooled")
        self._keep_tail(await self._spool.end())
        self._ended.set()
        if self._unstorable is not None or self._storing is None:
            raise self._unstorable or RuntimeError("nothing is stored")
        return await asyncio.shield(self._storing)

    async def _record(self, stored: Stored, *, complete: bool) -> str:
        store = self._context.needed_store(self._call)
        notice = self._notice(stored.path, "", complete=complete)
        head = self._gate.passed_text
        record = OffloadRecord.of("truncated", self._call, stored, source_hash=stored.sha256)
        await store.records.add(
            dataclasses.replace(
                record,
                complete=complete,
                replacement=pack(head + notice, head, self._shown_tail()),
                replacement_sha256=texts_hash([head + notice]),
            )
        )
        reason = f"{self._gate.source_chars} characters are more than {self._context.config.max_length_for_trunc}"
        reason = reason if complete else f"{reason}; the stream ended early"
        await self._decided("reduced", reason, len(head + notice), stored.path)
        return notice

    def _notice(self, path: str | None, error: str, *, complete: bool) -> str:
        if self._spool is None:
            raise RuntimeError("nothing is spooled")
        notices, tail = self._context.notices, self._shown_tail()
        values: dict[str, str | int] = {
            "path": path or "",
            "hint": hint_for(self._context.config, notices, path or ""),
            "error": error,
            "incomplete": "" if complete else notices.incomplete,
            "characters": self._spool.characters,
            "lines": self._spool.newlines + (self._spool.characters > 0 and not self._spool.ends_line),
            "tail": tail,
            "tail_characters": len(tail),
            "omitted": self._spool.characters - len(self._gate.passed_text) - len(tail),
        }
        return fill(notices.streamed if path is not None else notices.streamed_unsaved, self._call.name, values)

    def _shown_tail(self) -> str:
        """The end of the text, without what was handed on already."""
        rest = 0 if self._spool is None else self._spool.characters - len(self._gate.passed_text)
        return self._tail[max(0, len(self._tail) - rest) :] if rest > 0 else ""

    async def _without_store(self, error: Exception, *, complete: bool) -> AsyncGenerator[Any, None]:
        policy = self._context.config.on_offload_error
        await self._failed(error, "the offload could not be stored")
        self._settled = True
        if policy == "truncate":
            yield self._text_item(self._notice(None, one_line(error), complete=complete))
            return
        if policy == "raise":
            raise error
        async with aclosing(self._swallowed()) as texts:
            async for text in texts:
                yield self._text_item(text)

    async def _swallowed(self) -> AsyncGenerator[str, None]:
        """The text that was not handed on."""
        if self._spool is None:
            return
        if self._storing is not None:
            await stop(self._storing)
        self._spool.stop()
        async with aclosing(self._spool.texts(len(self._gate.passed_text))) as texts:
            async for text in texts:
                yield text

    def _text_item(self, text: str) -> Any:
        return self._item(with_text(self._gate.last_text_block, text))

    def _item(self, block: Any) -> Any:
        """An item as the source gives them: a block, or a list of one."""
        return [block] if self._in_lists else block

    async def _failed(self, error: Exception, reason: str) -> None:
        await self._decided("failed", f"{reason}: {one_line(error)}", self._gate.source_chars, None)

    async def _decided(self, action: Any, reason: str, after_chars: int, path: str | None) -> None:
        await self._context.report(
            Decision(
                phase="truncate",
                tool=self._call.name,
                call_id=self._call.id,
                action=action,
                reason=reason,
                before_chars=self._gate.source_chars,
                after_chars=after_chars,
                before_tokens=approximate_tokens(self._gate.passed_text, self._gate.source_chars),
                after_tokens=approximate_tokens(self._gate.passed_text, after_chars),
                path=path,
            )
        )


def closing(source: AsyncIterable[Any]) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
    """The source's iterator, closed at the end if it can be.

    Args:
        source: Any async iterable.
    """
    items: Any = aiter(source)
    return aclosing(items) if hasattr(items, "aclose") else nullcontext(items)
