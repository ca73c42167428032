"""The first keeper of an environment: it forks the others, and ends what one that was killed leaves behind."""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Container

from stead_local.keeper.channel import FAILURE, Channel
from stead_local.keeper.request import pack_failure
from stead_local.keeper.tree import GroupTree, SubreaperTree, Tree, become_subreaper, children
from stead_local.keeper.worker import GRACE, KILL_PATIENCE, serve

__all__ = ["FORK", "LEAVE", "READY", "main"]

FORK = b"F"
"""From the environment, with a socket attached: fork a keeper for that connection."""
LEAVE = b"L"
"""From the environment: end now, without waiting for keepers that look after background processes."""
READY = b"!"
"""To the environment, once."""

_PATIENCE = 2 * (GRACE + KILL_PATIENCE) + 6.0
"""Seconds that the other keepers get to end their commands once the environment is gone."""
_LAST_PATIENCE = 1.0
"""Seconds that we then spend on killing what is left, keepers too."""
_TICK = 0.01


def main(fd: int) -> None:
    """Serves until the environment closes its end of the socket or dies, and then until all keepers have ended.

    Args:
        fd: The socket to the environment.
    """
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the host, whose end is ours too; until then its commands need their keepers.
        signal.signal(number, signal.SIG_IGN)
    catches_all = become_subreaper()
    # Forked keepers share these pages for as long as nobody writes to them.
    gc.disable()
    gc.freeze()
    control.send(READY)
    _Parent(control, catches_all=catches_all).serve()


class _Parent:
    """Knows its keepers; whatever other child it gets was left by one that was killed."""

    def __init__(self, control: socket.socket, *, catches_all: bool) -> None:
        self._control = control
        self._catches_all = catches_all
        self._wake = _wake_on_child_end()
        self._keepers: set[int] = set()

    def serve(self) -> None:
        order = FORK
        while order not in (LEAVE, b""):
            strays = self._kill_strays()
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.register(self._control, select.POLLIN)
            ready = {fd for fd, _events in poll.poll(_TICK * 1000 if strays else None)}
            if self._control.fileno() in ready:
                order = self._obey()
            self._reap(ready)
        if order != LEAVE:
            self._wait_for_keepers()

    def _obey(self) -> bytes:
        """Carries out one order and returns it; empty at the end of the connection."""
        try:
            order, fds, _flags, _address = socket.recv_fds(self._control, 1, 1)
        except OSError:
            return b""
        for fd in fds:
            with socket.socket(fileno=fd) as sock:
                sock.set_inheritable(False)
                self._fork(sock)
        return order

    def _fork(self, sock: socket.socket) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            text = pack_failure(stage="spawn", text=f"no process for the keeper: {error}", number=error.errno or 0)
            Channel(sock).post(FAILURE, text)
            return
        if pid:
            self._keepers.add(pid)
            return
        status = 1
        try:
            self._control.close()
            os.close(self._wake)
            tree: Tree = SubreaperTree() if self._catches_all and become_subreaper() else GroupTree()
            serve(Channel(sock), tree, wake=_wake_on_child_end(), shared=False)
            status = 0
        finally:
            os._exit(status)

    def _reap(self, ready: Container[int]) -> bool:
        """Collects what has ended; returns False if no child is left."""
        if self._wake in ready:
            os.read(self._wake, 4096)
        while True:
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._keepers.discard(pid)

    def _kill_strays(self) -> bool:
        """Kills children that are no keepers; returns whether there are any."""
        strays = self._catches_all and [pid for pid in children() if pid not in self._keepers]
        for pid in strays or ():
            with contextlib.suppress(OSError):  # another user's, or gone
                os.kill(pid, signal.SIGKILL)
        return bool(strays)

    def _wait_for_keepers(self) -> None:
        """Gives the keepers time to end their commands, and then ends all that is left."""
        start = time.monotonic()
        while self._reap(()) and (spent := time.monotonic() - start) < _PATIENCE + _LAST_PATIENCE:
            if spent > _PATIENCE:
                self._keepers.clear()
            self._kill_strays()
            time.sleep(_TICK)


def _wake_on_child_end() -> int:
    """Returns a descriptor that becomes readable whenever a child ends."""
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if previous >= 0:
        os.close(previous)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading
