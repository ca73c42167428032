"""The fsspec backend holds every law over two filesystems, as far as it declares."""

import uuid

import pytest

from stead.conformance import DirectoryDoor, EnvironmentLaws
from stead_fsspec import FsspecEnvironment


class TestMemoryFilesystem(EnvironmentLaws):
    """Over fsspec's files in memory."""

    waivers = {"write-stream-bounded-memory": "the memory of fsspec's filesystem is that of this process"}

    backend = "fsspec"
    root = "/"
    large_file = 64 << 20

    @pytest.fixture
    def environment(self):
        return FsspecEnvironment("memory", f"/{uuid.uuid4()}")


class TestLocalFilesystem(EnvironmentLaws):
    """Over fsspec's files of this machine."""

    backend = "fsspec"
    root = "/"
    large_file = 64 << 20

    @pytest.fixture
    def environment(self, tmp_path):
        return FsspecEnvironment("file", str(tmp_path))

    @pytest.fixture
    def second_environment(self, tmp_path):
        return FsspecEnvironment("file", str(tmp_path))

    @pytest.fixture
    def raw(self, tmp_path):
        return DirectoryDoor(tmp_path)
