"""`stead backends`: what is installed, where it comes from, and whether it works."""

import sys
from typing import Any

from stead.cli.common import JsonOption, print_json, printable
from stead.registry import InstalledBackend, list_backends

__all__ = ["backends"]

_WIDE = 1000
"""Columns where nobody looks: a line is one backend, whatever its length."""


def backends(json: JsonOption = False) -> None:
    """List the installed backends: name, distribution, version, state, plugin module and its file."""
    found = list_backends()
    if json:
        print_json([_as_data(item) for item in found])
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("NAME", "DISTRIBUTION", "VERSION", "STATE", "MODULE", "PATH", box=None, pad_edge=False)
    for item in found:
        state = "ok" if item.error is None else "broken"
        row = (item.name, item.distribution, item.version, state, item.module, item.path or "-")
        table.add_row(*(printable(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, highlight=False).print(table)
    for item in found:
        if item.error is not None:
            print(f"stead: {printable(item.error)}", file=sys.stderr)


def _as_data(item: InstalledBackend) -> dict[str, Any]:
    return {
        "name": item.name,
        "distribution": item.distribution,
        "version": item.version,
        "state": "ok" if item.error is None else "broken",
        "error": item.error,
        "module": item.module,
        "path": item.path,
        "summary": item.spec.summary if item.spec else None,
        "contract": item.spec.contract if item.spec else None,
        "capabilities": list(item.spec.capabilities.declared()) if item.spec else None,
    }
