"""Writes docs/reference/laws.md from the suite: `python core/tests/conformance/laws_page.py --write`."""

import sys
from itertools import groupby
from pathlib import Path

from stead.conformance import SUITE
from stead.conformance.environment_laws import LAWS
from stead.conformance.law import FIXTURES, OPERATIONS
from stead.environment import CONTRACT

PAGE = Path(__file__).parents[3] / "docs/reference/laws.md"

GROUPS = {
    "A": "Shape and life",
    "B": "Write, then read",
    "C": "Errors of reading",
    "D": "The stream",
    "E": "Ranges and lines",
    "F": "Paths",
    "G": "Commands",
    "H": "Listing, stat, delete",
    "I": "Far away: object stores and the like",
    "J": "Sandboxes",
    "K": "The reducer over the environment",
    "L": "What an environment says of itself",
}

INTRO = f"""\
# Laws

Written by `python core/tests/conformance/laws_page.py --write`; a test fails when it differs from the suite. Contract
{CONTRACT}, suite {SUITE}, {len(LAWS)} laws.

Each law is one short test with an id, which waivers, reports and this page use. A law is tried only where it makes sense:

- **needs** names capabilities. An *operation* ({", ".join(f"`{name}`" for name in sorted(OPERATIONS))}) that is not
  declared must raise `Unsupported`, which laws of group L check; the other laws about it are then reported as
  *unsupported*. A *quality*, which is every other capability, may go undeclared: the law is reported as *not claimed*.
- **unlocked by** names an optional fixture of the test class ({", ".join(f"`{name}`" for name in FIXTURES.values())}).
  Without it the law is reported as *locked*, with the reason. A law can also be locked by the machine, such as one about
  permissions where commands run as root.
- `‡` marks a law that measures the peak of resident memory.

How to run them: [write a backend](../how-to/write-a-backend.md). What other libraries' environments hold:
[peers](peers-conformance.md). `stead conformance --list` prints the laws of the installed suite.
"""


def page() -> str:
    """Returns the whole page."""
    parts = [INTRO]
    for letter, specs in groupby(LAWS.values(), key=lambda spec: spec.number[0]):
        parts += [f"## {letter}. {GROUPS[letter]}", "", "| law | no. | states | needs | unlocked by |"]
        parts += ["|---|---|---|---|---|", *(_row(spec) for spec in specs), ""]
    return "\n".join(parts)


def _row(spec) -> str:
    mark = " ‡" if spec.measured else ""
    needs, wants = (", ".join(f"`{name}`" for name in names) for names in (spec.needs, spec.wants))
    return f"| `{spec.id}`{mark} | {spec.number} | {spec.text.replace('|', chr(92) + '|')} | {needs} | {wants} |"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
