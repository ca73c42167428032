"""The tests of the S3 backend run on real servers of this machine, and never against anything that costs money."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]

from servers.clean import strip_providers  # noqa: E402 - found through the path above

strip_providers()


@pytest.fixture(scope="session")
def seaweed():
    """SeaweedFS: real signatures, checksums and conditions."""
    from servers.s3 import seaweedfs

    with seaweedfs() as server:
        yield server


@pytest.fixture(scope="session")
def moto_server():
    """moto: AWS's own error codes."""
    from servers.s3 import moto

    with moto() as server:
        yield server


SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
_MANY_CALLS = {"test_agrees_with_memory", "test_delete_many", "test_list_many", "test_object_printable_names"}


def pytest_collection_modifyitems(items):
    """Leaves what takes moto minutes to runs at full size; SeaweedFS does it in any run."""
    if SCALE < 1:
        slow = pytest.mark.skip(reason="moto answers a hundred requests a second: run with STEAD_SCALE=1")
        for item in items:
            if item.parent.name == "TestMoto" and item.name in _MANY_CALLS:
                item.add_marker(slow)
