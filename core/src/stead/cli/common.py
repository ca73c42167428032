"""What the commands share: their options, how a name becomes an environment, and how things are printed."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from stead.config import Config, Located, load_config
from stead.registry import is_import_string, load_backend
from stead.sync import SyncEnvironment

__all__ = [
    "ConfigOption",
    "EnvOption",
    "JsonOption",
    "age_of",
    "fits_stdout",
    "number_of",
    "open_named",
    "plain",
    "print_json",
    "printable",
    "printable_json",
]

_AGES = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST_AGE = 1_000 * 365 * 86_400

EnvOption = Annotated[
    str | None,
    typer.Option(
        "--env",
        "-e",
        metavar="NAME",
        help="An environment of the configuration, a backend, or package.module:Class.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration; else stead.toml here or above."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_named(env: str | None, config: Path | None) -> SyncEnvironment:
    """Makes the environment that the options name, and says on stderr which one that is.

    Raises:
        ConfigError: The name stands for nothing, or an option is wrong.
        BackendNotFound: The backend is not installed.
        PluginError: The backend cannot be used.
    """
    settings = load_config(config)
    found = _locate(settings, env)
    print(f"stead: {printable(str(found))}", file=sys.stderr)
    if is_import_string(found.environment.backend if found.environment else found.name):
        sys.path.insert(0, "")  # a class beside the caller, as `python -m` would find it
    return SyncEnvironment(settings.create_environment(found.name))


def _locate(settings: Config, env: str | None) -> Located:
    if env is None and settings.path is None:
        load_backend("local")
        return Located("backend", "local")
    return settings.locate(env)


def age_of(text: str, option: str) -> timedelta:
    """An age that can be taken from the present, such as 30d, 12h or 90m.

    Raises:
        typer.BadParameter: It is none, or longer than a thousand years.
    """
    seconds = number_of(text, _AGES, option, "30d, 12h or 90m")
    if seconds > _LONGEST_AGE:
        raise typer.BadParameter(f"{text[:40]!r} is longer than 1000 years", param_hint=option)
    return timedelta(seconds=seconds)


def number_of(text: str, units: Mapping[str, int], option: str, example: str) -> int:
    """A number with its unit, in the smallest one.

    Raises:
        typer.BadParameter: It is none.
    """
    match = re.fullmatch(r"(\d{1,20})\s*([A-Za-z]*)", text)
    unit = None if match is None else next((u for u in units if u.lower() == match[2].lower()), None)
    if match is None or unit is None:
        raise typer.BadParameter(f"{text[:40]!r} is not valid; write {example}", param_hint=option)
    return int(match[1]) * units[unit]


def plain(value: Any) -> Any:
    """A dataclass of the contract as what JSON can hold."""
    return {key: item.isoformat() if isinstance(item, datetime) else item for key, item in asdict(value).items()}


def print_json(value: object) -> None:
    """Prints one JSON document."""
    print(printable_json(value, indent=2))


def printable_json(value: object, *, indent: int | None = None) -> str:
    """Writes JSON: letters as they are, or escaped where stdout cannot have them."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return text if fits_stdout(text) else json.dumps(value, indent=indent, default=str)


def fits_stdout(text: str) -> bool:
    """Returns True if the encoding of stdout has all the letters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Escapes control characters, which in a file name could drive the reader's terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
