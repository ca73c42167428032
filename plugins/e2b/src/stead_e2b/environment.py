"""The E2B backend: an environment in a sandbox of E2B."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stead.capabilities import POSIX
from stead.errors import ConfigError
from stead.posix import PlaceOptions
from stead.posix.sandbox import LifeOptions, OnClose, Provider, SandboxEnvironment
from stead_e2b.errors import BACKEND
from stead_e2b.provider import E2BProvider, import_sdk

__all__ = ["E2BEnvironment"]

_COMMAND_MARGIN = 60.0
"""Seconds that a sandbox outlives the timeout of a command."""
_USUAL_DIR = "/home/user"


class E2BEnvironment(SandboxEnvironment):
    """Files and commands in a sandbox of E2B, a virtual machine with a lifetime.

    The sandbox ends `timeout` seconds after it was last extended, whatever it does; `keep_alive` extends it while the
    environment is open.
    """

    backend = BACKEND
    capabilities = replace(POSIX, isolation="vm")

    def __init__(  # noqa: PLR0913 - each is an option of the configuration
        self,
        *,
        api_key: str | None = None,
        template: str | None = None,
        sandbox_id: str | None = None,
        timeout: float = 300,
        request_timeout: float = 60,
        keep_alive: bool = True,
        recreate: bool = False,
        root: str | None = None,
        working_dir: str | None = None,
        state_dir: str = ".stead",
        envs: Mapping[str, str] | None = None,
        output_limit: int = 1 << 20,
        domain: str | None = None,
        api_url: str | None = None,
        sandbox_url: str | None = None,
        on_close: OnClose | None = None,
    ) -> None:
        """Takes the options; touches nothing.

        Args:
            api_key: The key; None is the variable `E2B_API_KEY`.
            template: What a new sandbox is made of; None is E2B's `base`.
            sandbox_id: Attach to this sandbox instead of making one; a paused one is resumed.
            timeout: Seconds that the sandbox lives without being extended: a lifetime, not the limit of a request.
            request_timeout: Seconds that one request to E2B may take.
            keep_alive: Extend the sandbox every third of `timeout` while the environment is open.
            recreate: Replace a sandbox that is gone by a new one, without its files.
            root: What paths may not leave; None is `/`.
            working_dir: Where relative paths start and commands run; None is `root`, else where the sandbox starts
                commands by itself.
            state_dir: Where spilled output goes, relative to the working directory.
            envs: Variables of every command.
            output_limit: Bytes of each stream of a command that a result holds, unless the call says otherwise.
            domain: E2B's domain; None is the variable `E2B_DOMAIN`, else `e2b.app`.
            api_url: The control plane of a self-hosted E2B.
            sandbox_url: The sandboxes of a self-hosted E2B.
            on_close: What closing does to the sandbox. None kills one that was made here and keeps one that was attached.

        Raises:
            ConfigError: An option is out of its range.
        """
        _check_seconds("timeout", timeout, least=1)
        _check_seconds("request_timeout", request_timeout, least=0.001)
        place = PlaceOptions(
            root=root,
            working_dir=working_dir,
            usual_dir=_USUAL_DIR,
            state_dir=state_dir,
            output_limit=output_limit,
            envs=envs,
        )
        life = LifeOptions(
            sandbox_id=sandbox_id,
            lifetime=float(timeout),
            keep_alive=keep_alive,
            recreate=recreate,
            on_close=on_close,
        )
        super().__init__(place, life)
        self._template = template
        self._request_timeout = float(request_timeout)
        given = {"api_key": api_key, "domain": domain, "api_url": api_url, "sandbox_url": sandbox_url}
        self._api: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._api_key = api_key

    def __repr__(self) -> str:
        return f"E2BEnvironment(sandbox_id={self.sandbox_id!r})"

    async def _open_provider(self) -> Provider:
        # The import takes seconds; the event loop goes on meanwhile.
        await asyncio.to_thread(import_sdk)
        return E2BProvider(
            {**self._api, "request_timeout": self._request_timeout},
            template=self._template,
            lifetime=self._life.lifetime,
        )

    async def _before_command(self, timeout: float | None) -> None:
        await self._cover(timeout, _COMMAND_MARGIN)


def _check_seconds(name: str, value: object, *, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise ConfigError(f"{name} must be a number of seconds, at least {least:g}, not {value!r}", backend=BACKEND)
