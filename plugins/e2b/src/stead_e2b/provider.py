"""E2B as a provider of sandboxes, by its SDK."""

import asyncio
import atexit
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stead.errors import ConfigError
from stead.posix.sandbox import START_LABEL, SandboxInfo
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

    def _request(self, operation: str) -> AbstractAsyncContextManager[None]:
        return _request(operation, self._api["request_timeout"])

    async def create(self, labels: Mapping[str, str]) -> "_Sandbox":
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox

        async with self._request("start"):
            made = await AsyncSandbox.create(
                template=self._template,
                timeout=math.ceil(self._lifetime),
                metadata=dict(labels),
                idempotency_key=labels[START_LABEL],
                **self._api,
            )
        return _Sandbox(made, self._api)

    async def attach(self, sandbox_id: str) -> "_Sandbox":
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox

        async with self._request("start"):
            found = await AsyncSandbox.connect(sandbox_id, timeout=math.ceil(self._lifetime), **self._api)
        return _Sandbox(found, self._api)

    async def find(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """See `stead.posix.sandbox.Provider`."""
        from e2b import AsyncSandbox, SandboxQuery

        found = []
        async with self._request("list"):
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

        async with self._request("remove"):
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
        return await commands.run(self._sandbox, variables, seconds=seconds)

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        return files.fetch(self._sandbox, path, idle=self._request_timeout)

    async def store(self, path: str, content: AsyncIterable[bytes]) -> None:
        await files.store(self._sandbox, path, content, idle=self._request_timeout)

    async def kill(self) -> None:
        async with _request("close", self._request_timeout):
            await self._sandbox.kill()

    async def pause(self) -> None:
        async with _request("close", self._request_timeout):
            await self._sandbox.pause()

    async def extend(self, seconds: float) -> None:
        async with _request("keep_alive", self._request_timeout):
            await self._sandbox.set_timeout(math.ceil(seconds))


@asynccontextmanager
async def _request(operation: str, seconds: float) -> AsyncGenerator[None, None]:
    """One request of the control plane: bounded here, since the SDK waits twice as long as it is told.

    What E2B refuses about a lifetime is told as what it is: an option out of the provider's range.
    """
    from e2b.exceptions import InvalidArgumentException, SandboxException

    with translated(operation):
        try:
            async with asyncio.timeout(seconds):
                yield
        except SandboxException as error:
            if isinstance(error, InvalidArgumentException) or error.status_code == 400:
                raise ConfigError(f"E2B refused: {error}", backend=BACKEND, operation=operation) from error
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
