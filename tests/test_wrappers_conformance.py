"""Wrappers are environments: the conformance suite holds for each, made by a `stead.toml`; waivers say what cannot hold."""

import pytest

import stead
from stead.conformance import EnvironmentLaws

pytestmark = pytest.mark.slow

FILE = """
[environments]
store = { backend = "memory" }
machine = { backend = "local", root = "machine" }
local = { backend = "local", root = "local" }
scoped = { backend = "scoped", environment = "store", folder = "team-a/x" }
mounts = { backend = "mounts", main = "store", mounts = { "mnt/results" = "scoped" } }
staged = { backend = "staged", store = "store", machine = "machine" }
read_only = { backend = "read_only", environment = "local" }
"""


@pytest.fixture
def config(tmp_path):
    for folder in ("machine", "local"):
        (tmp_path / folder).mkdir()
    (tmp_path / "stead.toml").write_text(FILE)
    return stead.load_config(tmp_path / "stead.toml")


class TestScoped(EnvironmentLaws):
    """A scope of a store."""

    @pytest.fixture
    def environment(self, config):
        return config.create_environment("scoped")


class TestMounts(EnvironmentLaws):
    """A store with another one mounted beside its files."""

    @pytest.fixture
    def environment(self, config):
        return config.create_environment("mounts")


class TestStaged(EnvironmentLaws):
    """A store with a machine. Only files travel between them, and only around a command."""

    waivers = {
        "read-fifo": "a FIFO stays on the machine: a store holds files only",
        "list-empty": "an empty directory stays on the machine: a store has directories only as parents of files",
        "execute-cancel": "the law watches for a file of the running command, which reaches the store when it has ended",
        "execute-background-lives": "what a background process writes reaches the store with the next command",
    }

    @pytest.fixture
    def environment(self, config):
        return config.create_environment("staged")


class TestReadOnly(EnvironmentLaws):
    """A view of a folder of this machine. The laws need files to read, so here a plain write goes past the view."""

    @pytest.fixture
    def environment(self, config):
        view = config.create_environment("read_only")
        refuse = view.write_file

        async def write_file(path, content, *, if_absent=False, if_version=None):
            if if_absent or if_version is not None:
                return await refuse(path, content, if_absent=if_absent, if_version=if_version)
            await view._ready()
            return await view.inner.write_file(path, content)

        view.write_file = write_file
        return view
