"""The reference page is true to the code."""

import dataclasses
import re
from pathlib import Path

from stead_e2b import E2BEnvironment
from stead_e2b.config import E2BOptions

PAGE = (Path(__file__).parents[3] / "docs/reference/e2b.md").read_text()


def names_in_table(title: str) -> set[str]:
    """Returns what the first column of a section's table names."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_capabilities():
    """The table names each capability that is declared, and no other."""
    declared = dataclasses.asdict(E2BEnvironment.capabilities)
    true = {name for name, value in declared.items() if value is True}

    assert names_in_table("Capabilities") - {"if_absent", "if_version"} == true | {"isolation"}
    assert f'| `"{declared["isolation"]}"` |' in PAGE


def test_options():
    """The table names each option, and no other."""
    assert names_in_table("Options") == set(E2BOptions.model_fields)
