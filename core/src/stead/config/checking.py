"""What is wrong with a configuration beyond what keeps it from being read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SecretStr

from stead.config.composing import part_names
from stead.config.model import Config, EnvironmentConfig
from stead.config.options import OptionTable, variable_layer
from stead.config.secrets import is_reference, read_reference
from stead.config.values import arguments
from stead.errors import ConfigError, SteadError
from stead.registry import option_table

__all__ = ["Problem", "problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding."""

    level: Literal["error", "warning"]
    """An error keeps something from being made; a warning does not, or only here (a variable that is not set)."""
    message: str


def problems(config: Config) -> tuple[Problem, ...]:
    """Checks each environment and the reducer as if they were made, without making them. Imports unpackaged classes."""
    found = [problem for item in config.environments.values() for problem in _of_environment(config, item)]
    for store in _stores(config.reducer):
        try:
            config.locate(store)
        except SteadError as error:
            found.append(Problem("error", f"{config.path}: reducer: {error.message}"))
    return tuple(found)


def _stores(reducer: Mapping[str, Any]) -> list[str]:
    sections = [reducer, *reducer.get("tool_config", {}).values()]
    return [section["environment"] for section in sections if "environment" in section]


def _of_environment(config: Config, item: EnvironmentConfig) -> Iterator[Problem]:
    yield from _plain_secrets(item)
    called = f"{item.file}: environments.{item.name}"
    try:
        table = option_table(item.backend)
    except SteadError as error:
        yield Problem("error", error.message if str(item.file) in error.message else f"{called}: {error.message}")
        return
    layers = [variable_layer(item.name, tuple(table.options)), item.layer()]
    set_by_variable = set(layers[0].values)
    not_there: set[str] = set()
    for name in set(item.options) - set_by_variable:
        for problem in _references(item, table, name):
            not_there.add(name)
            yield problem
    try:
        given = arguments(called, table, layers, leave_out=frozenset(not_there))
    except ConfigError as error:
        yield Problem("error", error.message)
        return
    for option, name in part_names(table, given.values):
        try:
            config.locate(name)
        except ConfigError as error:
            yield Problem("error", f"{called}.{option}: {error.message}")


def _references(item: EnvironmentConfig, table: OptionTable, name: str) -> Iterator[Problem]:
    option = table.options.get(name)
    layer = item.layer()
    values = [item.options[name]]
    if option is not None and option.is_table and isinstance(values[0], dict):
        values = list(values[0].values())
    while values:
        value = values.pop()
        if is_reference(value):
            try:
                read_reference(value, folder=layer.folder, where=layer.label(name))
            except ConfigError as error:
                yield Problem("warning", error.message)
        elif isinstance(value, dict):
            values.extend(value.values())


def _plain_secrets(item: EnvironmentConfig) -> Iterator[Problem]:
    label = item.layer().label
    for key in (key for name, value in item.options.items() for key in _secret_keys(name, value)):
        yield Problem("warning", f'{label(key)} is written in plain text; use {{ env = "NAME" }} or a file')


def _secret_keys(key: str, value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield key
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _secret_keys(f"{key}.{name}", part)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _secret_keys(f"{key}[{number}]", part)
