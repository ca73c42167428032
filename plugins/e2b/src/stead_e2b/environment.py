"""The E2B backend: an environment in a sandbox of E2B."""

import asyncio
import atexit
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stead.capabilities import Capabilities
from stead.errors import ConfigError
from stead.posix import PlaceOptions
from stead.posix.sandbox import LifeOptions, OnClose, Provider, SandboxEnvironment, SandboxInfo
from stead_e2b import commands, files
from stead_e2b.errors import BACKEND, translated

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["E2BEnvironment"]

_COMMAND_MARGIN = 60.0
"""Seconds that a sandbox outlives the timeout of a command."""
_USUAL_DIR = "/home/user"
_REST = 0.1
"""Seconds that the SDK's own threads get to leave the interpreter before it ends: they abort it otherwise."""


class E2BEnvironment(SandboxEnvironment):
    """Files and commands in a sandbox of E2B, a virtual machine with a lifetime.

    The sandbox ends `timeout` seconds after it was last extended, whatever it does; `keep_alive` extends it while the
    environment is open.
    """

    backend = BACKEND
    capabilities = Capabilities(
        execute=True,
        execute_stream=True,
        stat=True,
        list_files=True,
        delete_file=True,
        create_only=True,
        conditional_write=True,
        streaming_read=True,
        pinned_read=True,
        range_read=True,
        lines_at_source=True,
        streaming_write=True,
        atomic_write=True,
        symlinks=True,
        modes=True,
        isolation="vm",
    )

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

    def __repr__(self) -> str:
        return f"E2BEnvironment(sandbox_id={self.sandbox_id!r})"

    async def _open_provider(self) -> Provider:
        # The import takes seconds; the event loop goes on meanwhile.
        await asyncio.to_thread(_import_sdk)
        return _E2B(
            {**self._api, "request_timeout": self._request_timeout},
            template=self._template,
            lifetime=self._life.lifetime,
        )

    async def _before_command(self, timeout: float | None) -> None:
        await self._cover(timeout, _COMMAND_MARGIN)


class _E2B:
    """The provider, by its SDK."""

    def __init__(self, api: dict[str, Any], *, template: str | None, lifetime: float) -> None:
        self._api, self._template, self._lifetime = api, template, lifetime

    async def create(self, labels: Mapping[str, str]) -> "_Sandbox":
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
        from e2b import AsyncSandbox

        with translated("start"), _limit_reported():
            found = await AsyncSandbox.connect(sandbox_id, timeout=math.ceil(self._lifetime), **self._api)
        return _Sandbox(found, self._api)

    async def find(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
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
        from e2b import AsyncSandbox

        with translated("remove"):
            await AsyncSandbox.kill(sandbox_id, **self._api)

    async def close(self) -> None:
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


def _check_seconds(name: str, value: object, *, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise ConfigError(f"{name} must be a number of seconds, at least {least:g}, not {value!r}", backend=BACKEND)


_used: list[bool] = []


def _import_sdk() -> None:
    """Imports the SDK, and has the interpreter wait a moment at its end for the SDK's threads.

    They hand results to event loops by themselves; one that does so while the interpreter ends aborts the process.
    """
    import_module("e2b")
    if not _used:
        _used.append(True)
        atexit.register(time.sleep, _REST)
