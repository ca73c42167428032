"""Runs the examples of a page that need an installed backend: the blocks marked `py`."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["said_by_examples"]


def said_by_examples(page: str, variables: Mapping[str, str], folder: Path) -> list[tuple[int, str, str]]:
    """Runs each block of a page as a program of its own.

    Args:
        page: The page, from the root of the repository.
        variables: Added to the environment.
        folder: Where they run.

    Returns:
        Of each: exit code, output, errors.
    """
    text = (Path(__file__).parents[2] / page).read_text()
    found = []
    for block in re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        ran = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-c", block],
            env=os.environ | variables,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        found.append((ran.returncode, ran.stdout, ran.stderr))
    return found
