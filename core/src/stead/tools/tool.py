"""What a tool is: a name, a description, a JSON schema, and an async call that answers a model's mistakes with text."""

import difflib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from stead.errors import SteadError

__all__ = ["Arguments", "Tool", "ToolError", "ToolResult", "Whole", "make_tool"]

ToolResult = dict[str, Any]
"""What a call returns: plain JSON data with `"status"`, which is `"ok"` or `"error"`."""

# Faults of the code, not of the call: they must not be shown to a model as if it could help it.
_PROGRAMMING = (
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    AssertionError,
    ImportError,
    NotImplementedError,
    RecursionError,
    MemoryError,
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class ToolError(Exception):
    """Inside a tool: the answer is an error with this text, which says what to do next.

    Attributes:
        fields: Further fields of the answer, such as `total_lines`.
    """

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields


def _whole(value: Any) -> Any:
    # Pydantic alone takes True for 1 and 1.0 for 1; a model that sends those means something else.
    if isinstance(value, (bool, float)):
        raise ValueError(f"must be a whole number, not {value!r}")  # noqa: TRY004  (pydantic collects ValueErrors)
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number; a string of digits will do, a bool or a float will not."""


class Arguments(BaseModel):
    """Base of the arguments of one tool. Field descriptions are what the model reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """One tool, for any framework: hand `name`, `description` and `parameters` to the model, and its call to `call`."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments: an object that allows no others."""
    is_reader: bool = False
    """True if the answers are parts of stored text, which a reducer must never offload again."""
    _answer: Callable[[Mapping[str, Any]], Awaitable[ToolResult]] = field(repr=False)

    async def __call__(self, /, **arguments: Any) -> ToolResult:
        """Runs the tool with keyword arguments. See `call`."""
        return await self.call(arguments)

    async def call(self, arguments: Mapping[str, Any] | str | bytes | None = None) -> ToolResult:
        """Runs the tool with the arguments as a model sent them.

        Args:
            arguments: A mapping, or its JSON text; None and empty text are no arguments.

        Returns:
            `{"status": "ok", ...}`, or `{"status": "error", "error": text, ...}` for wrong arguments and for what the
            environment refused. It can always be dumped to JSON and encoded as UTF-8.
        """
        try:
            answer = await self._answer(_mapping(arguments))
        except ToolError as error:
            answer = {"status": "error", "error": str(error), **error.fields}
        return {key: printable(value) for key, value in answer.items()}


def make_tool(
    *,
    name: str,
    description: str,
    arguments: type[ArgumentsT],
    run: Callable[[ArgumentsT], Awaitable[ToolResult]],
    explain: Callable[[Exception], str],
    is_reader: bool = False,
) -> Tool:
    """Makes a tool of a function and the model of its arguments.

    Args:
        name: What the model calls it.
        description: What it does, for a model.
        arguments: Checks the arguments and describes them.
        run: Returns the fields of an ok answer, or raises.
        explain: Turns an error of the environment into text that says what to do next.
        is_reader: See `Tool.is_reader`.
    """

    async def answer(given: Mapping[str, Any]) -> ToolResult:
        try:
            checked = arguments.model_validate(dict(given))
        except ValidationError as error:
            raise ToolError(_mistakes(name, arguments, error)) from None
        try:
            return {"status": "ok", **await run(checked)}
        except ToolError:
            raise
        except Exception as error:
            if isinstance(error, _PROGRAMMING) and not isinstance(error, SteadError):
                raise
            raise ToolError(explain(error)) from error

    schema = parameters_of(arguments)
    return Tool(name=name, description=description, parameters=schema, is_reader=is_reader, _answer=answer)


def parameters_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of the arguments, without what only costs a model tokens.

    An optional field shows its plain type: leaving it out is the way not to give it, although null is accepted.
    """
    schema = arguments.model_json_schema()
    properties = {}
    for name, given in schema.get("properties", {}).items():
        kept = {key: value for key, value in given.items() if key not in ("title", "anyOf")}
        for choice in given.get("anyOf", ()):
            if choice != {"type": "null"}:
                kept = {**choice, **kept}
        if kept.get("default", ...) is None:
            del kept["default"]
        properties[name] = kept
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def printable(value: Any) -> Any:
    """The same JSON data with U+FFFD for each lone surrogate, which could not be encoded."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {key: printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [printable(item) for item in value]
    return value


def _mapping(arguments: Mapping[str, Any] | str | bytes | None) -> Mapping[str, Any]:
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments) if arguments.strip() else None
        except (ValueError, RecursionError) as error:
            raise ToolError(f"The arguments are not valid JSON ({error}); send one JSON object.") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ToolError(f"The arguments must be one JSON object, not {type(arguments).__name__}.")
    return arguments


def _mistakes(name: str, arguments: type[Arguments], error: ValidationError) -> str:
    fields = arguments.model_fields
    mistakes = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            near = difflib.get_close_matches(where, list(fields), n=1)
            mistakes.append(f"there is no argument {where[:60]!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
        elif item["type"] == "missing":
            mistakes.append(f"{where} is required")
        else:
            mistakes.append(f"{where}: {item['msg'].removeprefix('Value error, ')}")
    known = ", ".join(key if info.is_required() else f"{key} (optional)" for key, info in fields.items())
    return f"Wrong arguments for {name}: {'; '.join(mistakes)}. It takes {known}."
