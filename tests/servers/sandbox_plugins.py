"""What a sandbox plugin says of itself, and which options it refuses: the same tests for each; none needs a sandbox."""

import asyncio
import dataclasses
import inspect
import os
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

import stead
from stead.errors import AccessDenied, ConfigError
from stead.hookspecs import BackendSpec

__all__ = ["OptionTests", "PageTests"]

PAGES = Path(__file__).parents[2] / "docs/reference"


class OptionTests:
    """Options, from code and from files. All else is tested in `tests/sandboxes`."""

    environment: ClassVar[Any]
    options: ClassVar[Any]
    """The model of the options."""
    spec: ClassVar[BackendSpec]

    @pytest.fixture(autouse=True)
    def no_account(self, monkeypatch, tmp_path):
        """No key of the machine's, nor from a file beside the tests: nothing here reaches an account."""
        for name in [name for name in os.environ if name.startswith(f"{self.spec.name.upper()}_")]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(tmp_path)

    def test_options_are_the_arguments(self):
        """Files take the arguments of the class, with the same defaults, and the plugin declares what the class does."""
        arguments = inspect.signature(self.environment).parameters
        fields = self.options.model_fields

        assert {name: p.default for name, p in arguments.items()} == {name: f.default for name, f in fields.items()}
        assert self.spec.capabilities == self.environment.capabilities
        assert self.spec.name == self.environment.backend

    def test_by_name_and_by_file(self, tmp_path):
        """Made by name or by a configuration, an environment touches nothing; its key is seen nowhere."""
        name, file = self.spec.name, tmp_path / "stead.toml"
        file.write_text(
            f'[environments.cloud]\nbackend = "{name}"\nsandbox_id = "abc"\napi_key = {{ env = "THE_KEY" }}\n'
        )
        made: Any = stead.create_environment(name, sandbox_id="abc", api_key="secret-key")

        assert isinstance(made, self.environment)
        assert (made.sandbox_id, made.reference["options"]["sandbox_id"]) == ("abc", "abc")
        assert "secret-key" not in f"{made!r} {made} {made.reference}"
        assert "secret-key" not in repr(self.options(api_key="secret-key"))
        with pytest.raises(ConfigError, match="THE_KEY"):
            stead.load_config(file).create_environment("cloud")

    @pytest.mark.parametrize(
        "options",
        [
            {"on_close": "destroy"},
            {"sandbox_id": ""},
            {"request_timeout": 0},
            {"output_limit": -1},
            {"root": "relative"},
        ],
    )
    def test_refused(self, options):
        """What cannot be meant is a ConfigError that names the option, before anything is started."""
        with pytest.raises(ConfigError, match=next(iter(options))):
            self.environment(**options)

    def test_no_key(self):
        """Without a key the start is refused with the SDK's own advice, at once and for good."""

        async def start() -> None:
            environment = self.environment()
            try:
                with pytest.raises(AccessDenied, match=r"(?i)api key") as caught:
                    await environment.start()
                assert caught.value.backend == self.spec.name
                assert caught.value.retryable is False
            finally:
                await environment.close()

        asyncio.run(start())


class PageTests:
    """The reference page is true to the code."""

    environment: ClassVar[Any]
    options: ClassVar[Any]

    def test_capabilities(self):
        """The table names each capability that is declared, and no other."""
        declared = dataclasses.asdict(self.environment.capabilities)
        true = {name for name, value in declared.items() if value is True}

        assert self._names("Capabilities") - {"if_absent", "if_version"} == true | {"isolation"}
        assert f'| `"{declared["isolation"]}"` |' in self._page()

    def test_options(self):
        """The table names each option, and no other."""
        assert self._names("Options") == set(self.options.model_fields)

    def _page(self) -> str:
        return (PAGES / f"{self.environment.backend}.md").read_text()

    def _names(self, title: str) -> set[str]:
        """Returns what the first column of a section's table names."""
        section = self._page().partition(f"## {title}\n")[2].partition("\n## ")[0]
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
