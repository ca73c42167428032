"""The environment's side of its keepers: starting them, lending them out, ending them."""

import asyncio
import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
import weakref
from typing import NamedTuple, Protocol

from stead.errors import EnvironmentClosed, Unavailable
from stead_local.errors import BACKEND
from stead_local.keeper.channel import DETACH, KILL, REQUEST, Channel, Frame
from stead_local.keeper.parent import FORK, LEAVE, READY
from stead_local.keeper.tree import GroupTree
from stead_local.keeper.worker import serve
from stead_local.variables import host_variables

__all__ = ["Keeper", "KeeperPool"]

_IDLE = 8
"""Keepers that wait for the next command; those beyond end when their command has ended. About 2 MB each."""
_CLOSE_PATIENCE = 10.0
"""Seconds that `close()` waits for the keepers. They need less than two unless something cannot be killed."""
_LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
_log = logging.getLogger("stead.local")


class _Forgettable(Protocol):
    def forget(self) -> None:
        """Closes what a fork copied, in the child."""


_live: "weakref.WeakSet[_Forgettable]" = weakref.WeakSet()


def _forget_in_forked_child() -> None:
    # A copy of a socket in a forked child (multiprocessing) would hide this process's death from its keepers.
    for item in list(_live):
        item.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_forked_child)


class Keeper:
    """One keeper, as the environment sees it. Several tasks may wait for it at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel = Channel(sock)
        self._waiting: list[asyncio.Future[None]] = []
        self.heard = False
        """True once it has said anything."""
        _live.add(self)

    def request(self, payload: bytes, fds: list[int]) -> None:
        """Asks for a command.

        Raises:
            OSError: The keeper is gone; the command did not start.
        """
        self._channel.send_with_fds(REQUEST, payload, fds)

    def kill(self) -> None:
        """Asks to end the running command and all it started; done when this returns, whatever the loop does then."""
        self._channel.post(KILL)

    def detach(self) -> None:
        """Asks to outlive the environment with what runs in the background."""
        self._channel.post(DETACH)

    def hang_up(self) -> None:
        """Tells the keeper to end everything; it closes its end when that is done."""
        with contextlib.suppress(OSError):
            self._channel.sock.shutdown(socket.SHUT_WR)

    async def frame(self) -> Frame | None:
        """Waits for the next frame; None when the keeper has ended."""
        channel = self._channel
        while not channel.inbox and not channel.at_end:
            await self._readable()
            channel.receive()
        if not channel.inbox:
            return None
        self.heard = True
        return channel.inbox.popleft()

    def ended(self) -> bool:
        """Says whether the keeper has ended, without waiting."""
        self._channel.receive()
        return self._channel.at_end

    async def until_end(self) -> None:
        """Waits until the keeper has ended."""
        while not self._channel.at_end:
            await self._readable()
            self._channel.receive()
            self._channel.inbox.clear()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._waiting:
            loop.add_reader(self._channel.fileno(), self._wake)
        self._waiting.append(future)
        try:
            await future
        finally:
            self._waiting.remove(future)
            if not self._waiting and self._channel.fileno() >= 0:
                loop.remove_reader(self._channel.fileno())

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Closes our end: the keeper ends everything it looks after, unless it was detached."""
        if self._waiting:
            self._waiting[0].get_loop().remove_reader(self._channel.fileno())
            self._wake()
        self._channel.close()

    def forget(self) -> None:
        """Closes the socket alone, in a forked child: the event loop is still shared with the parent."""
        self._channel.close()


