"""`stead sandboxes`: only what stead made, and only when it is old enough."""

import json

import pytest
from providers import run
from typer.testing import CliRunner

from stead.cli.app import app


@pytest.fixture
def stead(provider, monkeypatch, tmp_path):
    """Runs a command with the provider's address in the variables."""
    monkeypatch.chdir(tmp_path)
    for name, value in provider.variables().items():
        monkeypatch.setenv(f"STEAD_{provider.name.upper()}__{name.upper()}", value)
    return lambda *words: CliRunner().invoke(app, ["sandboxes", *words])


def left_behind(provider) -> str:
    """Makes a sandbox that nobody lets go."""

    async def use() -> str:
        async with provider.environment(on_close="keep") as env:
            await env.execute("true")
        return env.sandbox_id

    return run(use())


def test_list(provider, stead):
    """Our sandboxes are listed with their state and owner, as text and as JSON; others are not."""
    ours, foreign = left_behind(provider), provider.server.make(labels={"someone": "else"})["id"]
    text = stead("list", provider.name)
    assert text.exit_code == 0
    assert ours in text.stdout
    assert foreign not in text.stdout
    found = json.loads(stead("list", provider.name, "--json").stdout)
    assert [info["id"] for info in found] == [ours]
    assert found[0]["labels"]["created-by"] == "stead"


def test_clean(provider, stead):
    """`clean` removes those that are old enough, never another's, and asks how old that is."""
    ours, foreign = left_behind(provider), provider.server.make(labels={"someone": "else"})["id"]
    assert stead("clean", provider.name).exit_code == 2
    young = stead("clean", provider.name, "--older-than", "1h")
    assert (young.exit_code, young.stdout) == (0, "")
    assert stead("clean", provider.name, "--all", "--dry-run").stdout == f"would remove {ours}\n"
    assert set(provider.server.living()) == {ours, foreign}
    assert stead("clean", provider.name, "--all").stdout == f"removed {ours}\n"
    assert set(provider.server.living()) == {foreign}


def test_no_sandboxes(stead):
    """A backend that has no sandboxes is told so."""
    answer = stead("list", "memory")
    assert (answer.exit_code, answer.stdout) == (2, "")
