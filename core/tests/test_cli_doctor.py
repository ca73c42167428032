"""`stead doctor` and the options of time: whatever is wrong is told, and never a traceback."""

import asyncio
import json

import pytest

from stead.cli import main
from stead.cli.doctor import examine
from stead.environments import MemoryEnvironment


class Broken(MemoryEnvironment):
    """Raises what no environment should, from the calls that are named."""

    calls = frozenset({"_start"})

    async def _start(self):
        if "_start" in self.calls:
            raise OSError("no disk")

    async def read_file(self, path):
        if "read_file" in self.calls:
            raise OSError("no disk")
        return await super().read_file(path)

    async def _close(self):
        if "_close" in self.calls:
            raise OSError("no disk")


class Unmade(MemoryEnvironment):
    def __init__(self):
        raise OSError("no disk")


class BreaksLater(Broken):
    calls = frozenset({"read_file", "_close"})


@pytest.fixture(autouse=True)
def _nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def failed(name: str) -> dict[str, str]:
    return {item.check: item.text for item in asyncio.run(examine(name, None)) if item.state == "FAIL"}


@pytest.mark.parametrize(
    ("kind", "checks"),
    [(Unmade, ["options"]), (Broken, ["reachable"]), (BreaksLater, ["read", "stream", "delete", "close"])],
)
def test_foreign_errors_are_findings(kind, checks):
    """A class that raises OSError is told so, by the check that met it."""
    found = failed(f"{__name__}:{kind.__name__}")
    assert list(found) == checks
    assert all("OSError" in text and "no disk" in text for text in found.values())


def test_nothing_is_wrong_with_a_read_only_environment(tmp_path):
    """What it does not offer is `no`, what needs a file that could not be written is not tried, nothing is FAIL."""
    (tmp_path / "stead.toml").write_text(
        '[environments.view]\nbackend = "read_only"\nenvironment = "store"\n[environments.store]\nbackend = "memory"\n'
    )
    states = {item.check: item.state for item in asyncio.run(examine("view", None))}
    assert states == {
        **dict.fromkeys(("installed", "options", "reachable", "credentials"), "ok"),
        **dict.fromkeys(("write", "execute"), "no"),
        **dict.fromkeys(("clock", "read", "stream", "list", "if_absent", "if_version", "delete"), "-"),
    }


@pytest.mark.parametrize("age", ["99999999w", "999999999999999d", "9" * 5_000 + "s"])
@pytest.mark.parametrize("command", [("sandboxes", "clean", "memory", "--older-than"), ("offloads", "gc", "--age")])
def test_an_age_that_no_clock_has(capsys, command, age):
    """It is wrong usage, and the message is short."""
    with pytest.raises(SystemExit) as ended:
        main([*command, age])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "longer than 1000 years" in told or "is not valid" in told
    assert len(told) < 1_000


def test_an_error_is_printed_as_json(capsys):
    """As every other finding."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", "--env", f"{__name__}:Broken"])
    found = {item["check"]: item["state"] for item in json.loads(capsys.readouterr().out)}
    assert (ended.value.code, found["reachable"], found["write"]) == (1, "FAIL", "-")
