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

TRAP_RUNS: pytest.StashKey = pytest.StashKey()

for name in [name for name in os.environ if name.startswith(("E2B_", "DAYTONA_"))]:
    if name.partition("_")[0].lower() not in os.environ.get("STEAD_TEST_LIVE", ""):
        del os.environ[name]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leaves the laws that are not of the quick run to the soak."""
    spec = getattr(getattr(item, "function", None), "__stead_law__", None)
    quick = getattr(getattr(item, "cls", None), "quick", None)
    if spec is not None and quick is not None and spec.id not in quick:
        item.add_marker(pytest.mark.soak)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begins the traps that were selected, beside all other tests."""
    from trap_runs import TrapRuns

    session.stash[TRAP_RUNS] = runs = TrapRuns()
    for item in session.items:
        if getattr(item, "originalname", "") == "test_trap" and not session.config.option.collectonly:
            runs.begin(item.callspec.params["version"], item.callspec.params["name"])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends what nobody waits for any more."""
    if TRAP_RUNS in session.stash:
        session.stash[TRAP_RUNS].close()


@pytest.fixture(scope="session", autouse=True)
def nobody_is_left(tmp_path_factory):
    """The whole run leaves no process in any folder of its tests."""
    from leftovers import nobody_left_in

    yield
    nobody_left_in(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def trap_runs(request):
    """What the traps did."""
    return request.session.stash[TRAP_RUNS]


def pytest_terminal_summary(terminalreporter) -> None:
    """Says on which Pythons the SDKs were tried, and which could not be: also in a quiet run."""
    from pythons import told

    terminalreporter.write_line(told())


@pytest.fixture(scope="session")
def servers():
    """Servers by the provider's name: started when first asked for, ended with the run."""
    from sandbox_servers import SandboxServer

    running: dict[str, SandboxServer] = {}

    def get(name: str) -> SandboxServer:
        if name not in running:
            running[name] = SandboxServer(name).__enter__()
        return running[name]

    yield get
    for server in running.values():
        server.__exit__()


@pytest.fixture
def provider_of(servers):
    """Providers by name, each with a server that has forgotten what was before."""
    from providers import PROVIDERS

    used = []

    def get(name: str):
        server = servers(name)
        server.expire()
        server.reset()
        used.append(server)
        return PROVIDERS[name](server)

    yield get
    for server in used:
        server.expire()
        server.reset()


@pytest.fixture(params=["daytona", "e2b"])
def provider(request, provider_of):
    """Each provider in turn."""
    return provider_of(request.param)
