"""Finding and reading `stead.toml`."""

import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stead.config.model import Config
from stead.errors import ConfigError

__all__ = ["FILE_NAME", "find_file", "load_config", "user_folder", "working_directory"]

FILE_NAME = "stead.toml"


def load_config(path: str | os.PathLike[str] | None = None) -> Config:
    r"""Reads a configuration file.

    Args:
        path: The file. None searches for `stead.toml`: in the working directory and its parents, up to one with `.git`,
            then in the user's configuration folder (`$XDG_CONFIG_HOME/stead`, `~/.config/stead`, `%APPDATA%\stead`).

    Returns:
        What it says. If none was searched for and found: an empty configuration, whose `path` is None.

    Raises:
        ConfigError: The file cannot be read, is no TOML, or has a section or key that is not known; the message names
            the nearest. Or the working directory was removed. Backends that are not installed are no error before they
            are asked for.
    """
    if path is None:
        found = find_file()
        return Config() if found is None else _read(found)
    named = Path(path)
    return _read(named if named.is_absolute() else working_directory() / named)


def find_file() -> Path | None:
    """Searches for the file as `load_config` does without a path.

    Raises:
        ConfigError: The nearest file belongs to another user, who could make this process run commands by it, or the
            working directory was removed.
    """
    for folder in _folders():
        file = folder / FILE_NAME
        # Not `Path.is_file`, which raises where a folder is closed to this user: there is nothing to be found.
        if os.path.isfile(file):
            if not _is_trusted(file):
                raise ConfigError(f"{file} belongs to another user; name it to use it")
            return file
    return None


def user_folder() -> Path:
    """The folder of this user's own configuration; it need not exist."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home()) / "stead"
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "stead"


def working_directory() -> Path:
    """Finds the working directory of this process.

    Raises:
        ConfigError: It was removed, or cannot be reached.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(f"the working directory of this process is not there any more: {error.strerror}") from None


def _folders() -> Iterator[Path]:
    here = working_directory()
    for folder in (here, *here.parents):
        yield folder
        if os.path.exists(folder / ".git"):
            break
    yield user_folder()


def _is_trusted(file: Path) -> bool:
    if sys.platform == "win32":
        return True
    return file.stat().st_uid in (0, os.geteuid()) or os.geteuid() == 0


def _read(file: Path) -> Config:
    try:
        return Config.of(_parsed(file), file)
    except RecursionError:
        raise ConfigError(f"{file} is nested too deeply") from None


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {str(file)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: byte {error.start + 1}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is no valid TOML: {error}") from None
    except ValueError as error:  # no path at all, such as one with NUL
        raise ConfigError(f"cannot read the configuration file {str(file)!r}: {error}") from None
