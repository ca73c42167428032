"""How an environment starts and ends: once each, whoever asks, however often."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

from stead.errors import EnvironmentClosed, SteadError

__all__ = ["Lifecycle", "State"]

Step = Callable[[], Awaitable[None]]


class State(Enum):
    """Where an environment stands."""

    NEW = "new"
    STARTING = "starting"
    OPEN = "open"
    CLOSED = "closed"


class Lifecycle:
    """Single-flight start and idempotent close, bound to the event loop that started it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._waiters = 0
        self.state = State.NEW

    def is_open_here(self) -> bool:
        """Returns True if nothing has to be done before an operation on the running loop."""
        return self.state is State.OPEN and self._loop is asyncio.get_running_loop()

    def check_usable(self) -> None:
        """Refuses use after close and use from another event loop.

        Raises:
            EnvironmentClosed: `close()` was called.
            SteadError: The environment belongs to another event loop.
        """
        if self.state is State.CLOSED:
            raise EnvironmentClosed(f"{self._name} was used after close(); create a new environment")
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise SteadError(
                f"{self._name} was started by another event loop; create one environment for each loop, "
                "or share one between threads through stead.sync"
            )

    async def start(self, begin: Step) -> None:
        """Runs `begin` unless the environment is open; all callers meanwhile wait for that one run.

        A caller that is cancelled leaves the others waiting; when the last one is cancelled, the start is too.

        Raises:
            EnvironmentClosed: `close()` was called before or during the start.
            SteadError: The environment belongs to another event loop.
        """
        self.check_usable()
        if self.state is State.OPEN:
            return
        if self._starting is None:
            self._loop = asyncio.get_running_loop()
            self.state = State.STARTING
            self._starting = self._loop.create_task(self._run_start(begin))
        task = self._starting
        self._waiters += 1
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if self.state is State.CLOSED and task.cancelled():
                raise EnvironmentClosed(f"{self._name} was closed while it started") from None
            if self._waiters == 1:
                await _cancel_and_wait(task)
            raise
        finally:
            self._waiters -= 1

    async def _run_start(self, begin: Step) -> None:
        try:
            await begin()
        except BaseException:
            if self.state is State.STARTING:
                self.state, self._loop = State.NEW, None
            raise
        else:
            if self.state is State.STARTING:
                self.state = State.OPEN
        finally:
            self._starting = None

    async def close(self, end: Step) -> None:
        """Runs `end` once if the environment was started; every caller returns when it is done.

        Raises:
            SteadError: The environment belongs to another event loop.
        """
        if self.state is not State.CLOSED:
            self.check_usable()
            was, self.state = self.state, State.CLOSED
            if was is not State.NEW:
                self._closing = asyncio.get_running_loop().create_task(self._run_close(end))
        task = self._closing
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Giving up half-way would leave processes or connections behind: finish, then honour the cancellation.
            if not task.done():
                await asyncio.wait([task])
            raise

    async def _run_close(self, end: Step) -> None:
        if self._starting is not None:
            await _cancel_and_wait(self._starting)
        await end()


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it as lost
