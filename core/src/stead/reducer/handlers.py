"""Handlers of the caller's, for results that come as a stream."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from stead.reducer.calls import Reduced, ToolCall
from stead.reducer.config import Handler
from stead.reducer.context import Context
from stead.reducer.stream import closing
from stead.reducer.truncate import store_for_handler

__all__ = ["handle_stream", "handler", "is_streaming", "passed_through"]


def handler(*, streaming: bool) -> Callable[[Handler], Handler]:
    """A decorator that says what kind of result a handler takes.

    Args:
        streaming: True if it takes a streaming tool's result as an async iterator, and may return one. Any other
            handler gets the whole result of a streaming tool.
    """

    def mark(function: Handler) -> Handler:
        function.__dict__["stead_streaming"] = streaming
        return function

    return mark


def is_streaming(function: Handler) -> bool:
    """True for a handler that was made with `streaming=True`."""
    return getattr(function, "stead_streaming", False) is True


async def handle_stream(
    context: Context, call: ToolCall, source: AsyncIterable[Any], function: Handler
) -> AsyncGenerator[Any, None]:
    """What a handler makes of a stream.

    Args:
        context: The reducer's settings and means.
        call: The call that the stream answers.
        source: Texts, blocks, or lists of blocks.
        function: The caller's handler.

    Yields:
        The handler's items; the source's own if it wants no change or the source failed.

    Raises:
        TypeError: The handler answers with something else.
        Exception: What the source or the handler raised; the source's after all of its items.
    """
    async with closing(source) as items:
        seen = _Seen(items)
        answer = await _answered(call, seen, function)
        if answer is not None and not isinstance(answer, Reduced):
            if not hasattr(answer, "__aiter__"):
                raise TypeError(f"a handler must return Reduced, an async iterator or None, not {type(answer)}")
            seen.keep = False
            async with closing(answer) as made:
                async for item in made:
                    yield item
            return
        if answer is not None:
            answer = await store_for_handler(context, call, joined(seen.kept), answer)
        if answer is not None:
            yield answer.result
            return
        # No change is wanted, or it could not be stored: the handler may have read only a part.
        for item in seen.kept:
            yield item
        seen.keep = False
        async for item in seen:
            yield item


async def passed_through(source: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    """The source as it is, closed when the consumer leaves.

    Args:
        source: Any async iterable.
    """
    async with closing(source) as items:
        async for item in items:
            yield item


async def _answered(call: ToolCall, seen: "_Seen", function: Handler) -> Any:
    """What a handler answers; None also if the source failed and the handler let that pass."""
    if not is_streaming(function):
        await seen.read_all()
        return None if seen.error is not None else await function(call, joined(seen.kept))
    try:
        return await function(call, seen)
    except Exception as error:
        if error is not seen.error:
            raise
        return None


class _Seen:
    """The source's items, kept until it is known that nobody needs them again."""

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items = items
        self.kept: list[Any] = []
        self.keep = True
        self.error: Exception | None = None

    def __aiter__(self) -> "_Seen":
        return self

    async def __anext__(self) -> Any:
        if self.error is not None:
            raise self.error
        try:
            item = await anext(self._items)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self.error = error
            raise
        if self.keep:
            self.kept.append(item)
        return item

    async def read_all(self) -> None:
        """Reads to the end; an error is kept for whoever goes on reading."""
        with suppress(Exception):  # Kept in `error`: whoever reads on gets it after all items.
            async for _ in self:
                pass


def joined(items: list[Any]) -> Any:
    """The whole result of a stream: one text of texts, one list of blocks.

    Args:
        items: What the source gave.
    """
    if all(isinstance(item, str) for item in items):
        return "".join(items)
    return [block for item in items for block in (item if isinstance(item, list) else [item])]
