"""The tests of the GCS backend run on a real server of this machine, and never against anything that costs money."""

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
