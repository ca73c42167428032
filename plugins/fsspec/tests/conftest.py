"""The tests of the fsspec backend and of the base of object stores."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]


def pytest_collection_modifyitems(items):
    """Leaves what takes long to the soak; the laws over this machine's files hold what those over files in memory do."""
    from servers.soak_laws import mark_soak_laws

    mark_soak_laws(items, Path(__file__).parent, quick_of={"TestLocalFilesystem": ("test_write_", "test_list_")})
