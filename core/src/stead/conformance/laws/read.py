"""Laws about reading what is not a readable file: each mistake has its one error."""

import pytest

from stead.conformance.folder import Folder
from stead.conformance.kit import LawSettings
from stead.conformance.law import law
from stead.environment import Environment
from stead.errors import FileMissing, InvalidPath, IsADirectory, NotADirectory

__all__ = ["ReadLaws"]


class ReadLaws(LawSettings):
    """Group C: errors of reading."""

    @law("C1")
    async def test_read_missing(self, env: Environment, here: Folder) -> None:
        """A missing file is FileMissing, and the message names the path."""
        await here.make(env)
        with pytest.raises(FileMissing, match="no-such-file"):
            await env.read_file(here / "no-such-file.txt")

    @law("C2")
    async def test_read_missing_parent(self, env: Environment, here: Folder) -> None:
        """A file in a missing directory is FileMissing."""
        with pytest.raises(FileMissing):
            await env.read_file(here / "no/such/file.txt")

    @law("C3")
    async def test_read_directory(self, env: Environment, here: Folder) -> None:
        """A directory is IsADirectory."""
        await env.write_file(here / "d/a", "x")
        with pytest.raises(IsADirectory):
            await env.read_file(here / "d")

    @law("C3")
    async def test_read_below_file(self, env: Environment, here: Folder) -> None:
        """A path that goes through a file, or ends in a slash after one, is NotADirectory."""
        await env.write_file(here / "a", "x")
        for path in (here / "a/b", here / "a/"):
            with pytest.raises(NotADirectory):
                await env.read_file(path)

    @law("C5")
    async def test_read_empty_path(self, env: Environment) -> None:
        """An empty path is InvalidPath, a ValueError."""
        with pytest.raises(InvalidPath) as caught:
            await env.read_file("")
        assert isinstance(caught.value, ValueError)
