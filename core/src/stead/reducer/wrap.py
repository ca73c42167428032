"""A tool with its results reduced: sync or async, one result or a stream, text or blocks."""

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import json
import reprlib
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from stead.reducer.calls import ToolCall, current_call_id
from stead.reducer.names import digest

__all__ = ["CallId", "Reduces", "wrap_tool"]

_SHORT_FIELD = 200
"""Characters of a field of an answer (status, path, error) that is never part of an offload."""
CallId = str | Callable[[], str | None] | None


class Reduces(Protocol):
    """What the wrapper needs of a reducer."""

    async def truncate(self, call: ToolCall, result: Any) -> Any:
        """Reduces one result."""

    def truncate_stream(self, call: ToolCall, source: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
        """Reduces a stream."""

    def add_reader(self, name: str) -> None:
        """Exempts a tool that reads offloads."""


def wrap_tool(reducer: Reduces, tool: Callable[..., Any], *, name: str | None, call_id: CallId) -> Any:
    """Builds the wrapper; see `Reducer.wrap`."""
    tool_name = name or getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__
    if getattr(tool, "is_reader", False) is True:
        reducer.add_reader(tool_name)

    if _is_stead_tool(tool):
        return _wrap_stead_tool(reducer, tool, call_id, tool_name)

    if _is_generator(tool):
        return _dress(_wrap_generator(reducer, tool, call_id, tool_name), tool, tool_name)

    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = ToolCall(_id_of(call_id, tool_name, args, kwargs), tool_name, _arguments(tool, args, kwargs))
        result = await _run(tool, args, kwargs)
        # A plain function can hand back a stream too; whoever awaited the call then iterates the answer.
        stream = hasattr(result, "__aiter__")
        return reducer.truncate_stream(call, result) if stream else await reducer.truncate(call, result)

    return _dress(wrapped, tool, tool_name)


def _is_stead_tool(tool: object) -> bool:
    # Importing the tools would import pydantic; a tool can only be there if they were imported already.
    tools = sys.modules.get("stead.tools.tool")
    return tools is not None and isinstance(tool, tools.Tool)


def _wrap_stead_tool(reducer: Reduces, tool: Any, call_id: CallId, name: str) -> Any:
    """A tool of the same kind: its answer stays a dict of the same keys, and only the texts in it get shorter."""

    async def answer(arguments: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = await tool.call(arguments)
        keys = [key for key, value in result.items() if isinstance(value, str) and len(value) > _SHORT_FIELD]
        call = ToolCall(_id_of(call_id, name, (), arguments), name, arguments)
        blocks = [{"type": "text", "text": result[key], "key": key} for key in keys]
        shorter = await reducer.truncate(call, blocks)
        if shorter is blocks:
            return result
        return {**result, **dict.fromkeys(keys, ""), **{block["key"]: block["text"] for block in shorter}}

    return dataclasses.replace(tool, name=name, _answer=answer)


def _wrap_generator(reducer: Reduces, tool: Callable[..., Any], call_id: CallId, name: str) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        call = ToolCall(_id_of(call_id, name, args, kwargs), name, _arguments(tool, args, kwargs))
        source = tool(*args, **kwargs)
        source = source if hasattr(source, "__aiter__") else _in_thread(source)
        async with aclosing(reducer.truncate_stream(call, source)) as chunks:
            async for chunk in chunks:
                yield chunk

    return wrapped


async def _in_thread(source: Generator[Any, None, None]) -> AsyncGenerator[Any, None]:
    done = object()
    try:
        while (item := await asyncio.to_thread(next, source, done)) is not done:
            yield item
    finally:
        # If a step was given up it still runs in its thread, and a running generator cannot be closed.
        with contextlib.suppress(ValueError):
            source.close()


async def _run(tool: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if _is_async(tool):
        return await tool(*args, **kwargs)
    # In a thread, since a sync tool would hold up everything else on the loop; context variables go along.
    result = await asyncio.to_thread(_called, tool, args, kwargs)
    return await result if inspect.isawaitable(result) else result


def _called(tool: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    try:
        return tool(*args, **kwargs)
    except StopIteration as error:
        # A thread cannot hand it on to its loop, which would wait for ever; Python does the same in coroutines.
        raise RuntimeError("the tool raised StopIteration") from error


def _is_async(tool: Callable[..., Any]) -> bool:
    return any(inspect.iscoroutinefunction(function) for function in _functions(tool))


def _is_generator(tool: Callable[..., Any]) -> bool:
    return any(inspect.isasyncgenfunction(f) or inspect.isgeneratorfunction(f) for f in _functions(tool))


def _functions(tool: Callable[..., Any]) -> list[Any]:
    """What runs when the tool is called: itself, what a partial wraps, or an object's own call."""
    while isinstance(tool, functools.partial):
        tool = tool.func
    return [tool, type(tool).__call__]


def _dress(wrapped: Callable[..., Any], tool: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Gives the wrapper the tool's name, docstring, signature and annotations: frameworks build schemas from them."""
    functools.update_wrapper(wrapped, tool, updated=())
    wrapped.__name__ = name
    with contextlib.suppress(TypeError, ValueError):  # Some builtins have no signature to give.
        wrapped.__signature__ = inspect.signature(tool)  # type: ignore[attr-defined]
    return wrapped


def _arguments(tool: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    if not args:
        return dict(kwargs)
    try:
        return dict(inspect.signature(tool).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {"args": args, **kwargs}


def _id_of(call_id: CallId, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    given = call_id() if callable(call_id) else call_id
    if given := given or current_call_id.get():
        return given
    # From name and arguments, so that a retry of the same call lands on the same file.
    return f"{name}-{digest(name, _stable_text([args, kwargs]))[:12]}"


def _stable_text(value: Any) -> str:
    try:
        return json.dumps(value, default=repr, sort_keys=True)
    except RecursionError:
        return reprlib.repr(value)
    except (TypeError, ValueError):  # Keys that are no strings or cannot be sorted; an object inside itself.
        return repr(value)
