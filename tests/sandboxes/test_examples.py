"""The examples of the sandboxes' pages run: each block marked `py` is a program that needs nothing but a key."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_example_runs(provider, tmp_path):
    """With the variables that the provider's own SDK reads, and nothing of stead's, the example does what it says."""
    pages = (ROOT / f"docs/reference/{provider.name}.md", ROOT / f"plugins/{provider.name}/README.md")
    blocks = [re.findall(r"^```py\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE) for page in pages]
    variables = {f"{provider.name.upper()}_{name.upper()}": value for name, value in provider.variables().items()}

    assert len(blocks[0]) == 1
    assert blocks[0] == blocks[1]
    ran = subprocess.run(
        [sys.executable, "-c", blocks[0][0]],
        env=os.environ | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "42\n", "")
