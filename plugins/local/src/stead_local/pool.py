"""The keepers of one environment: started when they are needed, lent out, ended."""

import asyncio
import logging
import socket
import threading
import warnings
import weakref
from typing import NamedTuple

from stead.errors import EnvironmentClosed, Unavailable
from stead_local.errors import BACKEND
from stead_local.keeper.channel import Channel
from stead_local.keeper.streams import new_buffer
from stead_local.keeper.tree import GroupTree
from stead_local.keeper.worker import Worker
from stead_local.keepers import Keeper, ParentKeeper, find_python
from stead_local.turns import Turns

__all__ = ["KeeperPool"]

_IDLE = 8
"""Keepers that wait for the next command. After a burst the others wait too, but only for a while."""
_IDLE_AFTER_BURST = 128
_IDLE_SECONDS = 1.0
_CLOSE_PATIENCE = 10.0
"""Seconds that `close()` waits for the keepers. They need less than two unless something cannot be killed."""
_ENDED_AT_ONCE = "the Python that should run it ended at once"
_log = logging.getLogger("stead.local")


class _Held(NamedTuple):
    """All keepers of one environment."""

    idle: list[Keeper]
    busy: set[Keeper]
    looking_after: set[Keeper]
    """Those whose command left something in the background."""
    parents: list[ParentKeeper]
    """One at most; a list, so that `abandon` finds it whenever it was started."""

    def abandon(self) -> None:
        """For an environment that was never closed: ends everything, without waiting."""
        for keeper in (*self.idle, *self.busy, *self.looking_after):
            keeper.forget()
        for parent in self.parents:
            parent.abandon()


