"""The local environment holds every law."""

import pytest

from stead.conformance import DirectoryDoor, EnvironmentLaws
from stead_local import LocalEnvironment


class TestLocal(EnvironmentLaws):
    """The local environment under all laws, with a back door and a second instance."""

    backend = "local"

    @pytest.fixture
    def environment(self, tmp_path):
        return LocalEnvironment(root=tmp_path)

    @pytest.fixture
    def second_environment(self, tmp_path):
        return LocalEnvironment(root=tmp_path)

    @pytest.fixture
    def raw(self, tmp_path):
        return DirectoryDoor(tmp_path)
