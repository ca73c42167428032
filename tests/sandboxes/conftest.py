"""Both sandbox backends, through their real SDKs, on servers that speak the providers' protocols on this machine.

Against the clouds the same tests run only where `STEAD_TEST_LIVE=e2b,daytona` says so; otherwise the providers' variables are
taken out of the environment, so that nothing here can reach an account.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "servers"))

for name in [name for name in os.environ if name.startswith(("E2B_", "DAYTONA_"))]:
    if name.partition("_")[0].lower() not in os.environ.get("STEAD_TEST_LIVE", ""):
        del os.environ[name]

from providers import PROVIDERS, Provider
from sandbox_servers import SandboxServer


@pytest.fixture(scope="session")
def servers():
    """Started when first asked for, ended with the run."""
    running: dict[str, SandboxServer] = {}

    def get(name: str) -> SandboxServer:
        if name not in running:
            running[name] = SandboxServer(name).__enter__()
        return running[name]

    yield get
    for server in running.values():
        server.__exit__()


@pytest.fixture(params=sorted(PROVIDERS))
def provider(request, servers) -> Provider:
    """Each provider in turn, with a server that has forgotten what was before."""
    server = servers(request.param)
    server.reset()
    yield PROVIDERS[request.param](server)
    left = server.processes()
    server.expire()
    server.reset()
    assert len(left) < 200
