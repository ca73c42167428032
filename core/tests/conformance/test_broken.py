"""Each deliberately broken environment is caught by the law that is meant for it, and by no law of another group."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from broken_suite import CAUGHT

from stead.conformance.environment_laws import LAWS

HERE = Path(__file__).parent
GROUPS = {spec.id: spec.group for spec in LAWS.values()}
BY_MEASURE = {name: spec for name, spec in LAWS.items() if spec.measured}
# Asked only of environments that are broken in the same group: they wait, or move much.
LONG = ("execute_timeout", "execute_cancel", "execute_background", "execute_stream", "execute_parallel", "execute_too")
LONG += ("execute_close", "stream_slow", "stream_order", "stream_cancel", "list_many", "write_100", "read_fifo", "range_cost")
# A catch-all by design, with a test of its own.
CATCH_ALL = "test_agrees_with_memory"


def _wanted(name: str, *, everything: bool) -> list[str]:
    group = GROUPS[CAUGHT[name]]
    chosen = (n for n in LAWS if n != CATCH_ALL)
    if not everything:
        is_long = {n: n in BY_MEASURE or n.removeprefix("test_").startswith(LONG) for n in LAWS}
        chosen = (n for n in chosen if LAWS[n].group == group or not is_long[n])
    return [f"{HERE}/broken_suite.py::Test{name}::{n}" for n in chosen]


def _run(names: list[str], folder: Path, *, everything: bool = False) -> dict[str, dict[str, str]]:
    report = folder / f"{names[0]}.json"
    nodes = folder / f"{names[0]}.txt"
    nodes.write_text("\n".join(node for name in names for node in _wanted(name, everything=everything)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "stead.conformance.plugin", "-p", "no:cacheprovider", "-q", "--tb=no",
         "-c", os.devnull, "--rootdir", str(HERE), "--stead-report", str(report), f"@{nodes}"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert report.exists(), done.stdout + done.stderr
    found = json.loads(report.read_text())
    return {
        one["target"].removeprefix("Test"): {v["law"]: v["reason"] for v in one["verdicts"] if v["outcome"] == "failed"}
        for one in (found if isinstance(found, list) else [found])
    }


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Which laws each broken environment fails, and why."""
    folder = tmp_path_factory.mktemp("broken")
    names = list(CAUGHT)
    parts = [part for n in range(6) if (part := names[n::6])]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda part: _run(part, folder), parts))
    return {name: laws for result in results for name, laws in result.items()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CAUGHT)
def test_caught(failed, name):
    """It fails its law, and no law of another group."""
    laws = failed[name]

    assert CAUGHT[name] in laws
    assert {GROUPS[law] for law in laws} == {GROUPS[CAUGHT[name]]}, laws
