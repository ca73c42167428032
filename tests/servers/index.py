"""Says which test holds against which trap of an SDK, and that it exists."""

import ast
from collections.abc import Mapping
from pathlib import Path

__all__ = ["missing_tests"]


def missing_tests(index: Mapping[str, tuple[str, ...]], folder: Path) -> list[str]:
    """Returns the tests of an index that are not there.

    Args:
        index: By trap, the tests: `"test_file.py::test_name"`.
        folder: Where the files are.
    """
    known: dict[str, set[str]] = {}
    missing = []
    for names in index.values():
        for name in names:
            file, _, test = name.partition("::")
            path = folder / file
            if file not in known:
                tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
                known[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            if test not in known[file]:
                missing.append(name)
    return missing
