"""From what was written to what a backend's class is called with."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from stead.config.names import hint
from stead.config.options import Layer, Option, OptionTable, table_keys
from stead.config.secrets import is_reference, masked, read_reference, revealed, scrubbed, secrets_in
from stead.errors import ConfigError

__all__ = ["NO_FLAG", "Arguments", "arguments", "flag_for_number", "problem_text"]

NO_FLAG = "input should be a number, not true or false"


@dataclass(frozen=True, slots=True, repr=False)
class Arguments:
    """What to call the class with."""

    values: dict[str, Any]
    secrets: tuple[str, ...]
    """Texts that must not appear in a message."""


def arguments(
    called: str, table: OptionTable, layers: Sequence[Layer], *, leave_out: frozenset[str] = frozenset()
) -> Arguments:
    """Checks options and makes them what the backend's class takes.

    Args:
        called: What messages call the environment.
        table: The options it has.
        layers: Where options came from; an earlier layer wins.
        leave_out: Options that are given, but are not to be looked at.

    Raises:
        ConfigError: An option is unknown, missing, of the wrong type, or names a secret that is not there. No message
            holds a secret.
    """
    given: dict[str, Layer] = {}
    for layer in layers:
        table.check_names(layer)
        for name in layer.values:
            given.setdefault(name, layer)
    given = {name: layer for name, layer in given.items() if name not in leave_out}
    found = {name: _value(table.options.get(name, Option(name)), layer) for name, layer in given.items()}
    secrets = tuple(
        secret for name, item in found.items() for secret in secrets_in(masked(item, secret=table.is_secret(name)))
    )
    values = {name: revealed(item) for name, item in found.items()}
    try:
        if table.model is None:
            return Arguments(_fitted(called, table, given, values, leave_out), secrets)
        return Arguments(_validated(called, table.model, given, values, leave_out), secrets)
    except ConfigError as error:
        raise ConfigError(scrubbed(error.message, secrets)) from None
    except Exception as error:  # noqa: BLE001 - a check of the backend's own, which may repeat a secret
        raise ConfigError(f"{called}: {type(error).__name__}: {scrubbed(str(error), secrets)}") from None


def _value(option: Option, layer: Layer) -> object:
    raw, label = revealed(layer.values[option.name]), layer.label(option.name)
    if isinstance(raw, dict):
        if option.is_table:
            return {key: _resolved(item, layer, f"{label}.{key}") for key, item in raw.items()}
        if is_reference(raw):
            return read_reference(raw, folder=layer.folder, where=label)
        if option.annotation is not Any:
            raise ConfigError(f'{label} takes no table but {{ env = "NAME" }} or {{ file = "path" }}')
    if isinstance(raw, str) and layer.kind == "file" and option.is_path:
        return layer.folder / os.path.expanduser(raw)
    if isinstance(raw, str) and layer.kind == "variable":
        return _decoded(option, raw)
    return raw


def _resolved(value: object, layer: Layer, label: str) -> object:
    if is_reference(value):
        return read_reference(value, folder=layer.folder, where=label)
    if isinstance(value, dict):
        return {key: _resolved(item, layer, f"{label}.{key}") for key, item in value.items()}
    return value


def _decoded(option: Option, text: str) -> object:
    """A variable's text; where the option is a list or a table, what it says as JSON."""
    adapter = _adapter(option)
    if adapter is None or not text.startswith(("[", "{")):
        return text
    try:
        adapter.validate_python(text)
    except ValidationError:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _adapter(option: Option) -> TypeAdapter[Any] | None:
    # A type that pydantic does not know is left to the class itself.
    if option.annotation is Any:
        return None
    try:
        return TypeAdapter(option.annotation)
    except (PydanticUserError, TypeError, NameError):
        return None


def _fitted(
    called: str, table: OptionTable, given: Mapping[str, Layer], values: dict[str, Any], leave_out: frozenset[str]
) -> dict[str, Any]:
    """Checks against a signature: what the caller gave stays as it is, what was written down gets its type."""
    for option in table.options.values():
        if option.required and option.name not in values and option.name not in leave_out:
            raise ConfigError(f"{called} needs the option {option.name!r}")
    for name, layer in given.items():
        adapter = _adapter(table.options.get(name, Option(name)))
        if layer.kind == "keyword" or adapter is None:
            continue
        try:
            checked = adapter.validate_python(values[name])
        except ValidationError as error:
            raise ConfigError(f"{layer.label(name)}: {problem_text(error.errors()[0])}") from None
        keys = flag_for_number(values[name], checked)
        if keys is not None:
            raise ConfigError(f"{_keyed(layer.label(name), keys)}: {NO_FLAG}")
        values[name] = checked
    return values


def _validated(
    called: str, model: Any, given: Mapping[str, Layer], values: dict[str, Any], leave_out: frozenset[str]
) -> dict[str, Any]:
    """Checks against a pydantic model. Only what was given is returned: the class has defaults of its own."""
    try:
        checked = model.model_validate(values)
    except ValidationError as error:
        found = [item for item in error.errors(include_url=False) if not leave_out.intersection(item["loc"][:1])]
        if found:
            raise ConfigError("; ".join(_problem(called, model, given, item) for item in found)) from None
        return {}
    dumped = {name: revealed(value) for name, value in checked.model_dump(exclude_unset=True).items()}
    keys = flag_for_number(values, dumped)
    if keys is not None:
        raise ConfigError(f"{_keyed(given[str(keys[0])].label(str(keys[0])), keys[1:])}: {NO_FLAG}")
    return dumped


def _problem(called: str, model: Any, given: Mapping[str, Layer], error: Any) -> str:
    loc = error["loc"]
    if not loc:
        return f"{called}: {problem_text(error)}"
    name = str(loc[0])
    if error["type"] == "missing" and len(loc) == 1:
        return f"{called} needs the option {name!r}"
    label = given[name].label(name) if name in given else f"option {name!r}"
    label = _keyed(label, loc[1:])
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{label} is unknown; {hint(str(loc[-1]), table_keys(model.model_fields[name].annotation))}"
    return f"{label}: {problem_text(error)}"


def _keyed(label: str, keys: Sequence[object]) -> str:
    return f"{label}: key {'.'.join(map(str, keys))!r}" if keys else label


def flag_for_number(given: object, checked: object) -> tuple[object, ...] | None:
    """Finds a `true` or `false` that was taken for the number 1 or 0, as pydantic does.

    Args:
        given: What was written.
        checked: What became of it.

    Returns:
        The keys that lead to it, none if it is the value itself; None if there is no such flag.
    """
    if isinstance(given, bool):
        return () if isinstance(checked, (int, float)) and not isinstance(checked, bool) else None
    pairs: Iterable[tuple[object, object, object]] = ()
    if isinstance(given, Mapping):
        fields = checked if isinstance(checked, Mapping) else getattr(checked, "__dict__", {})
        pairs = ((key, item, fields.get(key)) for key, item in given.items())
    elif isinstance(given, (list, tuple)) and isinstance(checked, Iterable):
        pairs = ((number, *both) for number, both in enumerate(zip(given, checked, strict=False)))
    for key, item, made in pairs:
        found = flag_for_number(item, made)
        if found is not None:
            return (key, *found)
    return None


def problem_text(error: Any) -> str:
    """What pydantic says about a value, without the value."""
    text = str(error["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