class KeeperPool:
    """The keepers of one environment, started when they are needed."""

    def __init__(self) -> None:
        self._held = _Held([], set(), set(), [])
        self._turns = Turns()
        self._in_threads = False
        self._trimming: asyncio.TimerHandle | None = None
        self.closed = False
        weakref.finalize(self, self._held.abandon)

    async def ask(self, payload: bytes, fds: list[int]) -> Keeper:
        """Lends a keeper that has got a request; to be given back or dropped.

        Args:
            payload: The request.
            fds: The descriptors that go with it.

        Raises:
            EnvironmentClosed: The pool is closed.
            Unavailable: No process can be started now.
        """
        self._check_open()
        held = self._held
        for keeper in [keeper for keeper in held.looking_after if keeper.ended()]:
            self.drop(keeper)
        spare = await self._spare()
        if spare is not None:
            held.busy.add(spare)
            spare.request(payload, fds)
            return spare
        try:
            return await self._new_keeper(payload, fds)
        except OSError as error:
            raise Unavailable(f"no process for the command: {error}", backend=BACKEND, operation="execute") from error

    async def _spare(self) -> Keeper | None:
        """Returns an idle keeper; None if a new one is to be ordered, once the parent has room for an order."""
        held = self._held
        while True:
            while held.idle:
                keeper = held.idle.pop()
                if not keeper.ended():
                    return keeper
                keeper.close()
            if not held.parents or not held.parents[0].is_full():
                return None
            await self._turns.wait(held.parents[0])
            self._check_open()

    async def _new_keeper(self, payload: bytes, fds: list[int]) -> Keeper:
        ours, theirs = socket.socketpair()
        keeper = Keeper(ours)
        self._held.busy.add(keeper)
        try:
            with theirs:
                keeper.request(payload, fds)  # waits in the socket until the keeper is there
                await self._serve(keeper, theirs)
            self._check_open()
        except BaseException:
            self.drop(keeper)
            raise
        return keeper

    def _check_open(self) -> None:
        if self.closed:
            raise EnvironmentClosed("the environment was closed", backend=BACKEND, operation="execute")

    async def _serve(self, keeper: Keeper, sock: socket.socket) -> None:
        """Has a keeper started at the other end of its connection."""
        while (parent := self._living_parent()) is not None:
            keeper.parent = parent
            try:
                await parent.fork(sock)
            except OSError:
                if parent.is_alive():
                    raise
                if not parent.ready:
                    self._fall_back(_ENDED_AT_ONCE)
            else:
                return
        keeper.parent = None
        worker = Worker(Channel(socket.socket(fileno=sock.detach())), GroupTree(), buffer=new_buffer(), shared=True)
        threading.Thread(target=worker.serve, args=(None,), name="stead-keeper", daemon=True).start()

    def _living_parent(self) -> ParentKeeper | None:
        """Returns the parent keeper, started again if it has died; None if keepers are threads."""
        parents = self._held.parents
        if self._in_threads:
            return None
        if parents and not parents[0].is_alive():
            self._turns.dismiss()
            parents.pop().abandon()
        if not parents:
            python = find_python()
            if python is None:
                self._fall_back("there is no Python to run it")
                return None
            parents.append(ParentKeeper(python))
        return parents[0]

    def never_served(self, keeper: Keeper) -> bool:
        """Says whether a keeper ended because no keeper could be started at all; later ones are then threads."""
        parent = keeper.parent
        if parent is None or keeper.heard or parent.is_alive() or parent.ready:
            return False
        self._fall_back(_ENDED_AT_ONCE)
        return True

    def _fall_back(self, reason: str) -> None:
        if self._in_threads:
            return
        self._in_threads = True
        warnings.warn(
            f"commands run without a keeper process ({reason}): on a timeout, a child that left its process group may "
            "survive, and so may every command if this process is killed",
            RuntimeWarning,
            stacklevel=2,
        )

    def give_back(self, keeper: Keeper, *, idle: bool) -> None:
        """Takes a keeper back after a command has ended.

        Args:
            keeper: From `ask`.
            idle: Whether nothing of the command is left.
        """
        held = self._held
        held.busy.discard(keeper)
        if not idle:
            held.looking_after.add(keeper)
            return
        if self.closed or len(held.idle) >= _IDLE_AFTER_BURST:
            keeper.close()
            return
        held.idle.append(keeper)
        self._turns.call(1)
        if len(held.idle) > _IDLE and self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._trim)

    def _trim(self) -> None:
        """Ends the idle keepers that a burst has left."""
        self._trimming = None
        while len(self._held.idle) > _IDLE:
            self._held.idle.pop(0).close()

    def drop(self, keeper: Keeper) -> None:
        """Takes a keeper out of use: it ends what is left of its command, and itself."""
        self._held.busy.discard(keeper)
        self._held.looking_after.discard(keeper)
        keeper.close()

    async def close(self, *, keep: bool) -> None:
        """Ends all commands and keepers, and waits until nothing of them is left.

        Args:
            keep: Let what runs in the background go on, with its keepers.
        """
        self.closed = True
        self._turns.dismiss()
        if self._trimming is not None:
            self._trimming.cancel()
        held = self._held
        staying = set(held.looking_after) if keep else set()
        ending = {*held.idle, *held.busy, *(held.looking_after - staying)}
        for keeper in ending:
            keeper.hang_up()
        try:
            async with asyncio.timeout(_CLOSE_PATIENCE):
                # The parent ends what its keepers cannot: unless some are to stay, it hears of the end when they do.
                await asyncio.gather(
                    *(keeper.until_end() for keeper in ending), *(p.until_end() for p in held.parents if not keep)
                )
                for keeper in staying:
                    keeper.detach()
                for parent in held.parents if keep else ():
                    parent.leave()
                    await parent.until_end()
        except TimeoutError:
            _log.warning("something that a command started could not be ended within %s s", _CLOSE_PATIENCE)
            for parent in held.parents:
                parent.kill()
        for keeper in ending | staying:
            self.drop(keeper)
        for parent in held.parents:
            parent.abandon()
        for group in (held.idle, held.parents):
            group.clear()
