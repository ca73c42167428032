"""The life of an environment whose machine is a sandbox of a provider: got or made, kept alive, lost, let go."""

import asyncio
import getpass
import logging
import secrets
import socket
import time
import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from stead.errors import ConfigError, EnvironmentClosed, EnvironmentLost, SteadError, Unavailable
from stead.observers import notify
from stead.posix.calls import pause_before
from stead.posix.environment import PlaceOptions, PosixEnvironment
from stead.posix.guard import Guard
from stead.posix.machine import Machine

__all__ = ["LABEL", "LifeOptions", "OnClose", "Provider", "Recreated", "Sandbox", "SandboxEnvironment", "SandboxInfo"]

OnClose = Literal["kill", "pause", "keep"]
LABEL = {"created-by": "stead"}
"""What every sandbox that stead makes carries; `stead sandboxes` touches no other."""

START_LABEL = "stead-start"
"""The label by which a sandbox is found whose creation had no answer."""

_CREATE_TRIES = 4
_KILL_TRIES = 3
_CLEAN_UP_SECONDS = 20.0
_log = logging.getLogger("stead.sandbox")


class Sandbox(Machine, Protocol):
    """A living sandbox of a provider."""

    @property
    def id(self) -> str:
        """The provider's name of it."""

    async def kill(self) -> None:
        """Destroys it. That it is gone already is fine."""

    async def pause(self) -> None:
        """Stops it so that it can be attached to again, with its files. That it is stopped already is fine."""

    async def extend(self, seconds: float) -> None:
        """Has it live for at least so long from now.

        Raises:
            EnvironmentLost: It is gone.
            ConfigError: The provider allows no sandbox to live so long.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """A sandbox in a provider's list."""

    id: str
    state: str
    started: datetime | None
    labels: Mapping[str, str]


class Provider(Protocol):
    """A provider of sandboxes, by its SDK."""

    async def create(self, labels: Mapping[str, str]) -> Sandbox:
        """Makes a sandbox that carries labels."""

    async def attach(self, sandbox_id: str) -> Sandbox:
        """Gets a sandbox that exists, and wakes it up if it is paused.

        Raises:
            EnvironmentLost: There is none of that name.
        """

    async def find(self, labels: Mapping[str, str]) -> list[SandboxInfo]:
        """Lists the sandboxes that carry all these labels."""

    async def remove(self, sandbox_id: str) -> None:
        """Destroys a sandbox by name. That it is gone already is fine."""

    async def close(self) -> None:
        """Releases what the SDK holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreated:
    """The event that a lost sandbox was replaced."""

    lost: str
    created: str
    """The new one, without any file of the old; the same one again if it was only stopped, and then its files are there."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeOptions:
    """How an environment gets its sandbox, and lets it go."""

    sandbox_id: str | None
    """Attach to this one; None makes a new one."""
    lifetime: float
    """Seconds that a sandbox lives, or idles, without being extended."""
    keep_alive: bool
    """Extend it every third of that while the environment is open."""
    recreate: bool
    """Replace a lost sandbox by a new one, instead of failing from then on."""
    on_close: OnClose | None
    """What closing does to the sandbox. None kills one that was made here and keeps one that was attached."""


