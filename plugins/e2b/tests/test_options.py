"""Options, from code and from files; what needs no sandbox. All else is tested in `tests/sandboxes`."""

import asyncio
import inspect
import os

import pytest

import stead
from stead.errors import AccessDenied, ConfigError
from stead_e2b import E2BEnvironment
from stead_e2b.config import E2BOptions
from stead_e2b.plugin import stead_backend


@pytest.fixture(autouse=True)
def no_account(monkeypatch, tmp_path):
    """No key of the machine's, nor from a file beside the tests: nothing here reaches an account."""
    for name in [name for name in os.environ if name.startswith("E2B_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_options_are_the_arguments():
    """Files take the arguments of the class, with the same defaults, and the plugin declares what the class does."""
    arguments = inspect.signature(E2BEnvironment).parameters
    fields = E2BOptions.model_fields

    assert {name: p.default for name, p in arguments.items()} == {name: f.default for name, f in fields.items()}
    assert stead_backend().capabilities == E2BEnvironment.capabilities
    assert stead_backend().name == E2BEnvironment.backend == "e2b"


def test_by_name_and_by_file(tmp_path):
    """Made by name or by a configuration, an environment touches nothing; its key is seen nowhere."""
    file = tmp_path / "stead.toml"
    file.write_text('[environments.cloud]\nbackend = "e2b"\nsandbox_id = "abc"\napi_key = { env = "THE_KEY" }\n')
    made = stead.create_environment("e2b", sandbox_id="abc", api_key="secret-key")

    assert isinstance(made, E2BEnvironment)
    assert (made.sandbox_id, made.reference["options"]["sandbox_id"]) == ("abc", "abc")
    assert "secret-key" not in f"{made!r} {made} {made.reference}"
    assert "secret-key" not in repr(E2BOptions(api_key="secret-key"))
    with pytest.raises(ConfigError, match="THE_KEY"):
        stead.load_config(file).create_environment("cloud")


@pytest.mark.parametrize(
    "options",
    [
        {"on_close": "destroy"},
        {"sandbox_id": ""},
        {"timeout": 0},
        {"request_timeout": 0},
        {"output_limit": -1},
        {"root": "relative"},
    ],
)
def test_refused(options):
    """What cannot be meant is a ConfigError that names the option, before anything is started."""
    with pytest.raises(ConfigError, match=next(iter(options))):
        E2BEnvironment(**options)


def test_no_key():
    """Without a key the start is refused with the SDK's own advice, at once and for good."""

    async def start() -> None:
        environment = E2BEnvironment()
        try:
            with pytest.raises(AccessDenied, match=r"(?i)api key") as caught:
                await environment.start()
            assert caught.value.backend == "e2b"
            assert caught.value.retryable is False
        finally:
            await environment.close()

    asyncio.run(start())
