"""What a configuration file says, frozen, and what can be made from it."""

import copy
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from stead.config.composing import Part, part_names
from stead.config.names import hint, nearest
from stead.config.options import Layer, OptionTable, keyword_layer, variable_layer, variable_prefix
from stead.config.reducing import ReducerSection
from stead.config.secrets import looks_secret, masked
from stead.errors import BackendNotFound, ConfigError, PluginError

if TYPE_CHECKING:
    from stead.environment import Environment
    from stead.reducer import Reducer, Report

__all__ = ["Config", "EnvironmentConfig", "Located"]

_SECTIONS = ("environments", "reducer")
_NAME = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """One `[environments.NAME]` of a file. Secrets in it never show."""

    name: str
    backend: str
    """A backend's name, or `"package.module:Class"`."""
    file: Path
    """The file that says so; relative paths in it start at its folder."""
    _options: Mapping[str, object] = field(default_factory=dict)
    siblings: "Mapping[str, EnvironmentConfig]" = field(default_factory=dict, repr=False, compare=False)
    """All environments of the file by name, this one too: one that is made of others finds them here."""

    @property
    def options(self) -> dict[str, object]:
        """A copy of the options as they are written, plain secrets as `pydantic.SecretStr`, references unresolved."""
        return copy.deepcopy(dict(self._options))

    def create_environment(self, **options: object) -> "Environment":
        """Makes the environment. Nothing is contacted: it starts with `async with`, or on first use.

        Args:
            **options: Go before environment variables and the file.

        Raises:
            BackendNotFound: The backend is not installed; the message has the pip line.
            PluginError: It is installed but cannot be used.
            ConfigError: An option is unknown, missing or wrong, or names a secret that is not there.
        """
        return _made(self, options, ())

    def layer(self) -> Layer:
        """The options of the file, for the registry."""
        return Layer("file", self._options, self._label, self.file.parent)

    def _label(self, option: str) -> str:
        return f"{self.file}: environments.{self.name}.{option}"


