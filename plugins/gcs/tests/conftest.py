"""The tests of the GCS backend run on a real server of this machine, and never against anything that costs money."""

import os
import secrets
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]

from servers.clean import strip_providers  # noqa: E402 - found through the path above

strip_providers()


@pytest.fixture(scope="session")
def server():
    """fake-gcs-server, in memory."""
    from servers.gcs import fake_gcs

    with fake_gcs() as found:
        yield found


@pytest.fixture
def place(server):
    """Options of an environment with a prefix of its own."""
    return server.options(prefix=f"t-{secrets.token_hex(4)}")


@pytest.fixture
def door(server, place):
    """The back door to that prefix."""
    from gcs_support import BucketDoor

    return BucketDoor(server, place["prefix"])


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
    return float(os.environ.get("STEAD_SCALE", "0.1"))


@pytest.fixture
def quick_retries(monkeypatch):
    """Takes the pauses out of what fails for good."""
    monkeypatch.setattr("stead_fsspec.retry._FIRST_PAUSE", 0.01)


def pytest_collection_modifyitems(items):
    """Leaves what takes long to the soak."""
    from servers.soak_laws import mark_soak_laws

    mark_soak_laws(items, Path(__file__).parent, quick_of={})