class SandboxEnvironment(PosixEnvironment):
    """An environment in a sandbox. A backend says how its provider is reached."""

    on_recreate: Callable[[Recreated], None] | None = None
    """Called after a lost sandbox was replaced; observers are told too."""

    def __init__(self, place: PlaceOptions, life: LifeOptions) -> None:
        """Takes the options; touches nothing.

        Raises:
            ConfigError: An option is out of its range.
        """
        super().__init__(place)
        if life.on_close not in (None, "kill", "pause", "keep"):
            raise ConfigError(
                f"on_close must be 'kill', 'pause' or 'keep', not {life.on_close!r}", backend=self.backend
            )
        if life.sandbox_id == "":
            raise ConfigError("sandbox_id is empty; leave it out to make a new sandbox", backend=self.backend)
        self._life = life
        self._made_here = False
        self._lost: EnvironmentLost | None = None
        self._sandbox: Sandbox | None = None
        self._provider: Provider | None = None
        self._beat: asyncio.Task[None] | None = None
        self._replacing: asyncio.Lock | None = None
        self._ends = 0.0
        self._needed_until = 0.0

    @abstractmethod
    async def _open_provider(self) -> Provider:
        """Imports the SDK and makes its client."""

    @property
    def sandbox_id(self) -> str | None:
        """The sandbox's name with its provider; None before one was made."""
        return self._sandbox.id if self._sandbox is not None else self._life.sandbox_id

    @property
    def reference(self) -> dict[str, Any]:
        """How another process gets at this sandbox, as plain data without secrets.

        `stead.create_environment(reference["backend"], **reference["options"])` attaches to it.
        """
        options: dict[str, Any] = {"sandbox_id": self.sandbox_id, "working_dir": str(self.working_dir)}
        if self._root is not None:
            options["root"] = self._root
        return {"backend": self.backend, "options": options}

    async def list_sandboxes(self) -> list[SandboxInfo]:
        """Lists all sandboxes of these credentials that stead made. Starts none.

        Raises:
            AccessDenied: The credentials were refused.
            Unavailable: The service gave no answer.
        """
        provider = await self._open_provider()
        try:
            return await provider.find(LABEL)
        finally:
            await provider.close()

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Destroys a sandbox that stead made. Starts none.

        Raises:
            ConfigError: It does not carry stead's label.
            AccessDenied: The credentials were refused.
            Unavailable: The service gave no answer.
        """
        provider = await self._open_provider()
        try:
            if sandbox_id not in {info.id for info in await provider.find(LABEL)}:
                raise ConfigError(f"{sandbox_id!r} is no sandbox that stead made", backend=self.backend)
            await provider.remove(sandbox_id)
        finally:
            await provider.close()

    # ---- life ------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        provider = await self._open_provider()
        try:
            await self._settle_in(provider, self._life.sandbox_id, made_here=not self._life.sandbox_id)
        except BaseException:
            await provider.close()
            raise
        self._provider = provider
        self._replacing = asyncio.Lock()
        if self._life.keep_alive:
            self._beat = asyncio.get_running_loop().create_task(_keep_alive(weakref.ref(self), self._life.lifetime / 3))

    async def _settle_in(self, provider: Provider, sandbox_id: str | None, *, made_here: bool) -> None:
        """Gets a sandbox and makes acquaintance with it; leaves none behind if that fails."""
        sandbox = await (provider.attach(sandbox_id) if sandbox_id else self._create(provider))
        try:
            self._ends = time.monotonic() + self._life.lifetime
            await self._attach(Guard(sandbox, self._note_lost))
        except BaseException:
            if not sandbox_id:
                await _bounded(_let_go(sandbox.kill))
            raise
        self._sandbox, self._made_here, self._lost = sandbox, made_here, None

    async def _create(self, provider: Provider) -> Sandbox:
        for attempt in range(1, _CREATE_TRIES + 1):
            labels = {**LABEL, START_LABEL: secrets.token_hex(16), "stead-owner": _owner()}
            # Not to be cancelled half-way: a sandbox whose name never arrives would live on unknown.
            task = asyncio.ensure_future(provider.create(labels))
            try:
                return await asyncio.shield(task)
            except Unavailable as error:
                await _bounded(_remove_all(provider, labels))
                if attempt == _CREATE_TRIES or not error.retryable:
                    raise
                await asyncio.sleep(pause_before(attempt, error))
            except asyncio.CancelledError:
                await _bounded(_undo(task, provider, labels))
                raise
        raise AssertionError("the last try returns or raises")

    async def _close(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
        policy = self._life.on_close or ("kill" if self._made_here else "keep")
        try:
            await self._detach(stop=policy != "kill" and self._lost is None)
            if self._sandbox is not None and policy == "kill":
                await _let_go(self._sandbox.kill)  # also one that is lost: it may only have been paused
            elif self._sandbox is not None and policy == "pause" and self._lost is None:
                await _let_go(self._sandbox.pause)
        finally:
            if self._provider is not None:
                await self._provider.close()

    async def _ready(self) -> None:
        await super()._ready()
        if self._lost is None:
            return
        if not self._life.recreate:
            raise self._gone(self._lost)
        assert self._replacing is not None  # noqa: S101 - made at start
        async with self._replacing:
            if self._lost is not None:
                await self._replace(self._lost)

    async def _replace(self, lost: EnvironmentLost) -> None:
        assert self._provider is not None  # noqa: S101 - opened at start
        old = self.sandbox_id or ""
        await self._detach(stop=False, lost=self._gone(lost).message)
        try:
            await self._settle_in(self._provider, old, made_here=self._made_here)
        except EnvironmentLost:
            await self._settle_in(self._provider, None, made_here=True)
        event = Recreated(lost=old, created=self.sandbox_id or "", reason=lost.message)
        _log.warning("the sandbox %s was lost and is replaced by %s (%s)", old, event.created, event.reason)
        notify("stead_sandbox_recreated", {"environment": self, "event": event})
        if self.on_recreate is not None:
            self.on_recreate(event)

    def _note_lost(self, error: EnvironmentLost) -> EnvironmentLost:
        if self._lost is None:
            self._lost = error
        return self._gone(error)

    def _gone(self, error: EnvironmentLost) -> EnvironmentLost:
        after = "the next call uses a new one" if self._life.recreate else "start a new environment"
        text = f"the sandbox {self.sandbox_id} is gone, and all files in it ({error.message}); {after}"
        lost = EnvironmentLost(text, backend=self.backend)
        lost.__cause__ = error.__cause__ or error
        return lost

    # ---- time ------------------------------------------------------------------------------------------------------

    async def _extend(self) -> None:
        """Has the sandbox live for another lifetime, or as long as a command may still run."""
        if self._sandbox is None or self._lost is not None:
            return
        seconds = max(self._life.lifetime, self._needed_until - time.monotonic())
        try:
            await self._sandbox.extend(seconds)
        except EnvironmentLost as error:
            self._note_lost(error)
            raise
        self._ends = time.monotonic() + seconds

    async def _cover(self, timeout: float | None, margin: float) -> None:
        """Has the sandbox outlive a command.

        Raises:
            ConfigError: The provider allows no sandbox to live so long, and nothing keeps it alive.
        """
        needed = time.monotonic() + (timeout or 0.0) + margin
        if needed <= self._ends:
            return
        self._needed_until = max(self._needed_until, needed)
        try:
            await self._extend()
        except ConfigError:
            self._needed_until = 0.0
            if not self._life.keep_alive:
                raise


async def _keep_alive(owner: "weakref.ref[SandboxEnvironment]", pause: float) -> None:
    # A weak reference: an environment that nobody holds any more is not kept alive by this.
    wait = pause
    while True:
        await asyncio.sleep(wait)
        environment = owner()
        if environment is None:
            return
        try:
            await environment._extend()  # noqa: SLF001 - part of the class
            wait = pause
        except EnvironmentClosed:
            return
        except EnvironmentLost:
            if not environment._life.recreate:  # noqa: SLF001
                return
        except SteadError as error:
            _log.warning("the sandbox %s could not be extended: %s", environment.sandbox_id, error.message)
            wait = pause / 4
        del environment


async def _let_go(action: Callable[[], Awaitable[None]]) -> None:
    """Kills or pauses. That it did not work is told, not raised: a sandbox ends by itself in the end."""
    for attempt in range(1, _KILL_TRIES + 1):
        try:
            await action()
        except EnvironmentLost:
            return
        except SteadError as error:
            if attempt == _KILL_TRIES or not error.retryable:
                _log.warning("a sandbox could not be let go: %s", error.message)
                return
            await asyncio.sleep(pause_before(attempt, error))
        else:
            return


async def _undo(task: "asyncio.Future[Sandbox]", provider: Provider, labels: Mapping[str, str]) -> None:
    """Waits for a sandbox that nobody wants any more, and destroys it."""
    with suppress(SteadError):
        await (await task).kill()
        return
    await _remove_all(provider, labels)


async def _remove_all(provider: Provider, labels: Mapping[str, str]) -> None:
    """Destroys what a creation without an answer may have made."""
    with suppress(SteadError):
        for info in await provider.find({**LABEL, START_LABEL: labels[START_LABEL]}):
            await provider.remove(info.id)


async def _bounded(clean_up: Coroutine[Any, Any, None]) -> None:
    """Runs a clean-up to its end, for some seconds at most, also if it is cancelled again."""
    task = asyncio.ensure_future(clean_up)
    end = time.monotonic() + _CLEAN_UP_SECONDS
    while not task.done() and time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=max(0.0, end - time.monotonic()))
    if not task.done():
        task.cancel()


def _owner() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return "unknown"
