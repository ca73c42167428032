"""The tests of the fsspec backend and of the base of object stores."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]


def pytest_collection_modifyitems(items):
    """Marks what takes long as slow; the laws over files of this machine hold what those over files in memory do."""
    from servers.slow_laws import mark_slow_laws

    mark_slow_laws(
        items,
        Path(__file__).parent,
        quick_of={"TestLocalFilesystem": ("test_write_", "test_list_")},
        minutes_of=frozenset(),
    )