class _Parent:
    """The first keeper: a child of this process that forks all others."""

    def __init__(self, python: str) -> None:
        ours, theirs = socket.socketpair()
        self.control = ours
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper", "__main__.py")
        variables = {name: os.environ[name] for name in _LIBRARY_PATHS if name in os.environ}
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [python, "-I", "-S", script, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    # Not the host's: a command could read them from /proc.
                    env=host_variables() | variables,
                    start_new_session=True,  # Ctrl-C is for the host, which decides what becomes of its commands
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self.ready = False
        _live.add(self)

    def is_alive(self) -> bool:
        """Says whether it serves, and notes whether it ever did."""
        try:
            answer = self.control.recv(16)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self.ready = self.ready or answer.startswith(READY)
        return bool(answer) and self.is_alive()

    async def fork(self, sock: socket.socket) -> None:
        """Asks for a keeper at the other end of `sock`.

        Raises:
            OSError: It is gone.
        """
        while True:
            try:
                socket.send_fds(self.control, [FORK], [sock.fileno()])
            except (BlockingIOError, InterruptedError):
                await asyncio.sleep(0.005)  # hundreds of requests wait there already
            else:
                return

    def leave(self) -> None:
        """Asks it to end without waiting for detached keepers."""
        with contextlib.suppress(OSError):
            self.control.send(LEAVE)

    async def until_end(self) -> None:
        """Asks it to end, and waits until it and all its keepers have."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while await loop.sock_recv(self.control, 16):
                pass
        while self._process.poll() is None:
            await asyncio.sleep(0.001)

    def forget(self) -> None:
        """Gives up on it without waiting."""
        self.control.close()
        # Popen would warn that the process still runs; it ends by itself, and in a forked child it is not ours.
        self._process.returncode = 0

    def abandon(self) -> None:
        """Lets it end by itself, and collects it in the background."""
        self.control.close()
        try:
            threading.Thread(target=self._process.wait, name="stead-keeper-wait", daemon=True).start()
        except RuntimeError:  # no thread can start while the interpreter ends
            self.forget()


class _Held(NamedTuple):
    """All keepers of one environment."""

    idle: list[Keeper]
    busy: set[Keeper]
    looking_after: set[Keeper]
    """Those whose command left something in the background."""
    parents: list[_Parent]

    def abandon(self) -> None:
        """For an environment that was never closed: ends everything, without waiting."""
        for keeper in (*self.idle, *self.busy, *self.looking_after):
            keeper.close()
        for parent in self.parents:
            parent.abandon()


class KeeperPool:
    """The keepers of one environment, started when they are needed."""

    def __init__(self) -> None:
        self._held = _Held([], set(), set(), [])
        self._in_threads = False
        self.closed = False
        weakref.finalize(self, self._held.abandon)

    async def take(self) -> Keeper:
        """Lends a keeper for one command; to be given back or dropped.

        Raises:
            EnvironmentClosed: The pool is closed.
            Unavailable: No process can be started now.
        """
        held = self._held
        for keeper in [keeper for keeper in held.looking_after if keeper.ended()]:
            self.drop(keeper)
        while held.idle:
            keeper = held.idle.pop()
            if not keeper.ended():
                held.busy.add(keeper)
                return keeper
            keeper.close()
        try:
            return await self._new_keeper()
        except OSError as error:
            raise Unavailable(f"no process for the command: {error}", backend=BACKEND, operation="execute") from error

    async def _new_keeper(self) -> Keeper:
        ours, theirs = socket.socketpair()
        keeper = Keeper(ours)
        self._held.busy.add(keeper)
        try:
            with theirs:
                await self._serve(theirs)
        except BaseException:
            self.drop(keeper)
            raise
        if self.closed:
            self.drop(keeper)
            raise EnvironmentClosed("the environment was closed", backend=BACKEND, operation="execute")
        return keeper

    async def _serve(self, sock: socket.socket) -> None:
        """Has a keeper started at that end of a connection."""
        if not self._in_threads:
            parent = self._living_parent()
            if parent is not None:
                await parent.fork(sock)
                return
            self._fall_back("there is no Python to run it")
        channel = Channel(socket.socket(fileno=sock.detach()))
        threading.Thread(
            target=serve,
            args=(channel, GroupTree()),
            kwargs={"wake": None, "shared": True},
            name="stead-keeper",
            daemon=True,
        ).start()

    def _living_parent(self) -> _Parent | None:
        parents = self._held.parents
        if not parents or not parents[-1].is_alive():
            python = _python()
            if python is None:
                return None
            parents.append(_Parent(python))
        return parents[-1]

    def never_served(self, keeper: Keeper) -> bool:
        """Says whether a keeper ended because no keeper could be started at all; later ones are then threads."""
        parents = self._held.parents
        if self._in_threads or keeper.heard or not parents or parents[-1].is_alive() or parents[-1].ready:
            return False
        self._fall_back("the Python that should run it ended at once")
        return True

    def _fall_back(self, reason: str) -> None:
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
            keeper: From `take`.
            idle: Whether nothing of the command is left.
        """
        held = self._held
        held.busy.discard(keeper)
        if not idle:
            held.looking_after.add(keeper)
        elif len(held.idle) < _IDLE and not self.closed:
            held.idle.append(keeper)
        else:
            keeper.close()

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
        held = self._held
        staying = set(held.looking_after) if keep else set()
        ending = {*held.idle, *held.busy, *(held.looking_after - staying)}
        for keeper in ending:
            keeper.hang_up()
        try:
            async with asyncio.timeout(_CLOSE_PATIENCE):
                await asyncio.gather(*(keeper.until_end() for keeper in ending))
                for keeper in staying:
                    keeper.detach()
                for parent in held.parents:
                    if keep:
                        parent.leave()
                    await parent.until_end()
        except TimeoutError:
            _log.warning("something that a command started could not be ended within %s s", _CLOSE_PATIENCE)
        for keeper in ending | staying:
            self.drop(keeper)
        for parent in held.parents:
            parent.abandon()
        for group in (held.idle, held.parents):
            group.clear()


def _python() -> str | None:
    """Returns the interpreter that runs keepers, or None if there is none that we can be sure of."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper", "__main__.py")
    if getattr(sys, "frozen", False) or not os.path.isfile(script):
        return None
    # In an application that embeds Python, sys.executable is that application: it must not be started again.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, os.path.join(sys.base_exec_prefix, "bin", version)):
        if path and re.match(r"(python|pypy)[\d.]*[a-z]*$", os.path.basename(path)) and os.access(path, os.X_OK):
            return path
    return None
