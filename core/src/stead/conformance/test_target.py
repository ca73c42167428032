"""The laws on the target of the command line: `pytest --pyargs stead.conformance --stead-env TARGET`."""

import tempfile
from collections.abc import Iterator, Mapping

import pytest

from stead.conformance.environment_laws import EnvironmentLaws
from stead.conformance.target import Target
from stead.environment import Environment

__all__ = ["TestTarget", "aim"]


class TestTarget(EnvironmentLaws):
    """All laws on one target; `stead.conformance.plugin` hands it in."""

    target: Target

    @pytest.fixture
    def stead_tmp(self) -> Iterator[str]:
        """What `{tmp}` stands for in this law: a folder that is removed after it."""
        if not self.target.fresh:
            yield ""
            return
        with tempfile.TemporaryDirectory(prefix="stead-conformance-", ignore_cleanup_errors=True) as folder:
            yield folder

    @pytest.fixture
    def environment(self, stead_tmp: str) -> Environment:
        """The target."""
        return self.target.open(stead_tmp)

    @pytest.fixture
    async def second_environment(self, stead_tmp: str) -> Environment | None:
        """The target once more, if that sees the same files."""
        return self.target.open(stead_tmp) if await self.target.shares_files(stead_tmp) else None


def aim(target: Target, waivers: Mapping[str, str]) -> None:
    """Points the laws of this module at a target."""
    TestTarget.target, TestTarget.waivers, TestTarget.backend = target, dict(waivers), target.backend
    root = target.options.get("root")
    is_absolute = isinstance(root, str) and root.startswith("/")
    TestTarget.root = root if is_absolute else None