@dataclass(frozen=True, slots=True)
class Located:
    """What a name stands for: an environment of the file, else an installed backend, else an unpackaged class."""

    kind: Literal["environment", "backend", "class"]
    name: str
    environment: EnvironmentConfig | None = None

    def __str__(self) -> str:
        if self.environment is None:
            return f"{self.kind} {self.name!r}"
        return f"environment {self.name!r} of {self.environment.file}, backend {self.environment.backend!r}"


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration. Made by `load_config`; empty if there is no file."""

    path: Path | None = None
    """The file; None if there is none."""
    _environments: tuple[EnvironmentConfig, ...] = ()
    _reducer: ReducerSection = field(default_factory=ReducerSection)

    @classmethod
    def of(cls, data: Mapping[str, Any], file: Path) -> "Config":
        """Checks what a file says.

        Args:
            data: Its content, parsed.
            file: The file, absolute.

        Raises:
            ConfigError: A section or key is unknown, or of the wrong kind.
        """
        for section, value in data.items():
            if section not in _SECTIONS:
                raise ConfigError(f"{file}: the section {section!r} is unknown; {hint(section, _SECTIONS)}")
            _check_table(value, f"{file}: {section}")
        siblings: dict[str, EnvironmentConfig] = {}
        for name, table in data.get("environments", {}).items():
            siblings[name] = _environment(name, table, file, siblings)
        found = tuple(siblings.values())
        _check_prefixes(found, file)
        _check_circles(found)
        return cls(file, found, ReducerSection.of(data.get("reducer"), f"{file}: reducer"))

    @property
    def environments(self) -> Mapping[str, EnvironmentConfig]:
        """The environments by name, in the order of the file. Read-only."""
        return MappingProxyType({item.name: item for item in self._environments})

    @property
    def reducer(self) -> Mapping[str, object]:
        """What `[reducer]` says; empty without one. Read-only."""
        return MappingProxyType(copy.deepcopy(dict(self._reducer.values)))

    @property
    def default(self) -> str | None:
        """The environment that is meant when none is named: `default`, or the only one; else None."""
        names = list(self.environments)
        return "default" if "default" in names else names[0] if len(names) == 1 else None

    def locate(self, name: str | None = None) -> Located:
        """Says what a name stands for.

        Args:
            name: An environment of this file, a backend, or `"package.module:Class"`. None is `default`.

        Raises:
            ConfigError: It stands for nothing, or there is no default.
        """
        return _located(self._need_default() if name is None else name, self.environments, self.path)

    def create_environment(self, name: str | None = None, **options: object) -> "Environment":
        """Makes an environment. Each call makes another one.

        Args:
            name: As `locate`.
            **options: Options of the backend; they go before environment variables and the file.

        Raises:
            BackendNotFound: Its backend is not installed; the message has the pip line.
            PluginError: Its backend is installed but cannot be used.
            ConfigError: The name stands for nothing, an option is wrong, or a secret that is named is not there.
        """
        from stead.registry import create_environment

        found = self.locate(name)
        return (
            create_environment(found.name, **options)
            if found.environment is None
            else found.environment.create_environment(**options)
        )

    def create_reducer(self, *, on_report: "Callable[[Report], Awaitable[None] | None] | None" = None) -> "Reducer":
        """Makes a reducer as `[reducer]` says. It starts its environment on first use, and closes it when it closes.

        Without `environment` in `[reducer]` it stores in the default environment. If it stores elsewhere and
        `stead.tools.toolset` was not told of it (`offloads=`), the first notice is logged as a warning: no tool opens it.

        Args:
            on_report: As in `stead.reducer.Reducer`.

        Raises:
            BackendNotFound: As `create_environment`.
            PluginError: As `create_environment`.
            ConfigError: As `create_environment`, or a setting of the reducer is wrong.
        """
        return self._reducer.create(self.create_environment, default=self.default, on_report=on_report)

    def _need_default(self) -> str:
        if self.default is not None:
            return self.default
        if self.path is None:
            raise ConfigError("no stead.toml was found here, in a parent folder or in the user's configuration folder")
        names = ", ".join(self.environments) or "none"
        raise ConfigError(f"{self.path}: name an environment, or call one `default`; there is: {names}")


def _located(name: str, environments: Mapping[str, EnvironmentConfig], file: Path | None) -> Located:
    from stead.registry import backend_names, is_import_string, pip_line

    if name in environments:
        return Located("environment", name, environments[name])
    if is_import_string(name):
        return Located("class", name)
    if name in backend_names():
        return Located("backend", name)
    where = f"no environment of {file}" if file else "no environment, since there is no stead.toml,"
    line = pip_line(name)
    also = f" If it is a backend that is not installed: {line}" if line else ""
    near = hint(name, {*environments, *backend_names()})
    raise ConfigError(f"{where} and no installed backend is called {name!r}; {near}{also}")


def _made(item: EnvironmentConfig, options: Mapping[str, object], within: tuple[str, ...]) -> "Environment":
    """Makes an environment that is itself a part of others, `within` by name."""
    from stead.registry import open_backend, option_table

    called = f"{item.file}: environments.{item.name}"
    try:
        table = option_table(item.backend)
    except BackendNotFound as error:
        raise BackendNotFound(f"{called}: {error.message}", backend=item.backend) from None
    layers = [keyword_layer(item.name, options), variable_layer(item.name, tuple(table.options)), item.layer()]
    return open_backend(item.backend, layers, called=called, part=_part_of(item, (*within, item.name)))


def _part_of(item: EnvironmentConfig, within: tuple[str, ...]) -> Part:
    from stead.registry import create_environment

    def part(option: str, name: str) -> "Environment":
        label = f"{item.file}: environments.{item.name}.{option}"
        if name in within:
            raise ConfigError(f"{label}: {_circle(within, name)}")
        try:
            found = _located(name, item.siblings, item.file)
        except ConfigError as error:
            raise ConfigError(f"{label}: {error.message}") from None
        return create_environment(name) if found.environment is None else _made(found.environment, {}, within)

    return part


def _circle(within: tuple[str, ...], name: str) -> str:
    way = " -> ".join((*within[within.index(name) :], name))
    return f"the environment {name!r} would be made of itself ({way})"


def _check_table(value: object, where: str) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table, not {type(value).__name__}")


def _environment(name: str, table: object, file: Path, siblings: Mapping[str, EnvironmentConfig]) -> EnvironmentConfig:
    where = f"{file}: environments.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name is made of letters and digits, with single - or _ between them")
    _check_table(table, where)
    options = dict(table)  # type: ignore[call-overload]
    backend = options.pop("backend", None)
    if backend is None:
        near = nearest("backend", options)
        raise ConfigError(f'{where} needs `backend = "NAME"`' + (f"; did you mean that by {near!r}?" if near else ""))
    if not isinstance(backend, str) or not backend:
        raise ConfigError(f"{where}.backend must be the name of a backend or package.module:Class")
    known = _table_at_load(backend)
    is_secret = looks_secret if known is None else known.is_secret
    shown = {key: masked(value, secret=is_secret(key)) for key, value in options.items()}
    found = EnvironmentConfig(name, backend, file, shown, siblings)
    if known is not None:
        known.check_names(found.layer())
    return found


def _table_at_load(backend: str) -> OptionTable | None:
    # A backend that is missing or broken is reported when it is asked for; a class of the user's is not imported yet.
    from stead.registry import is_import_string, option_table

    if is_import_string(backend):
        return None
    try:
        return option_table(backend)
    except (BackendNotFound, PluginError):
        return None


def _check_prefixes(environments: tuple[EnvironmentConfig, ...], file: Path) -> None:
    seen: dict[str, str] = {}
    for item in environments:
        prefix = variable_prefix(item.name)
        if prefix in seen:
            raise ConfigError(
                f"{file}: environments {seen[prefix]!r} and {item.name!r} share the variables {prefix}*; rename one"
            )
        seen[prefix] = item.name


def _check_circles(environments: tuple[EnvironmentConfig, ...]) -> None:
    """Refuses an environment that is made of itself; those that only variables make so are refused when they are made."""
    fine: set[str] = set()

    def follow(item: EnvironmentConfig, within: tuple[str, ...]) -> None:
        table = _table_at_load(item.backend)
        for option, name in part_names(table, item.options) if table else ():
            if name in within:
                raise ConfigError(f"{item.file}: environments.{item.name}.{option}: {_circle(within, name)}")
            if name in item.siblings and name not in fine:
                follow(item.siblings[name], (*within, name))
        fine.add(item.name)

    for item in environments:
        follow(item, (item.name,))
