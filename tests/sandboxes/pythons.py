"""The Pythons of this machine that have the SDKs: what differs between versions is tried on each."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

_NEEDS = "import sys, e2b, daytona, aiohttp, pluggy, pydantic, pytest; print('.'.join(map(str, sys.version_info[:3])))"


_ROOT = Path(__file__).parents[2]
_SOURCES = ("tests/sandboxes", "tests/servers", "core/src", "plugins/e2b/src", "plugins/daytona/src")


def variables() -> dict[str, str]:
    """Returns the variables with which any of them finds the sources."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(_ROOT / source) for source in _SOURCES)}


@cache
def pythons() -> dict[str, str]:
    """Returns version -> interpreter of 3.11 to 3.13: this one, those that `STEAD_TEST_PYTHONS` names, those on the path."""
    found = {".".join(map(str, sys.version_info[:3])): sys.executable}
    named = [path for path in os.environ.get("STEAD_TEST_PYTHONS", "").split(os.pathsep) if path]
    on_path = [path for minor in (11, 12, 13) if (path := shutil.which(f"python3.{minor}"))]
    for path in named + on_path:
        answer = subprocess.run([path, "-c", _NEEDS], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            found.setdefault(answer.stdout.strip(), path)
        elif path in named:
            raise RuntimeError(f"STEAD_TEST_PYTHONS names {path}, which lacks the SDKs: {answer.stderr[-300:]}")
    return found
