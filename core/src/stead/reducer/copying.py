"""Result objects of other libraries: the content in them, and copies with another content."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["carried", "replaced"]

_RESULT_KEYS = frozenset({"role", "tool_call_id", "tool_use_id", "is_error", "isError", "structuredContent"})


def carried(result: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The content of a result, and how to make a result of another content.

    Args:
        result: Content as it is, or a message or result object that holds it as `content`, such as LangChain's
            `ToolMessage`, MCP's `CallToolResult`, or a dict with `role` or `is_error` beside its `content`.
    """
    if isinstance(result, Mapping):
        if isinstance(result.get("content"), (str, list)) and not _RESULT_KEYS.isdisjoint(result):
            return result["content"], lambda content: {**result, "content": content}
    elif not isinstance(result, (str, bytes, list, tuple, int, float, type(None))):
        content = getattr(result, "content", None)
        if isinstance(content, (str, list)):
            return content, lambda new: replaced(result, "content", new)
    return result, lambda content: content


def replaced(obj: Any, name: str, value: Any) -> Any:
    """A copy of `obj` whose field `name` is `value`; every other field is the same object.

    Args:
        obj: A pydantic model, or any object that `copy.copy` takes.
        name: The field.
        value: Its new value.

    Raises:
        TypeError: The object can be neither copied nor changed.
    """
    if hasattr(obj, "model_copy"):
        return obj.model_copy(update={name: value})
    # Not dataclasses.replace: it would run the class's own __init__ again, with whatever that does.
    new = copy.copy(obj)
    try:
        object.__setattr__(new, name, value)
    except AttributeError as error:
        raise TypeError(f"{type(obj).__name__} cannot be copied with another {name}") from error
    return new
