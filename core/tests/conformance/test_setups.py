"""The kit owns its event loop: it means the same under every asyncio plugin, and under none."""

import sys

import pytest

PLUGIN = "stead.conformance.plugin"
ANYIO = "anyio.pytest_plugin"
ASYNCIO = "pytest_asyncio.plugin"

SETUPS = {
    "neither": ((PLUGIN,), ()),
    "anyio only": ((PLUGIN, ANYIO), ()),
    "pytest-asyncio strict": ((PLUGIN, ASYNCIO), ("--asyncio-mode=strict",)),
    "pytest-asyncio auto": ((PLUGIN, ASYNCIO), ("--asyncio-mode=auto",)),
    "both": ((PLUGIN, ANYIO, ASYNCIO), ("--asyncio-mode=auto",)),
}
QUICK = (
    "-k",
    "test_life or test_stream_e or write_text or test_declares",
    "-W",
    "ignore::pytest.PytestDeprecationWarning",
)

PLAIN = """
class TestMine(EnvironmentLaws):
    @pytest.fixture
    def environment(self):
        return MemoryEnvironment()
"""
ASYNC = """
closed = []

class TestMine(EnvironmentLaws):
    @pytest.fixture
    async def server(self):
        import asyncio
        await asyncio.sleep(0)
        return "up"

    @pytest.fixture
    async def environment(self, server):
        assert server == "up"
        yield MemoryEnvironment()
        closed.append(1)

def test_closed():
    assert len(closed) > 10
"""


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("source", [PLAIN, ASYNC], ids=["sync fixture", "async fixture"])
def test_setup(run_suite, setup, source):
    """The laws are tried and held under this set-up, with a plain fixture and with an async one."""
    plugins, arguments = SETUPS[setup]
    run = run_suite(source, *QUICK, *arguments, plugins=plugins)

    assert run.code == 0, run.output
    assert sorted(set(run.outcomes.values())) == ["held", "locked", "unsupported"]
    assert list(run.outcomes.values()).count("held") > 20


def test_without_our_plugin(run_suite):
    """Without the plugin the laws are tried all the same: only the report is missing."""
    run = run_suite(PLAIN, *QUICK[:2], plugins=())

    assert run.code == 0
    assert "passed" in run.output


def test_strict_pytest(run_suite):
    """The laws pass where markers, configuration and warnings are strict."""
    run = run_suite(PLAIN, "-k", "write_text or stream_equals", "--strict-markers", "--strict-config", "-W", "error")

    assert run.code == 0, run.output


def test_plugin_imports_nothing_heavy():
    """The plugin that every pytest run loads imports pytest, the standard library, and no other part of stead."""
    import subprocess

    code = (
        "import pytest, sys; import stead; before = set(sys.modules); import stead.conformance.plugin\n"
        "print(sorted(name for name in set(sys.modules) - before if name.split('.')[0] not in sys.stdlib_module_names))\n"
        "print([n for n in ('pydantic', 'hypothesis', 'typer', 'rich') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()

    assert found[0] == "['stead.conformance', 'stead.conformance.plugin']"
    assert "pydantic" not in found[1]
    assert "hypothesis" not in found[1]
