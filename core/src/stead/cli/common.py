"""What the commands share: their options, how a name becomes an environment, and how things are printed."""

import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from stead.config import Config, Located, load_config
from stead.registry import is_import_string, load_backend
from stead.sync import SyncEnvironment

__all__ = ["ConfigOption", "EnvOption", "JsonOption", "as_json", "open_named", "plain", "print_json", "printable"]

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


def plain(value: Any) -> Any:
    """A dataclass of the contract as what JSON can hold."""
    return {key: item.isoformat() if isinstance(item, datetime) else item for key, item in asdict(value).items()}


def print_json(value: object) -> None:
    """Prints one JSON document."""
    print(as_json(value, indent=2))


def as_json(value: object, *, indent: int | None = None) -> str:
    """JSON that can be written as UTF-8: text stays readable, unless there is a lone surrogate in it."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent, default=str)
    return text


def printable(text: str) -> str:
    """Escapes control characters, which in a file name could drive the reader's terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
