"""How a test gets environments of a provider, and reaches behind them."""

import asyncio
import itertools
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sandbox_host import give_to_user
from sandbox_servers import SandboxServer

from stead.conformance import DirectoryDoor
from stead.posix.sandbox import SandboxEnvironment

SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
"""1 is full size: what CI runs in its soak."""
_names = itertools.count()


def sizes(full: int) -> list[Any]:
    """Returns the sizes of a large file for `parametrize`: what CI takes, and the full size, for the soak."""
    small = int(SCALE * full) >> 20 << 20
    soak = pytest.param(full, marks=pytest.mark.soak, id=f"{full >> 20}MiB")
    return [soak] if small >= full else [pytest.param(small, id=f"{small >> 20}MiB"), soak]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on a loop of its own."""
    return asyncio.run(coroutine)


class Door(DirectoryDoor):
    """Files of a sandbox from behind; what it makes belongs to the sandbox's user."""

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        target = self.root / path
        for made in (target, *target.parents):
            if made == self.root:
                break
            give_to_user(made)


class Provider:
    """A provider's test server, and environments on it."""

    name: ClassVar[str]
    key: ClassVar[str]

    def __init__(self, server: SandboxServer) -> None:
        self.server = server

    def environment(self, *, url: str | None = None, **options: Any) -> SandboxEnvironment:
        """Makes an environment, not started. `url` is an address of the server, such as one with faults."""
        raise NotImplementedError

    def lifetime(self, seconds: float) -> dict[str, Any]:
        """Returns the options by which a sandbox lives so long."""
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        """Returns the options by which the server is reached, as text."""
        raise NotImplementedError

    def made(self, *, folder: str = "work") -> "Made":
        """Makes a sandbox, so that its folder is known before an environment starts."""
        return Made(self, folder)

    def fault_url(self, *specs: dict[str, Any]) -> str:
        """Returns an address below which these faults strike, and only there."""
        return self.server.scope(f"{self.name}-{next(_names)}", *specs)


class Made:
    """A sandbox of a test: environments attach to it, and are confined to one folder of it."""

    def __init__(self, provider: Provider, folder: str) -> None:
        told = provider.server.make()
        self.provider, self.id = provider, told["id"]
        self.root = Path(told["home"], folder)
        self.root.mkdir()
        give_to_user(self.root)

    def environment(self, *, url: str | None = None, **options: Any) -> SandboxEnvironment:
        return self.provider.environment(url=url, sandbox_id=self.id, root=str(self.root), **options)

    @property
    def door(self) -> Door:
        return Door(self.root)


class Sandboxes:
    """The fixture `sandboxes` of the laws: environments that make sandboxes of their own."""

    def __init__(self, provider: Provider) -> None:
        self.provider, self.server = provider, provider.server
        self.secret = provider.key
        self.server.expire()

    def environment(self, *, lifetime: float | None = None, **options: Any) -> SandboxEnvironment:
        return self.provider.environment(**(self.provider.lifetime(lifetime) if lifetime else {}), **options)

    def faulty(self, fault: str) -> SandboxEnvironment:
        create = f"POST {self.provider.create}$"
        spec: dict[str, Any] = {
            "unusable": {"route": self.provider.start, "kind": "status", "status": 400, "times": -1},
            "unanswered": {"route": create, "kind": "lose_reply", "times": -1},
            "slow": {"route": create, "kind": "slow", "seconds": 0.5},
            "throttled": {
                "route": create,
                "kind": "status",
                "status": 429,
                "times": 2,
                "headers": {"Retry-After": "1"},
            },
            "quota": {"route": create, "kind": "quota", "times": -1},
        }[fault]
        return self.provider.environment(url=self.provider.fault_url(spec))

    def living(self) -> set[str]:
        return set(self.server.living())

    def expire(self, sandbox_id: str) -> None:
        self.server.expire(sandbox_id)

    def foreign(self) -> str:
        return self.server.make(labels={"someone": "else"})["id"]

    def keep_alive_calls(self) -> int:
        return self.server.calls(self.provider.keep_alive)

    @property
    def quota_words(self) -> str:
        return self.provider.quota_words


class E2B(Provider):
    """E2B, through the package `e2b`."""

    name = "e2b"
    key = "e2b_test_key"
    create = "/v2/sandboxes"
    keep_alive = "/timeout"
    quota_words = "maximum number of concurrent"
    start = "process.Process/Start"
    download = "GET /files"
    upload = "POST /files"

    def environment(self, *, url: str | None = None, **options: Any) -> SandboxEnvironment:
        from stead_e2b import E2BEnvironment

        url = url or self.server.url
        return E2BEnvironment(**{"api_key": self.key, "api_url": url, "sandbox_url": url, **options})

    def lifetime(self, seconds: float) -> dict[str, Any]:
        return {"timeout": seconds}

    def variables(self) -> dict[str, str]:
        return {"api_key": self.key, "api_url": self.server.url, "sandbox_url": self.server.url}


class Daytona(Provider):
    """Daytona, through the package `daytona`."""

    name = "daytona"
    key = "dtn_test_key"
    minute = 60.0
    create = "/api/sandbox"
    keep_alive = "/last-activity"
    quota_words = "disk quota exceeded"
    start = "process/execute"
    download = "files/download"
    upload = "files/bulk-upload"

    def environment(self, *, url: str | None = None, **options: Any) -> SandboxEnvironment:
        from stead_daytona import DaytonaEnvironment

        class Hasty(DaytonaEnvironment):
            minute = self.minute

        return Hasty(**{"api_key": self.key, "api_url": f"{url or self.server.url}/api", "target": "us", **options})

    def lifetime(self, seconds: float) -> dict[str, Any]:
        # Daytona counts minutes: on this server they are as short as a test needs.
        self.minute = float(seconds)
        self.server.ask("minute", {"seconds": self.minute})
        return {"auto_stop": 1}

    def variables(self) -> dict[str, str]:
        return {"api_key": self.key, "api_url": f"{self.server.url}/api", "target": "us"}


PROVIDERS: dict[str, type[Provider]] = {"e2b": E2B, "daytona": Daytona}


def after(seconds: float, action: Any) -> None:
    """Does something later, from another thread."""
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
