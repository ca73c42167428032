"""The laws against the clouds: only where `STEAD_TEST_LIVE` names them, and then with the keys of the environment."""

import os

import pytest

from stead.conformance import EnvironmentLaws

LIVE = [name for name in os.environ.get("STEAD_TEST_LIVE", "").split(",") if name]


class LiveLaws(EnvironmentLaws):
    """The laws on a sandbox of the cloud, one for each law."""

    law_seconds = 600.0
    margin = 10.0
    large_file = 64 << 20


if "e2b" in LIVE:

    @pytest.mark.timeout(900)
    class TestLiveE2B(LiveLaws):
        """E2B's cloud."""

        backend, root = "e2b", "/home/user/stead-laws-root"

        @pytest.fixture
        def environment(self):
            from stead_e2b import E2BEnvironment

            return E2BEnvironment(root=self.root)


if "daytona" in LIVE:

    @pytest.mark.timeout(900)
    class TestLiveDaytona(LiveLaws):
        """Daytona's cloud."""

        backend, root = "daytona", "/tmp/stead-laws-root"

        @pytest.fixture
        def environment(self):
            from stead_daytona import DaytonaEnvironment

            return DaytonaEnvironment(root=self.root)
