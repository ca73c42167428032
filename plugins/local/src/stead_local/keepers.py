"""Keepers as the environment sees them: one that runs commands, and their parent, which forks them."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import weakref
from typing import Protocol

from stead_local.keeper.channel import DETACH, KILL, REQUEST, Channel
from stead_local.keeper.parent import FORK, FORKED, LEAVE, READY
from stead_local.variables import host_variables

__all__ = ["Keeper", "ParentKeeper", "find_python"]

_ROW = 16
"""Orders that a parent keeper has at most before it: it works them off in some tens of milliseconds."""
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper", "__main__.py")
_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*$", re.IGNORECASE)
_LIBRARY_PATHS = (b"LD_LIBRARY_PATH", b"DYLD_LIBRARY_PATH", b"DYLD_FALLBACK_LIBRARY_PATH")


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
        self.parent: ParentKeeper | None = None
        """Who forks it; None for a thread."""
        _live.add(self)

    def request(self, payload: bytes, fds: list[int]) -> None:
        """Asks for a command. If the keeper is gone, the next frame is its end."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
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

    async def frame(self) -> tuple[bytes, bytes] | None:
        """Waits for the next frame, its kind and its payload; None when the keeper has ended."""
        channel = self._channel
        while not channel.inbox and not channel.at_end:
            await self._readable()
            channel.receive()
        if not channel.inbox:
            return None
        self.heard = True
        return channel.inbox.pop(0)

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
        """Closes the socket alone, where the event loop must not be touched: it is over, or shared after a fork."""
        self._channel.close()


class ParentKeeper:
    """The first keeper: a child of this process that forks all others."""

    def __init__(self, python: str) -> None:
        ours, theirs = socket.socketpair()
        self.control = ours
        libraries = {name: os.environb[name] for name in _LIBRARY_PATHS if name in os.environb}
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own script
                    [python, "-I", "-S", _SCRIPT, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    # Not the host's: a command could read them from /proc.
                    # Bound at once, symbols are not looked up anew in each forked keeper.
                    env=host_variables() | libraries | {b"LD_BIND_NOW": b"1"},
                    start_new_session=True,  # Ctrl-C is for the host, which decides what becomes of its commands
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self.ready = False
        """True once it has served."""
        self.room = _ROW
        """Orders that it can take at present."""
        _live.add(self)

    def is_alive(self) -> bool:
        """Says whether it serves, and notes what it has done."""
        try:
            answer = self.control.recv(64)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self.ready = self.ready or READY in answer
        self.room += answer.count(FORKED)
        return bool(answer) and self.is_alive()

    def is_full(self) -> bool:
        """Says whether it has as many orders as it can soon do."""
        return self.room <= 0 and self.is_alive() and self.room <= 0

    async def fork(self, sock: socket.socket) -> None:
        """Asks for a keeper at the other end of `sock`.

        Raises:
            OSError: It is gone.
        """
        self._wake_up()
        while True:
            try:
                socket.send_fds(self.control, [FORK], [sock.fileno()])
            except (BlockingIOError, InterruptedError):
                await asyncio.sleep(0.005)  # hundreds of requests wait there already
            else:
                self.room -= 1
                return

    def _wake_up(self) -> None:
        """Has it go on, if a command stopped it."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it where it does not end by itself. Its keepers end with their own connections."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def leave(self) -> None:
        """Asks it to end without waiting for detached keepers."""
        with contextlib.suppress(OSError):
            self.control.send(LEAVE)

    async def until_end(self) -> None:
        """Asks it to end, and waits until it and all its keepers have."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
        self._wake_up()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while await loop.sock_recv(self.control, 16):
                pass
        while self._process.poll() is None:  # noqa: ASYNC110 - its socket has ended, so it is about to
            await asyncio.sleep(0.001)

    def forget(self) -> None:
        """Gives up on it without waiting."""
        self.control.close()
        # Popen would warn that the process still runs; it ends by itself, and in a forked child it is not ours.
        self._process.returncode = 0

    def abandon(self) -> None:
        """Lets it end by itself, and collects it in the background."""
        self.control.close()
        self._wake_up()
        if self._process.poll() is not None:
            return
        try:
            threading.Thread(target=self._process.wait, name="stead-keeper-wait", daemon=True).start()
        except RuntimeError:  # no thread can start while the interpreter ends
            self.forget()


def find_python() -> str | None:
    """Returns the interpreter that runs keepers, or None if there is none that we can be sure of."""
    if getattr(sys, "frozen", False) or not os.path.isfile(_SCRIPT):
        return None
    # In an application that embeds Python, sys.executable is that application: it must not be started again.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, os.path.join(sys.base_exec_prefix, "bin", version)):
        if path and _PYTHON.match(os.path.basename(path)) and os.access(path, os.X_OK):
            return path
    return None
