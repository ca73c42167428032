"""E2B as a provider of sandboxes, by its SDK."""

import asyncio
import atexit
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stead.errors import ConfigError
from stead.posix.sandbox import SandboxInfo
from stead_e2b import commands, files
from stead_e2b.errors import BACKEND, translated

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["E2BProvider", "import_sdk"]

_REST = 0.1
"""Seconds that the SDK's own threads get to leave the interpreter before it ends: they abort it otherwise."""


class E2BProvider:
    """The SDK with the options of one environment."""

    def __init__(self, api: dict[str, Any], *, template: str | None, lifetime: float) -> None:
        self._api, self._template, self._lifetime = api, template, lifetime

    async def create(self, labels: Mapping[str, str]) -> "_Sandbox":
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox

        with translated("start"), _limit_reported():
            made = await AsyncSandbox.create(
                template=self._template,
                timeout=math.ceil(self._lifetime),
                metadata=dict(labels),
                idempotency_key=labels["stead-start"],
                **self._api,
            )
        return _Sandbox(made, self._api)

    async def attach(self, sandbox_id: str) -> "_Sandbox":
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox

        with translated("start"), _limit_reported():
            found = await AsyncSandbox.connect(sandbox_id, timeout=math.ceil(self._lifetime), **self._api)
        return _Sandbox(found, self._api)

    async def find(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox, SandboxQuery

        found = []
        with translated("list"):
            pages = AsyncSandbox.list(query=SandboxQuery(metadata=dict(labels)), **self._api)
            while pages.has_next:
                found += await pages.next_items()
        return [
            SandboxInfo(
                id=info.sandbox_id, state=info.state.value, started=info.started_at, labels=dict(info.metadata or {})
            )
            for info in found
            # The filter is the service's; what it lets through is looked at again before anything is removed.
            if labels.items() <= (info.metadata or {}).items()
        ]

    async def remove(self, sandbox_id: str) -> None:
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox

        with translated("remove"):
            await AsyncSandbox.kill(sandbox_id, **self._api)

    async def close(self) -> None:
        """See `stead.posix.sandbox.Provider`."""
        # The SDK's transports are shared by the whole process; there is nothing to close but time to give.
        await asyncio.sleep(_REST / 2)


class _Sandbox:
    """One living sandbox."""

    def __init__(self, sandbox: "AsyncSandbox", api: dict[str, Any]) -> None:
        self._sandbox = sandbox
        self._request_timeout: float = api["request_timeout"]

    @property
    def id(self) -> str:
        return self._sandbox.sandbox_id

    async def run(self, variables: Mapping[str, str], *, seconds: float) -> str:
        return await commands.run(
            self._sandbox, variables, seconds=seconds, request_timeout=min(seconds, self._request_timeout)
        )

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        return files.fetch(self._sandbox, path, idle=self._request_timeout)

    async def store(self, path: str, content: AsyncIterable[bytes]) -> None:
        await files.store(self._sandbox, path, content)

    async def kill(self) -> None:
        with translated("close"):
            await self._sandbox.kill()

    async def pause(self) -> None:
        with translated("close"):
            await self._sandbox.pause()

    async def extend(self, seconds: float) -> None:
        with translated("keep_alive"), _limit_reported():
            await self._sandbox.set_timeout(math.ceil(seconds))


@contextmanager
def _limit_reported() -> Iterator[None]:
    """Tells what E2B refuses about a lifetime as what it is: an option out of the provider's range."""
    from e2b.exceptions import InvalidArgumentException, SandboxException

    try:
        yield
    except SandboxException as error:
        if isinstance(error, InvalidArgumentException) or error.status_code == 400:
            raise ConfigError(f"E2B refused: {error}", backend=BACKEND, operation="start") from error
        raise


_used: list[bool] = []


def import_sdk() -> None:
    """Imports the SDK, and has the interpreter wait a moment at its end for the SDK's threads.

    They hand results to event loops by themselves; one that does so while the interpreter ends aborts the process.
    """
    import_module("e2b")
    if not _used:
        _used.append(True)
        atexit.register(time.sleep, _REST)
