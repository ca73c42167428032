"""The Daytona backend: an environment in a sandbox of Daytona."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import UnionType

from stead.capabilities import POSIX
from stead.errors import ConfigError
from stead.posix import PlaceOptions
from stead.posix.sandbox import LifeOptions, OnClose, Provider, SandboxEnvironment
from stead_daytona.errors import BACKEND
from stead_daytona.provider import DaytonaProvider

__all__ = ["DaytonaEnvironment"]

_USUAL_DIR = "/home/daytona"


class DaytonaEnvironment(SandboxEnvironment):
    """Files and commands in a sandbox of Daytona, a container that is stopped when it is idle.

    Idle is a sandbox without calls, whatever runs in it; `keep_alive` calls while the environment is open.
    """

    backend = BACKEND
    minute = 60.0
    """Seconds of a minute as Daytona counts `auto_stop`; other values are for tests."""
    capabilities = replace(POSIX, isolation="container")

    def __init__(  # noqa: PLR0913 - each is an option of the configuration
        self,
        *,
        api_key: str | None = None,
        api_url: str | None = None,
        target: str | None = None,
        image: str | None = None,
        snapshot: str | None = None,
        sandbox_id: str | None = None,
        auto_stop: int = 15,
        start_timeout: float = 120,
        request_timeout: float = 60,
        keep_alive: bool = True,
        recreate: bool = False,
        root: str | None = None,
        working_dir: str | None = None,
        state_dir: str = ".stead",
        envs: Mapping[str, str] | None = None,
        output_limit: int = 1 << 20,
        on_close: OnClose | None = None,
    ) -> None:
        """Takes the options; touches nothing.

        Args:
            api_key: The key; None is the variable `DAYTONA_API_KEY`.
            api_url: Daytona's API; None is the variable `DAYTONA_API_URL`, else the cloud's.
            target: The region of a new sandbox; None is the variable `DAYTONA_TARGET`, else the organization's.
            image: The image that a new sandbox is made of, instead of a snapshot.
            snapshot: The snapshot that a new sandbox is made of; None is Daytona's default.
            sandbox_id: Attach to this sandbox, by id or name, instead of making one; a stopped one is started.
            auto_stop: Minutes without a call after which Daytona stops the sandbox.
            start_timeout: Seconds that a sandbox may take to start.
            request_timeout: Seconds that one request to Daytona may take.
            keep_alive: Tell Daytona every third of `auto_stop` that the sandbox is in use, while the environment is open.
            recreate: Replace a sandbox that is gone by a new one, without its files.
            root: What paths may not leave; None is `/`.
            working_dir: Where relative paths start and commands run; None is `root`, else where the sandbox starts
                commands by itself.
            state_dir: Where spilled output goes, relative to the working directory.
            envs: Variables of every command.
            output_limit: Bytes of each stream of a command that a result holds, unless the call says otherwise.
            on_close: What closing does to the sandbox. None kills one that was made here and keeps one that was attached.
                A sandbox that will be killed is also deleted by Daytona when it is stopped for being idle.

        Raises:
            ConfigError: An option is out of its range.
        """
        _check("auto_stop", auto_stop, int, 1)
        _check("start_timeout", start_timeout, int | float, 0.001)
        _check("request_timeout", request_timeout, int | float, 0.001)
        if image is not None and snapshot is not None:
            raise ConfigError("a sandbox is made of an image or of a snapshot; give one", backend=BACKEND)
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
            lifetime=auto_stop * self.minute,
            keep_alive=keep_alive,
            recreate=recreate,
            on_close=on_close,
        )
        super().__init__(place, life)
        self._api_key = api_key
        self._api_url, self._target = api_url, target
        # Deleted when it is stopped: nothing outlives a process that crashed.
        deletion = 0 if on_close in (None, "kill") else None
        self._creation = {
            "image": image,
            "snapshot": snapshot,
            "auto_stop_interval": auto_stop,
            "auto_delete_interval": deletion,
        }
        self._start_timeout, self._request_timeout = start_timeout, request_timeout

    def __repr__(self) -> str:
        return f"DaytonaEnvironment(sandbox_id={self.sandbox_id!r})"

    async def _open_provider(self) -> Provider:
        # The import takes seconds; the event loop goes on meanwhile.
        await asyncio.to_thread(import_module, "daytona._async.daytona")
        return DaytonaProvider(
            api={"api_key": self._api_key, "api_url": self._api_url, "target": self._target},
            creation={name: value for name, value in self._creation.items() if value is not None},
            start_timeout=self._start_timeout,
            request_timeout=self._request_timeout,
        )


def _check(name: str, value: object, kind: type | UnionType, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isinstance(value, kind):
        raise ConfigError(f"{name} must be a number, not {value!r}", backend=BACKEND)
    if not least <= value < math.inf:
        raise ConfigError(f"{name} must be at least {least:g}, not {value!r}", backend=BACKEND)
