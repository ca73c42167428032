"""Each deliberately broken environment is caught by the law that is meant for it, and by no law of another group."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from broken_suite import CAUGHT, HONEST

from stead.conformance.environment_laws import LAWS

HERE = Path(__file__).parent
FUNCTIONS = {spec.id: name for name, spec in LAWS.items()}
GROUPS = {spec.id: spec.group for spec in LAWS.values()}
# Asked only of environments that are broken in the same group: they wait, or move much.
LONG = ("execute-timeout", "execute-cancel", "execute-background", "execute-stream", "execute-parallel", "execute-too")
LONG += ("execute-close", "stream-slow", "stream-order", "stream-cancel", "list-many", "write-100", "read-fifo")
# Not asked: laws that put all methods to work find any fault by design.
COMPOSED = ("agrees-with-memory",)
COMPOSED_GROUPS = ("object", "reducer")


def own_law(name):
    """The one law that is meant for a broken environment."""
    return [CAUGHT[name]]


def all_laws(name):
    """All laws that a broken environment is asked about."""
    group = GROUPS.get(CAUGHT.get(name))
    return [
        spec.id
        for spec in LAWS.values()
        if spec.id not in COMPOSED
        and spec.group not in COMPOSED_GROUPS
        and (spec.group == group or not (spec.measured or spec.id.startswith(LONG)))
    ]


def failures(names, laws, folder):
    """Which of these laws each environment fails, and why."""
    parts = [part for n in range(4) if (part := names[n::4])]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda part: _run(part, laws, folder), parts))
    return {name: found for result in results for name, found in result.items()}


def _run(names, laws, folder):
    report, nodes = folder / f"{names[0]}.json", folder / f"{names[0]}.txt"
    wanted = [f"{HERE}/broken_suite.py::Test{name}::{FUNCTIONS[law]}" for name in names for law in laws(name)]
    nodes.write_text("\n".join(wanted))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "stead.conformance.plugin", "-p", "no:cacheprovider", "-q", "--tb=no",
         "-c", os.devnull, "--rootdir", str(HERE), "--basetemp", str(folder / f"{names[0]}.d"),
         "--stead-report", str(report), f"@{nodes}"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(HERE)},
        capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert report.exists(), done.stdout + done.stderr
    found = json.loads(report.read_text())
    return {
        one["target"].removeprefix("Test"): {v["law"]: v["reason"] for v in one["verdicts"] if v["outcome"] == "failed"}
        for one in (found if isinstance(found, list) else [found])
    }


@pytest.fixture(scope="module")
def caught(tmp_path_factory):
    """Whether each broken environment fails its law."""
    return failures(list(CAUGHT), own_law, tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def caught_by(tmp_path_factory):
    """All laws that each environment fails."""
    return failures([*CAUGHT, *HONEST], all_laws, tmp_path_factory.mktemp("all"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CAUGHT)
def test_caught(caught, name):
    """It fails the law that is meant for it."""
    assert list(caught[name]) == [CAUGHT[name]]


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", CAUGHT)
def test_caught_by_no_other_group(caught_by, name):
    """It fails no law of another group."""
    assert CAUGHT[name] in caught_by[name]
    assert {GROUPS[law] for law in caught_by[name]} == {GROUPS[CAUGHT[name]]}, caught_by[name]


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", HONEST)
def test_honest_is_not_caught(caught_by, name):
    """The same environment, not broken, fails nothing: it is the fault that is caught, not the wrapping."""
    assert caught_by[name] == {}
