"""Thousands of commands: nothing grows. `tests/benchmarks/bench_execute_soak.py` takes the full size as options."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parent / "benchmarks" / "bench_execute_soak.py"


@pytest.mark.slow
def test_nothing_grows():
    """A tenth of the full soak: no growth of descriptors, threads, processes or memory, and nothing is left."""
    done = subprocess.run(
        [sys.executable, SOAK, "--row", "1000", "--at-once", "200"], capture_output=True, text=True, timeout=110
    )
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "nothing grew", "")
