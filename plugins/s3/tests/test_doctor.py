"""`stead doctor` on a real store: what is well, and what to do about what is not."""

import asyncio
import json

import pytest
from s3_support import refusal
from servers.process import free_port
from typer.testing import CliRunner

from stead.cli.app import app
from stead.cli.doctor import examine


@pytest.fixture
def config(tmp_path):
    """Writes a configuration with one environment."""

    def write(options):
        file = tmp_path / "stead.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        file.write_text("\n".join(["[environments.archive]", 'backend = "s3"', *lines]))
        return file

    return write


def found(file):
    return {item.check: (item.state, item.text) for item in asyncio.run(examine("archive", file))}


def failed(file):
    return {check: text for check, (state, text) in found(file).items() if state == "FAIL"}


def test_all_is_well(place, config, door):
    """Each line is `ok` but that a store runs no commands; nothing is left behind; the command ends with 0."""
    file = config(place)
    states = {check: state for check, (state, _) in found(file).items()}
    assert states.pop("execute") == "no"
    assert set(states.values()) == {"ok"}
    assert list(states) == [
        *("installed", "options", "reachable", "credentials", "write", "clock", "read", "stream", "list"),
        *("if_absent", "if_version", "delete"),
    ]
    assert [name for name in door.names(".stead") if "doctor" in name or "probe" in name] == []
    ran = CliRunner().invoke(app, ["doctor", "--env", "archive", "--config", str(file)])
    assert ran.exit_code == 0
    assert len(ran.stdout.splitlines()) == 13


def test_wrong_secret(place, config):
    """A wrong secret is found as such, is not printed, and nothing after it is tried."""
    lines = found(config({**place, "secret_key": "wrong-secret"}))
    assert lines["credentials"][0] == "FAIL"
    assert "secret key is wrong" in lines["credentials"][1]
    assert lines["write"] == ("-", "not tried")
    assert "wrong-secret" not in str(lines)


def test_nobody_listens(place, config):
    """An address at which nobody listens is unreachable, and that is the only failure."""
    told = failed(config({**place, "endpoint_url": f"http://127.0.0.1:{free_port()}"}))
    assert list(told) == ["reachable"]
    assert "network" in told["reachable"]


def test_missing_bucket_and_option(place, config):
    """A bucket that does not exist, and an option that is missing, are matters of options."""
    told = failed(config({**place, "bucket": "no-such-bucket"}))
    assert "does not exist" in told["options"]
    assert "bucket" in failed(config({"prefix": "p"}))["options"]


def test_may_only_read(place, config):
    """Credentials that may only read fail what writes, and the text says what is missing."""
    told = failed(config({**place, "access_key": "rokey", "secret_key": "rosecret"}))
    assert "Allow it" in told["write"]
    assert "credentials" not in told


def test_wrong_clock(near, proxy, config):
    """A wrong clock that the store refuses is named as such."""
    with proxy.fault("answer", response=refusal(403, "RequestTimeTooSkewed", "The difference is too large.")):
        assert "clock" in failed(config(near))["credentials"]


def test_ignored_conditions(near, proxy, config):
    """A store that ignores conditions is found out, before anybody relies on them."""
    accepted = b'HTTP/1.1 200 OK\r\nETag: "5d41402abc4b2a76b9719d911017c592"\r\nContent-Length: 0\r\n\r\n'
    conditional = {"if-none-match", "if-match"}
    with proxy.fault(
        "answer", response=accepted, matches=lambda r: r.method == "PUT" and bool(conditional & set(r.headers))
    ):
        lines = found(config(near))
    assert lines["if_absent"][0] == lines["if_version"][0] == "no"
    assert "ignores conditions" in lines["if_absent"][1]


def test_not_installed(tmp_path):
    """A backend that is not installed is told with its pip line."""
    file = tmp_path / "stead.toml"
    file.write_text('[environments.archive]\nbackend = "nowhere"\n')
    told = failed(file)
    assert "pip install stead-nowhere" in told["installed"]
