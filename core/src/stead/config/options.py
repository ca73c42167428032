"""The options of one environment: where each came from, and whether the backend can take it."""

import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretBytes, SecretStr

from stead.config.names import hint
from stead.config.secrets import looks_secret
from stead.errors import ConfigError
from stead.paths import check_state_dir

__all__ = [
    "BackendOptions",
    "Layer",
    "Option",
    "OptionTable",
    "StateDir",
    "keyword_layer",
    "table_keys",
    "variable_layer",
    "variable_prefix",
]


class BackendOptions(BaseModel):
    """Base for a backend's model of its options: a field for each parameter of its class, with the same default.

    A field of type `SecretStr` is never shown, one of type `pathlib.Path` is a path of this machine, and the docstring
    below a field is its description in the JSON Schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


StateDir = Annotated[str, AfterValidator(check_state_dir)]
"""The option `state_dir`, which every backend with files has: a folder below its working directory."""


@dataclass(frozen=True, slots=True)
class Option:
    """What is known about one option."""

    name: str
    annotation: Any = Any
    required: bool = False

    def members(self) -> tuple[Any, ...]:
        """The types that the annotation allows, taken out of unions and `Annotated`."""
        return _members(self.annotation)

    @property
    def is_secret(self) -> bool:
        """True if its type says that it must not be shown."""
        return any(member in (SecretStr, SecretBytes) for member in self.members())

    @property
    def is_path(self) -> bool:
        """True if it is a path of this machine, so that a relative one in a file starts at that file's folder."""
        return any(
            inspect.isclass(m) and (m is os.PathLike or issubclass(m, Path)) for m in map(_plain, self.members())
        )

    @property
    def is_table(self) -> bool:
        """True if its value is a table itself, so that `{ env = "x" }` is no reference."""
        return any(map(_is_table, self.members()))


@dataclass(frozen=True, slots=True)
class Layer:
    """Options that came from one place."""

    kind: Literal["keyword", "variable", "file"]
    values: Mapping[str, object]
    label: Callable[[str], str]
    """How an option of this place is called in a message."""
    folder: Path
    """Where relative paths of references start."""


def keyword_layer(backend: str, values: Mapping[str, object]) -> Layer:
    """Options that the caller gave."""
    return Layer("keyword", values, lambda name: f"option {name!r} of {backend!r}", Path())


def variable_prefix(environment: str) -> str:
    """How the variables begin that set the options of an environment: `STEAD_MY_WORK__` for `my-work`."""
    return "STEAD_" + re.sub(r"[^A-Z0-9]", "_", environment.upper()) + "__"


def variable_layer(environment: str, known: Sequence[str]) -> Layer:
    """Options that environment variables give.

    Args:
        environment: The environment's name.
        known: The options there are, since variables are written in capitals.
    """
    prefix = variable_prefix(environment)
    by_upper = {name.upper(): name for name in known}
    tails = {key[len(prefix) :]: text for key, text in os.environ.items() if key.startswith(prefix)}
    values = {by_upper.get(tail.upper(), tail.lower()): text for tail, text in tails.items()}
    return Layer("variable", values, lambda name: f"environment variable {prefix}{name.upper()}", Path())


@dataclass(frozen=True, slots=True)
class OptionTable:
    """All options of a backend, from its pydantic model or from the signature of its class."""

    options: Mapping[str, Option]
    model: type[BaseModel] | None = None
    takes_any: bool = False
    """True if the class has `**kwargs`: any key may be right."""

    @classmethod
    def of_model(cls, model: type[BaseModel]) -> "OptionTable":
        """The fields of a pydantic model."""
        found = {
            name: Option(name, _annotated(field.annotation, field.metadata), field.is_required())
            for name, field in model.model_fields.items()
        }
        return cls(found, model)

    @classmethod
    def of_signature(cls, factory: Callable[..., object]) -> "OptionTable":
        """The parameters of a class or function that can be given by name."""
        try:
            parameters = inspect.signature(factory).parameters.values()
        except (TypeError, ValueError):
            return cls({}, takes_any=True)
        hints = _hints(factory)
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        found = {p.name: Option(p.name, hints.get(p.name, Any), p.default is p.empty) for p in named}
        return cls(found, takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters))

    def check_names(self, layer: Layer) -> None:
        """Refuses options that the backend does not have.

        Raises:
            ConfigError: There is one; the message names the nearest that exists.
        """
        for name in layer.values:
            if name not in self.options and not self.takes_any:
                raise ConfigError(f"{layer.label(name)} is unknown; {hint(name, self.options)}")

    def is_secret(self, name: str) -> bool:
        """Returns True if the option must not be shown."""
        if self.model is not None and name in self.options:
            return self.options[name].is_secret
        return looks_secret(name) or (name in self.options and self.options[name].is_secret)


def _members(annotation: Any) -> tuple[Any, ...]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(annotation) for member in _members(part))
    return (annotation,)


def _plain(annotation: Any) -> Any:
    return typing.get_origin(annotation) or annotation


def _is_table(annotation: Any) -> bool:
    kind = _plain(annotation)
    return inspect.isclass(kind) and (
        issubclass(kind, Mapping) or is_dataclass(kind) or hasattr(kind, "model_fields") or typing.is_typeddict(kind)
    )


def table_keys(annotation: Any) -> tuple[str, ...]:
    """The keys of a nested table, where its type fixes them."""
    for member in _members(annotation):
        if hasattr(member, "model_fields"):
            return tuple(member.model_fields)
        if is_dataclass(member):
            return tuple(item.name for item in fields(member))
    return ()


def _annotated(annotation: Any, metadata: Sequence[Any]) -> Any:
    return typing.Annotated[annotation, *metadata] if metadata else annotation


def _hints(factory: Callable[..., object]) -> dict[str, Any]:
    # Annotations may name what is only imported for type checkers: then nothing is known about the types.
    try:
        return typing.get_type_hints(
            factory.__init__ if inspect.isclass(factory) else factory,
            include_extras=True,
        )
    except Exception:  # noqa: BLE001 - evaluating a stranger's annotation can raise anything
        return {}
