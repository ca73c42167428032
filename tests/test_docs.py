"""The documentation is true: its commands are those of CI, its examples run.

A block marked `python` is a whole program that needs nothing but the installed packages: it runs here. A block marked `py`
needs a sandbox in a cloud: `tests/sandboxes` runs it against a server of this machine.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "plugins").glob("*/README.md")),
    ROOT / "core/README.md",
]
EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{n}")
    for page in PAGES
    for n, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE), 1)
]


def test_ci_runs_the_test_line_of_the_readme():
    """`.ci/run` holds the README's second line, and no other command but going to the repository."""
    readme = (ROOT / "README.md").read_text()
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]

    assert lines[:2] == ["set -euo pipefail", 'cd "$(dirname "$0")/.."']
    assert len(lines) == 3
    assert f"    {lines[2]}\n" in readme


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example, tmp_path):
    """Every python block of the README and the docs is a program that runs in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_links_between_pages_lead_somewhere():
    """Relative links in every page name files that exist."""
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} -> {target}"
