"""Says which test holds against which trap of an SDK, and that it exists."""

from collections.abc import Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

__all__ = ["missing_tests"]


def missing_tests(index: Mapping[str, tuple[str, ...]], folder: Path) -> list[str]:
    """Returns the tests of an index that are not there.

    Args:
        index: By trap, the tests: `"test_file.py::test_name"`, or with a class between.
        folder: Where the files are.
    """

    @cache
    def module(file: str) -> Any:
        spec = spec_from_file_location(f"indexed_{file}", folder / file)
        if spec is None or spec.loader is None or not (folder / file).is_file():
            return None
        made = module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    def is_there(name: str) -> bool:
        file, *parts = name.split("::")
        found = module(file)
        for part in parts:
            found = getattr(found, part, None)
        return callable(found)

    return [name for names in index.values() for name in names if not is_there(name)]
