"""Wrappers are environments: the conformance suite holds for each, with what it cannot hold said as a waiver."""

import pytest

from stead.conformance import EnvironmentLaws
from stead.environments import MemoryEnvironment
from stead.wrappers import MountsEnvironment, ScopedEnvironment, StagedEnvironment
from stead_local import LocalEnvironment

pytestmark = pytest.mark.soak


class TestScoped(EnvironmentLaws):
    """A scope of a store."""

    @pytest.fixture
    def environment(self):
        return ScopedEnvironment(MemoryEnvironment(), "team-a/x", owns=True)


class TestMounts(EnvironmentLaws):
    """A local main environment with a store mounted beside its files."""

    @pytest.fixture
    def environment(self):
        return MountsEnvironment(MemoryEnvironment(), {"mnt/results": MemoryEnvironment()})


class TestStaged(EnvironmentLaws):
    """A store with a machine. Only files travel between them, and only around a command."""

    waivers = {
        "read-fifo": "a FIFO stays on the machine: a store holds files only",
        "list-empty": "an empty directory stays on the machine: a store has directories only as parents of files",
        "execute-cancel": "the law watches for a file of the running command, which reaches the store when it has ended",
        "execute-background-lives": "what a background process writes reaches the store with the next command",
    }

    @pytest.fixture
    def environment(self, tmp_path):
        return StagedEnvironment(MemoryEnvironment(), LocalEnvironment(tmp_path))
