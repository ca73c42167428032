"""The tests of the S3 backend run on real servers of this machine, and never against anything that costs money."""

import os
import secrets
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


@pytest.fixture
def server(request):
    """SeaweedFS, unless a test is marked with `BOTH` and takes each server in turn."""
    return request.getfixturevalue(getattr(request, "param", "seaweed"))


@pytest.fixture
def place(server):
    """Options of an environment with a prefix of its own."""
    return server.options(prefix=f"t-{secrets.token_hex(4)}")


@pytest.fixture
def door(server, place):
    """The back door to that prefix."""
    from s3_support import BucketDoor

    found = BucketDoor(server, place["prefix"])
    yield found
    found.close()


@pytest.fixture
def proxy(server):
    """A proxy before the server, without faults."""
    from servers.fault_proxy import FaultProxy

    with FaultProxy(server.url) as found:
        yield found


@pytest.fixture
def near(place, proxy):
    """Options of an environment behind the proxy."""
    return {**place, "endpoint_url": proxy.url}


@pytest.fixture
def scale():
    """1 is full size; the default is a tenth."""
    return SCALE


@pytest.fixture
def quick_retries(monkeypatch):
    """Takes the pauses out of what fails for good: how long they are is tested once."""
    monkeypatch.setattr("stead_fsspec.retry._FIRST_PAUSE", 0.01)


SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))


# moto answers a hundred requests a second: only what differs there is quick. Over SeaweedFS what does not depend on the
# store (paths, life, declarations) is left to the soak: the same base holds it in the quick tests of fsspec and GCS.
_QUICK = {
    "TestMoto": ("test_object_", "test_write_if_", "test_delete_", "test_stat_"),
    "TestSeaweedFS": tuple(
        f"test_{group}_" for group in ("object", "write", "stream", "read", "list", "delete", "stat")
    ),
}


def pytest_collection_modifyitems(items):
    """Leaves what takes long to the soak."""
    from servers.soak_laws import mark_soak_laws

    mark_soak_laws(items, Path(__file__).parent, quick_of=_QUICK)
