"""`stead new-backend`: writes the package of a backend that passes the conformance suite at once."""

import re
import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from stead.cli.common import printable
from stead.errors import ConfigError, SteadError
from stead.registry import OURS, backend_names

__all__ = ["new_backend"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_SUFFIX = ".tmpl"


def new_backend(
    name: Annotated[str, typer.Argument(help="What users will write: small letters, digits, single hyphens.")],
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Where to write it; else stead-NAME here.")
    ] = None,
) -> None:
    """Write a package with a new backend: files in SQLite, to be replaced by your own, and all laws as its tests."""
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"a backend's name is small letters, digits and single hyphens, not {name!r}")
    if name in {*backend_names(), *OURS}:
        raise ConfigError(f"the name {name!r} is taken; `stead backends` lists those that are installed")
    target = folder or Path(f"stead-{name}")
    module, words = f"stead_{name.replace('-', '_')}", "".join(part.capitalize() for part in name.split("-"))
    values = {"NAME": name, "MODULE": module, "CLASS": f"{words}Environment", "OPTIONS": f"{words}Options"}
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ConfigError(f"{target} exists already and is not empty")
        _copy(files("stead.conformance") / "scaffold", target, values, {"src": Path("src", module)})
    except OSError as error:
        raise SteadError(f"{error.filename or target}: {error.strerror or error}") from error
    shown = printable(str(target))
    print(f"{shown}: a backend that passes the suite. Next:")
    print(f"  pip install -e {shlex.quote(f'{shown}[test]')} && pytest {shlex.quote(shown)}")
    print(f"  then make src/{module}/files.py and environment.py your own, and keep the tests green")


def _copy(source: Traversable, target: Path, values: dict[str, str], renamed: dict[str, Path]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _copy(entry, target / renamed.get(entry.name, Path(entry.name)), values, {})
        elif entry.name.endswith(_SUFFIX):
            text = re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], entry.read_text(encoding="utf-8"))
            (target / entry.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")
