"""Backends made of other environments, which their options name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from stead.config.options import BackendOptions, OptionTable
from stead.environment import Environment

__all__ = [
    "ComposedOptions",
    "EnvironmentName",
    "MountsOptions",
    "Part",
    "ReadOnlyOptions",
    "ScopedOptions",
    "StagedOptions",
    "part_names",
    "with_parts",
]

EnvironmentName = Annotated[str, Field(min_length=1)]
"""An environment of the same file, else an installed backend, else `"package.module:Class"`."""

Part = Callable[[str, str], Environment]
"""Makes an environment by name; its first argument says which option names it."""


class ComposedOptions(BackendOptions):
    """Base for the options of a backend whose factory takes environments where the options name them."""

    parts: ClassVar[tuple[str, ...]] = ()
    """The options that hold an `EnvironmentName`, or a table of them."""


class MountsOptions(ComposedOptions):
    """Options of `mounts`."""

    parts: ClassVar[tuple[str, ...]] = ("main", "mounts")

    main: EnvironmentName
    """The environment that has all other paths and runs the commands."""
    mounts: dict[str, EnvironmentName]
    """Environments by mount point, absolute or relative to the working directory of `main`."""


class ReadOnlyOptions(ComposedOptions):
    """Options of `read_only`."""

    parts: ClassVar[tuple[str, ...]] = ("environment",)

    environment: EnvironmentName
    """The environment that can be read."""


class ScopedOptions(ComposedOptions):
    """Options of `scoped`."""

    parts: ClassVar[tuple[str, ...]] = ("environment",)

    environment: EnvironmentName
    """A store: it has no links and no commands."""
    folder: str = Field(min_length=1)
    """The folder of it that is all there is to see."""


class StagedOptions(ComposedOptions):
    """Options of `staged`."""

    parts: ClassVar[tuple[str, ...]] = ("store", "machine")

    store: EnvironmentName
    """Where the files are."""
    machine: EnvironmentName
    """Where commands run; its working directory belongs to this environment."""
    wanted: list[str] | None = None
    """Glob patterns (`*`, `?`, `[]`, `**`) of the files of the store that are brought to the machine; without it, all."""


def part_names(table: OptionTable, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yields the environments that options name, each after what messages call the option.

    Args:
        table: The options of the backend.
        values: What was given, from a file or checked; what has another type than it should have is passed over.
    """
    for option in _parts_of(table):
        value = values.get(option)
        if isinstance(value, str):
            yield option, value
        elif isinstance(value, Mapping):
            yield from ((f"{option}.{key}", name) for key, name in value.items() if isinstance(name, str))


def with_parts(table: OptionTable, values: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """Copies checked options with environments where they name some.

    Raises:
        SteadError: One of them cannot be made.
    """
    made = dict(values)
    for option in _parts_of(table):
        value = values.get(option)
        if isinstance(value, Mapping):
            made[option] = {key: part(f"{option}.{key}", name) for key, name in value.items()}
        elif value is not None:
            made[option] = part(option, value)
    return made


def _parts_of(table: OptionTable) -> tuple[str, ...]:
    is_composed = table.model is not None and issubclass(table.model, ComposedOptions)
    return table.model.parts if is_composed else ()  # type: ignore[union-attr]
