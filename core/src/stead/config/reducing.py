"""The section `[reducer]`: the plain settings of `ReducerConfig`, which declares them, and where to store."""

import logging
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Union

from pydantic import TypeAdapter, ValidationError

from stead.config.names import hint
from stead.config.values import NO_FLAG, flag_for_number, problem_text
from stead.errors import ConfigError
from stead.observers import notify

if TYPE_CHECKING:
    from stead.environment import Environment
    from stead.reducer import Reducer, ReducerConfig, Report
    from stead.reducer.reducer import OnReport

__all__ = ["ReducerSection", "plain_fields"]

_log = logging.getLogger(__name__)
_SCALARS = (str, int, float, bool)
_LISTS = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class ReducerSection:
    """What `[reducer]` says."""

    values: Mapping[str, Any] = field(default_factory=dict)
    where: str = "[reducer]"

    @classmethod
    def of(cls, table: Mapping[str, Any] | None, where: str) -> "ReducerSection":
        """Checks the section.

        Args:
            table: Its content; None without one.
            where: What to call it in a message.

        Raises:
            ConfigError: A key is unknown or a value wrong.
        """
        section = cls(dict(table or {}), where)
        if table:
            section.settings()
        return section

    def settings(self) -> "ReducerConfig":
        """The settings as a `ReducerConfig`; its tools have no environments yet.

        Raises:
            ConfigError: A key is unknown or a value wrong.
        """
        from stead.reducer import ReducerConfig, ToolConfig

        values = dict(_without_environment(self.values, self.where))
        tools = values.pop("tool_config", {})
        checked = _checked(ReducerConfig, values, self.where)
        if not isinstance(tools, Mapping):
            raise ConfigError(f"{self.where}.tool_config must be a table of tools")
        called = {name: f"{self.where}.tool_config.{name}" for name in tools}
        checked["tool_config"] = {
            name: ToolConfig(**_checked(ToolConfig, _without_environment(tool, called[name]), called[name]))
            for name, tool in tools.items()
        }
        try:
            return ReducerConfig(**checked)
        except ConfigError as error:
            raise ConfigError(f"{self.where}: {error.message}") from None

    def create(
        self,
        create_environment: Callable[[str | None], "Environment"],
        *,
        default: str | None,
        on_report: "OnReport | None",
    ) -> "Reducer":
        """Makes the reducer, with environments of its own.

        Args:
            create_environment: Makes an environment by name.
            default: The environment that agents work in unless they name another.
            on_report: As in `stead.reducer.Reducer`.

        Raises:
            SteadError: As `Config.create_reducer`.
        """
        from stead.reducer import Reducer

        settings = self.settings()
        name = self.values.get("environment")
        stores = name is not None or default is not None or not settings.skip_truncation
        environment = create_environment(name) if stores else None
        tools = self.values.get("tool_config", {})
        made = {
            tool: replace(own, environment=create_environment(tools[tool]["environment"]))
            for tool, own in settings.tool_config.items()
            if "environment" in tools[tool]
        }
        named = [name, *(tool.get("environment") for tool in tools.values())]
        observer = _Observer(on_report, elsewhere=[store for store in named if store not in (None, default)])
        settings = replace(settings, tool_config={**settings.tool_config, **made})
        observer.reducer = Reducer(environment, settings, on_report=observer, owns_environment=True)
        return observer.reducer


def plain_fields(cls: type) -> dict[str, Any]:
    """The fields of a settings class that a file can give, each with the part of its type that is plain data.

    Args:
        cls: A dataclass.
    """
    hints = typing.get_type_hints(cls)
    found = {item.name: _plain(hints[item.name]) for item in fields(cls)}
    return {name: annotation for name, annotation in found.items() if annotation is not None}


def _plain(annotation: Any) -> Any:
    """The members of a type that TOML can write; None if there are none."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _SCALARS or origin is Literal:
        return annotation
    if origin in (Union, types.UnionType):
        members = [plain for plain in map(_plain, arguments) if plain is not None]
        return Union[tuple(members)] if members else None  # noqa: UP007 - the members are only known here
    if origin in _LISTS and all(item is ... or _plain(item) for item in arguments):
        return annotation
    if isinstance(origin, type) and issubclass(origin, Mapping) and arguments and _plain(arguments[-1]):
        return annotation
    return None


def _checked(cls: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = plain_fields(cls)
    checked = {}
    for name, value in values.items():
        if name not in known:
            names = {*known, "environment"} | ({"tool_config"} if _has_tools(cls) else set())
            raise ConfigError(f"{where}.{name} is unknown; {hint(name, names)}")
        try:
            checked[name] = TypeAdapter(known[name]).validate_python(value)
        except ValidationError as error:
            raise ConfigError(f"{where}.{name}: {problem_text(error.errors()[0])}") from None
        if flag_for_number(value, checked[name]) is not None:
            raise ConfigError(f"{where}.{name}: {NO_FLAG}")
    return checked


def _has_tools(cls: type) -> bool:
    return is_dataclass(cls) and any(item.name == "tool_config" for item in fields(cls))


def _without_environment(section: object, where: str) -> Mapping[str, Any]:
    """Copies a section without the name of its store, which no settings class has a field for."""
    if not isinstance(section, Mapping):
        raise ConfigError(f"{where} must be a table")
    store = section.get("environment", "none")
    if not isinstance(store, str) or not store:
        raise ConfigError(f"{where}.environment must be the name of an environment, a text")
    return {key: value for key, value in section.items() if key != "environment"}


class _Observer:
    """Tells plugins and the caller what was decided, and the log if notices lead where no tool of the agent reads."""

    def __init__(self, on_report: "OnReport | None", *, elsewhere: Sequence[str]) -> None:
        self._on_report = on_report
        self._elsewhere = elsewhere
        self.reducer: Reducer | None = None

    def __call__(self, report: "Report") -> Awaitable[None] | None:
        notify("stead_reduced", {"report": report})
        stored = any(decision.action == "reduced" and decision.path for decision in report.decisions)
        if stored and self._elsewhere and self.reducer is not None and not self.reducer.has_reader:
            _log.warning(
                "notices name files in the environment %r, and no tool is known that opens them there; "
                "make the tools with toolset(env, offloads=reducer)",
                self._elsewhere[0],
            )
            self._elsewhere = ()
        return None if self._on_report is None else self._on_report(report)
