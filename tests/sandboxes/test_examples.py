"""The examples of the sandboxes' pages run: each block marked `py` is a program that needs nothing but a key."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / f"docs/reference/{name}.md", ROOT / f"plugins/{name}/README.md") for name in ("e2b", "daytona")}


@pytest.mark.parametrize("page", ["reference", "readme"])
def test_examples_run(provider, page, tmp_path):
    """With the variables that the provider's own SDK reads, and nothing of stead's, the example does what it says."""
    path = PAGES[provider.name][page == "readme"]
    blocks = re.findall(r"^```py\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    variables = {f"{provider.name.upper()}_{name.upper()}": value for name, value in provider.variables().items()}

    assert len(blocks) == 1
    ran = subprocess.run(
        [sys.executable, "-c", blocks[0]],
        env=os.environ | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "42\n", "")
