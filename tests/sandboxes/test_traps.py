"""The SDKs' traps are none for who uses the environments: tried on every Python of 3.11 to 3.13 that has the SDKs."""

import subprocess
import sys
from pathlib import Path

import pytest
from providers import PROVIDERS
from pythons import pythons, variables
from traps import TRAPS

HERE = Path(__file__).parent
VERSIONS = [
    pytest.param(version, marks=() if path == sys.executable else pytest.mark.soak)
    for version, path in sorted(pythons().items())
]
"""The Python of the run, and others, which are for the soak."""


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", sorted(PROVIDERS))
@pytest.mark.parametrize("version", VERSIONS)
def test_trap(trap_runs, version, name, trap):
    """On that Python, that trap of that provider's SDK is not felt."""
    assert trap_runs.begin(version, name).result()[trap] is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_interpreter_ends_cleanly(provider_of, name, version):
    """A process that has run a command ends with code 0: the SDK's threads do not abort it."""
    ran = subprocess.run(
        [pythons()[version], str(HERE / "hello.py"), name, provider_of(name).server.url],
        env=variables(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello\n", "")


@pytest.mark.soak
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("version", VERSIONS)
def test_interpreter_ends_cleanly_each_time(provider_of, version):
    """Twenty times with E2B, whose SDK aborted up to a quarter of them."""
    provider = provider_of("e2b")
    codes = [
        subprocess.run(
            [pythons()[version], str(HERE / "hello.py"), "e2b", provider.server.url],
            env=variables(),
            capture_output=True,
            check=False,
        ).returncode
        for _ in range(20)
    ]
    assert codes == [0] * 20
