"""What `stead conformance TARGET` tries: an environment of the configuration, a backend, or `module:Class`."""

import tomllib
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from stead.config import load_config
from stead.conformance.folder import BASE, Folder, clean_folder
from stead.environment import Environment
from stead.errors import ConfigError, SteadError

__all__ = ["Target", "parse_options", "parse_waivers"]

_TMP = "{tmp}"
_STATE = ".stead"  # what the environment itself keeps: spilled output of the laws' commands


@dataclass(frozen=True, slots=True)
class Target:
    """A name and the options to open it with."""

    name: str
    options: Mapping[str, Any]
    config: Path | None = None
    """The configuration file; None looks for `stead.toml`."""

    def describe(self) -> str:
        """Says what the name stands for.

        Raises:
            ConfigError: It stands for nothing.
        """
        return str(load_config(self.config).locate(self.name))

    @property
    def backend(self) -> str | None:
        """The backend's name, if the target has one."""
        found = load_config(self.config).locate(self.name)
        name = found.name if found.environment is None else found.environment.backend
        return None if ":" in name else name

    @property
    def fresh(self) -> bool:
        """Whether each law gets a new place, by `{tmp}` in an option."""
        return any(_TMP in value for value in self.options.values() if isinstance(value, str))

    def open(self, tmp: str) -> Environment:
        """Makes an environment, not started, with `tmp` in place of `{tmp}`.

        Raises:
            ConfigError: An option is wrong.
            BackendNotFound: The backend is not installed.
            PluginError: It is installed but cannot be used.
        """
        options = {name: v.replace(_TMP, tmp) if isinstance(v, str) else v for name, v in self.options.items()}
        return load_config(self.config).create_environment(self.name, **options)

    async def shares_files(self, tmp: str) -> bool:
        """Tries whether a second instance sees the files of a first, as instances of one place do."""
        try:
            async with self.open(tmp) as first, self.open(tmp) as second:
                probe = Folder.of("second") / "probe"
                await first.write_file(probe, "shared")
                return await second.read_file(probe) == b"shared"
        except SteadError:
            return False

    async def names(self) -> frozenset[str]:
        """Returns the names in the working directory, none if it cannot be listed.

        Raises:
            SteadError: The environment failed.
        """
        async with self.open("") as env:
            if not env.capabilities.list_files:
                return frozenset()
            async with aclosing(env.list_files(".")) as entries:
                return frozenset([PurePosixPath(entry.path).name async for entry in entries])

    async def clean(self, before: frozenset[str]) -> None:
        """Removes what laws left in a place that is not fresh for each of them.

        Args:
            before: The names that were in the working directory before.

        Raises:
            SteadError: The environment failed.
        """
        ours = [name for name in (BASE, _STATE) if name not in before]
        left = await self.names() & set(ours)
        async with self.open("") as env:
            for name in left:
                await clean_folder(env, name)
            if left and env.capabilities.execute:
                await env.execute(["rm", "-rf", *left])


def parse_options(given: Iterable[str]) -> dict[str, Any]:
    """Reads `KEY=VALUE` words; a value is TOML where it can be, else text.

    Raises:
        ConfigError: A word has no `=`.
    """
    return {name: _value(text) for name, text in _pairs(given, "an option is KEY=VALUE")}


def parse_waivers(given: Iterable[str]) -> dict[str, str]:
    """Reads `LAW=REASON` words.

    Raises:
        ConfigError: A word has no `=`, or no reason after it.
    """
    return dict(_pairs(given, "a waiver is LAW=REASON"))


def _pairs(given: Iterable[str], rule: str) -> Iterable[tuple[str, str]]:
    for word in given:
        name, equals, value = word.partition("=")
        if not name or not equals or not value.strip():
            raise ConfigError(f"{rule}, not {word!r}")
        yield name.strip(), value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError, RecursionError):
        return text
