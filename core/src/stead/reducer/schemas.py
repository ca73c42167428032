"""Tools of any kind as the schema that a provider gets of them, to be counted."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from stead.reducer.messages.blocks import json_text, read

__all__ = ["listed_tools", "schema_text"]

_PARAMETERS = ("parameters", "parameters_json_schema", "params_json_schema", "input_schema", "args_schema")


def listed_tools(tools: Iterable[Any]) -> tuple[Any, ...]:
    """The tools; of a mapping, such as `stead.tools.toolset` makes, its values.

    Args:
        tools: Tools.
    """
    return tuple(tools.values() if isinstance(tools, Mapping) else tools)


def schema_text(tool: Any) -> str:
    """A tool's schema as text; empty if it is no tool.

    Args:
        tool: A dict, a function, a pydantic class, or an object with a name, a description and parameters. A text
            counts as it is.
    """
    if isinstance(tool, str):
        return tool
    if isinstance(tool, Mapping):
        return json_text(tool)
    if not isinstance(tool, type):
        if callable(getattr(tool, "model_dump", None)) and read(tool, *_PARAMETERS) is None:
            return json_text(tool.model_dump(mode="json", exclude_none=True))
        parameters = _plain_schema(read(tool, *_PARAMETERS))
        fields = {"name": read(tool, "name"), "description": read(tool, "description"), "parameters": parameters}
        if found := {key: value for key, value in fields.items() if value is not None}:
            return json_text(found)
    return _of_callable(tool) if callable(tool) else ""


def _plain_schema(schema: Any) -> Any:
    make = getattr(schema, "model_json_schema", None)
    return make() if callable(make) else schema


def _of_callable(tool: Any) -> str:
    """A function or a class: frameworks make its schema of its name, docstring and signature."""
    if callable(getattr(tool, "model_json_schema", None)):
        return json_text(tool.model_json_schema())
    try:
        signature = str(inspect.signature(tool))
    except (TypeError, ValueError):  # some builtins have none
        signature = ""
    name = getattr(tool, "__name__", type(tool).__name__)
    return json_text({"name": name, "description": inspect.getdoc(tool) or "", "parameters": signature})
