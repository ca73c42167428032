"""Arguments of old calls with their long values cleared: still an object, or its JSON text, of the same keys."""

from collections.abc import Callable
from typing import Any

from stead.reducer.messages.blocks import json_text
from stead.reducer.messages.codec import Call, argument_object

__all__ = ["LONG_ARGUMENTS", "are_long", "arguments_text", "cleared_arguments"]

LONG_ARGUMENTS = 1_000
"""Arguments that are shorter altogether stay."""
_LEAST_VALUE_CHARS = 200
"""A shorter value stays: a path, a name, a number."""


def arguments_text(call: Call) -> str:
    """A call's arguments as text.

    Args:
        call: From a view.
    """
    arguments = call.arguments
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json_text(arguments)


def are_long(call: Call) -> bool:
    """True if a call's arguments may be cleared: they are not signed, and not short.

    Args:
        call: From a view.
    """
    arguments = call.arguments
    if arguments is None or call.signed:
        return False
    return not isinstance(arguments, str) or len(arguments) > LONG_ARGUMENTS


def cleared_arguments(call: Call, marker: Callable[[int], str]) -> Any:
    """The arguments with a marker in place of each long value; None if they stay as they are.

    Args:
        call: From a view. What the provider signed, and what is no object, stays.
        marker: The text for a value of so many characters.
    """
    if not are_long(call):
        return None
    if call.form == "text":
        text = arguments_text(call)
        return marker(len(text)) if len(text) > LONG_ARGUMENTS else None
    values = argument_object(call)
    if values is None or len(arguments_text(call)) <= LONG_ARGUMENTS:
        return None
    cleared = {key: _cleared_value(value, marker) for key, value in values.items()}
    return cleared if any(cleared[key] is not value for key, value in values.items()) else None


def _cleared_value(value: Any, marker: Callable[[int], str]) -> Any:
    if not isinstance(value, (str, dict, list, tuple)):
        return value
    text = value if isinstance(value, str) else json_text(value)
    shown = marker(len(text))
    return shown if len(text) > max(_LEAST_VALUE_CHARS, len(shown)) else value
