"""The in-memory environment holds every law."""

import pytest

from stead.conformance import EnvironmentLaws
from stead.environments.memory import MemoryEnvironment


class TestMemory(EnvironmentLaws):
    """The in-memory environment under all laws."""

    @pytest.fixture
    def environment(self):
        return MemoryEnvironment()
