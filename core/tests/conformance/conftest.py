"""Runs pytest with nothing but the conformance plugin, on a file of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

SUITE = """
import pytest
from stead.conformance import EnvironmentLaws
from stead.environments import MemoryEnvironment
"""


@pytest.fixture(autouse=True, scope="session")
def shared_bytecode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets the many processes of these tests share what they compile: most of their time is the laws' asserts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield


@dataclass(frozen=True)
class Run:
    """What a pytest of its own came to."""

    code: int
    output: str
    reports: list[dict]

    @property
    def outcomes(self) -> dict[str, str]:
        """How each law went, by its id."""
        return {verdict["law"]: verdict["outcome"] for report in self.reports for verdict in report["verdicts"]}

    def reason(self, law: str) -> str:
        """Why a law was not held."""
        return next(v["reason"] for report in self.reports for v in report["verdicts"] if v["law"] == law)


@pytest.fixture
def run_suite(tmp_path: Path) -> Callable[..., Run]:
    """Runs the laws on test classes given as text: `run_suite(source, "-k", "write_atomic")`."""

    def run(source: str, *arguments: str, plugins: tuple[str, ...] = ("stead.conformance.plugin",)) -> Run:
        folder = tmp_path / "suite"
        folder.mkdir(exist_ok=True)
        (folder / "test_suite.py").write_text(SUITE + source)
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        loaded = [part for name in plugins for part in ("-p", name)]
        told = ["--stead-report", str(report)] if "stead.conformance.plugin" in plugins else []
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *loaded, *told, "-p", "no:cacheprovider", *arguments],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        found = json.loads(report.read_text()) if report.exists() else []
        return Run(done.returncode, done.stdout + done.stderr, found if isinstance(found, list) else [found])

    return run
