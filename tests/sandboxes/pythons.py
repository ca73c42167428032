"""The Pythons of this machine on which the SDKs are tried: what differs between versions is tried on each.

`python pythons.py FOLDER` gives the SDKs to those that lack them, in environments below a folder, and prints all of them as
`STEAD_TEST_PYTHONS` wants them.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

_PACKAGES = ("e2b", "daytona", "aiohttp", "pluggy", "pydantic", "pytest")
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
_NEEDS = f"{_VERSION}; import {', '.join(_PACKAGES)}"
_MINORS = (11, 12, 13)
_ROOT = Path(__file__).parents[2]
_SOURCES = ("tests/sandboxes", "tests/servers", "core/src", "plugins/e2b/src", "plugins/daytona/src")


def variables() -> dict[str, str]:
    """Returns the variables with which any of them finds the sources."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(_ROOT / source) for source in _SOURCES)}


@cache
def pythons() -> dict[str, str]:
    """Returns version -> interpreter of those that have the SDKs: this one first.

    Raises:
        RuntimeError: `STEAD_TEST_PYTHONS` names one that lacks them.
    """
    found = {}
    for path in (sys.executable, *_named(), *_present()):
        version = _ask(path, _NEEDS)
        if version is not None:
            found.setdefault(version, path)
        elif path in _named():
            raise RuntimeError(f"STEAD_TEST_PYTHONS names {path}, which lacks the SDKs")
    return found


@cache
def lacking() -> dict[str, str]:
    """Returns version -> interpreter of those of 3.11 to 3.13 that are present, but on which nothing can be tried."""
    versions = {version: path for path in _present() if (version := _ask(path, _VERSION))}
    tried = {version.rpartition(".")[0] for version in pythons()}
    return {version: path for version, path in versions.items() if version.rpartition(".")[0] not in tried}


def told() -> str:
    """Says on which Pythons the SDKs are tried, and on which they are not."""
    left = [f"{version} ({path}) lacks them" for version, path in sorted(lacking().items())]
    return "; ".join([f"sandbox SDKs tried on Python {', '.join(sorted(pythons()))}", *left])


def _named() -> list[str]:
    return [path for path in os.environ.get("STEAD_TEST_PYTHONS", "").split(os.pathsep) if path]


@cache
def _present() -> tuple[str, ...]:
    """Returns the interpreters on the path, and those that pyenv has installed; what cannot run is left out."""
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    on_path = [path for minor in _MINORS if (path := shutil.which(f"python3.{minor}"))]
    by_pyenv = [str(path) for minor in _MINORS for path in sorted(versions.glob(f"3.{minor}.*/bin/python"))]
    return tuple(path for path in on_path + by_pyenv if _ask(path, _VERSION))


@cache
def _ask(path: str, code: str) -> str | None:
    answer = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def equip(folder: Path) -> list[str]:
    """Gives the SDKs to each Python that lacks them, by its own pip, at the versions that are pinned."""
    made = []
    for version, path in sorted(lacking().items()):
        place = folder / f"python-{version}"
        subprocess.run([path, "-m", "venv", str(place)], check=True, stdout=sys.stderr)
        python = str(place / "bin/python")
        pins = ["-c", str(_ROOT / "constraints.txt")]
        subprocess.run([python, "-m", "pip", "install", "-q", *pins, *_PACKAGES], check=True, stdout=sys.stderr)
        made.append(python)
    return made


if __name__ == "__main__":
    print(os.pathsep.join([*equip(Path(sys.argv[1]).absolute()), *pythons().values()]))
