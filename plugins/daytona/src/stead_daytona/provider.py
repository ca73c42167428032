"""Daytona as a provider of sandboxes, by its SDK."""

import warnings
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stead.errors import EnvironmentLost
from stead.posix.sandbox import SandboxInfo
from stead_daytona import commands, files
from stead_daytona.errors import BACKEND, translated

if TYPE_CHECKING:
    from daytona import AsyncSandbox

__all__ = ["DaytonaProvider"]

_DEAD = ("destroyed", "destroying", "error", "build_failed")
_WAKING = ("starting", "creating", "restoring")


class DaytonaProvider:
    """One client of the SDK; it belongs to the event loop that made it."""

    def __init__(
        self, *, api: dict[str, Any], creation: dict[str, Any], start_timeout: float, request_timeout: float
    ) -> None:
        """Makes the client.

        Args:
            api: Key, address and region.
            creation: What a sandbox is made of, by the SDK's names.
            start_timeout: Seconds that a sandbox may take to start.
            request_timeout: Seconds that one request may take.

        Raises:
            AccessDenied: There is no key.
        """
        from daytona import AsyncDaytona, DaytonaConfig

        with translated("start"), warnings.catch_warnings():
            # Without an address the SDK asks for one by an option of its own that it calls deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            # No limit of connections: a question about a command holds one for as long as it waits.
            self._client = AsyncDaytona(DaytonaConfig(**api, connection_pool_maxsize=None))
        # What is not to be killed must not be deleted when it stops either.
        self._keeps = "auto_delete_interval" not in creation
        self._creation, self._start_timeout, self._request_timeout = creation, start_timeout, request_timeout

    async def create(self, labels: Mapping[str, str]) -> "_Sandbox":
        """See `stead.posix.sandbox.Provider`."""
        from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams

        kind = CreateSandboxFromImageParams if "image" in self._creation else CreateSandboxFromSnapshotParams
        with translated("start"):
            made = await self._client.create(kind(labels=dict(labels), **self._creation), timeout=self._start_timeout)
        return _Sandbox(made, self._request_timeout)

    async def attach(self, sandbox_id: str) -> "_Sandbox":
        """See `stead.posix.sandbox.Provider`."""
        with translated("start"):
            found = await self._client.get(sandbox_id, request_timeout=self._request_timeout)
            state = str(getattr(found.state, "value", found.state))
            if state in _DEAD:
                raise EnvironmentLost(f"the sandbox {sandbox_id!r} is {state}", backend=BACKEND, operation="start")
            if state in _WAKING:
                await found.wait_for_sandbox_start(timeout=self._start_timeout)
            elif state != "started":
                await found.start(timeout=self._start_timeout)
            if self._keeps and found.auto_delete_interval == 0:
                # Made to be killed, by another environment: 0 is "as soon as it stops".
                await found.set_auto_delete_interval(-1, request_timeout=self._request_timeout)
        return _Sandbox(found, self._request_timeout)

    async def find(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """See `stead.posix.sandbox.Provider`."""
        from daytona import ListSandboxesQuery

        with translated("list"):
            query = ListSandboxesQuery(labels=dict(labels))
            listing: Any = self._client.list(query, request_timeout=self._request_timeout)
            async with aclosing(listing) as pages:
                found = [sandbox async for sandbox in pages]
        return [
            SandboxInfo(
                id=sandbox.id,
                state=str(getattr(sandbox.state, "value", sandbox.state)),
                started=_time(sandbox.created_at),
                labels=dict(sandbox.labels or {}),
            )
            for sandbox in found
            # The filter is the service's; what it lets through is looked at again before anything is removed.
            if labels.items() <= (sandbox.labels or {}).items()
        ]

    async def remove(self, sandbox_id: str) -> None:
        """See `stead.posix.sandbox.Provider`."""
        with translated("remove"):
            found = await self._client.get(sandbox_id, request_timeout=self._request_timeout)
            await found.delete(timeout=self._request_timeout)

    async def close(self) -> None:
        """See `stead.posix.sandbox.Provider`."""
        client: Any = self._client
        await client.close()


class _Sandbox:
    """One living sandbox."""

    def __init__(self, sandbox: "AsyncSandbox", request_timeout: float) -> None:
        self._sandbox, self._request_timeout = sandbox, request_timeout

    @property
    def id(self) -> str:
        return self._sandbox.id

    async def run(self, variables: Mapping[str, str], *, seconds: float) -> str:
        return await commands.run(self._sandbox, variables, seconds=seconds)

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        return files.fetch(self._sandbox, path, idle=self._request_timeout)

    async def store(self, path: str, content: AsyncIterable[bytes]) -> None:
        await files.store(self._sandbox, path, content, idle=self._request_timeout)

    async def kill(self) -> None:
        with translated("close"):
            await self._sandbox.delete(timeout=self._request_timeout)

    async def pause(self) -> None:
        # Stopped, not the SDK's pause, which only virtual machines have: files stay, processes end.
        with translated("close"):
            await self._sandbox.stop(timeout=self._request_timeout)

    async def extend(self, seconds: float) -> None:
        # Daytona has one interval, set at the creation: being told of activity begins it anew.
        with translated("keep_alive"):
            await self._sandbox.refresh_activity(request_timeout=self._request_timeout)


def _time(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text)
