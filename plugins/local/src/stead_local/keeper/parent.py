"""The first keeper of an environment: it forks the others, and ends what one that was killed leaves behind."""

from __future__ import annotations

import gc
import os
import select
import time

from stead_local.keeper.channel import FAILURE, REQUEST, Channel, receive_with_fds
from stead_local.keeper.lean import signal, socket
from stead_local.keeper.request import pack
from stead_local.keeper.tree import GroupTree, SubreaperTree, become_subreaper, children
from stead_local.keeper.worker import GRACE, KILL_PATIENCE, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import NoReturn

    from stead_local.keeper.messages import Failure, Request

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
_BATCH = 16
"""Keepers that are forked in a row: their descriptors are open here meanwhile."""
_REHEARSALS = 10  # the interpreter adapts a function in its first eight calls


def main(fd: int) -> None:
    """Serves until the environment closes its end of the socket or dies, and then until all keepers have ended.

    Args:
        fd: The socket to the environment.
    """
    control = socket.socket(fileno=fd)
    control.setblocking(False)
    os.set_inheritable(fd, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the host, whose end is ours too; until then its commands need their keepers.
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    catches_all = become_subreaper()
    _rehearse()
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
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wake = _pipe()
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        self._keepers: set[int] = set()
        self._strays = False
        """Whether there may be children that are no keepers."""

    def serve(self) -> None:
        order = FORK
        while order == FORK:
            poll = select.poll()
            poll.register(self._wake[0], select.POLLIN)
            poll.register(self._control, select.POLLIN)
            ready = {fd for fd, _events in poll.poll(_TICK * 1000 if self._strays else None)}
            if self._control.fileno() in ready:
                order, batch = self._take_orders()
                self._fork_all(batch)
            self._reap(ready)
            if self._strays:
                self._kill_strays()
        if order != LEAVE:
            self._wait_for_keepers()

    def _take_orders(self) -> tuple[bytes, list[Channel]]:
        """Takes what has been ordered; returns the last order (empty at the end) and the connections to serve.

        Their first requests are received here: after a fork each page that is written to costs a copy, so as much as
        possible is done before a row of them, and as little as possible between them.
        """
        batch: list[Channel] = []
        while len(batch) < _BATCH:
            try:
                order, fds = receive_with_fds(self._control, 1)
            except BlockingIOError:
                return FORK, batch
            except OSError:
                return b"", batch
            if order != FORK:
                return order, batch
            for fd in fds:
                channel = Channel(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd))
                channel.receive()
                batch.append(channel)
        return FORK, batch

    def _fork_all(self, batch: list[Channel]) -> None:
        """Forks a keeper for each connection."""
        fds = [channel.descriptors() for channel in batch]
        for number, channel in enumerate(batch):
            try:
                pid = os.fork()
            except OSError as error:
                text = f"no process for a keeper: {error}"
                failure: Failure = {"stage": "fork", "number": error.errno or 0, "text": text}
                channel.post(FAILURE, pack(failure))
                continue
            if pid == 0:
                others = [fd for other in range(len(fds)) if other != number for fd in fds[other]]
                self._be_keeper(channel, [*others, *self._wake, self._control.fileno()])
            self._keepers.add(pid)
        for channel in batch:
            channel.close()

    def _be_keeper(self, channel: Channel, inherited: list[int]) -> NoReturn:
        status = 1
        try:
            for fd in inherited:
                os.close(fd)
            reading, writing = _pipe()
            signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
            tree = SubreaperTree() if self._catches_all and become_subreaper() else GroupTree()
            Worker(channel, tree, wake=reading, shared=False).serve()
            status = 0
        finally:
            os._exit(status)

    def _reap(self, ready: Container[int]) -> bool:
        """Collects what has ended; returns False if no child is left."""
        if self._wake[0] in ready:
            os.read(self._wake[0], 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            # Whoever ends without a word, or is none of ours, may have left children to us.
            self._strays = self._strays or status != 0 or pid not in self._keepers
            self._keepers.discard(pid)

    def _kill_strays(self) -> None:
        """Kills children that are no keepers, and notes whether there were any."""
        strays = [pid for pid in children() if pid not in self._keepers] if self._catches_all else []
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # another user's, or gone
                continue
        self._strays = bool(strays)

    def _wait_for_keepers(self) -> None:
        """Gives the keepers time to end their commands, and then ends all that is left."""
        start = time.monotonic()
        while self._reap(()) and (spent := time.monotonic() - start) < _PATIENCE + _LAST_PATIENCE:
            if spent > _PATIENCE:
                self._keepers.clear()
            self._kill_strays()
            time.sleep(_TICK)


def _pipe() -> tuple[int, int]:
    """Opens a pipe that never blocks, for `signal.set_wakeup_fd`."""
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def _rehearse() -> None:
    """Serves commands that do not exist, until all code and caches are warm.

    A forked keeper copies each page that it writes to; after this it writes to a fifth fewer.
    """
    request: Request = {
        "argv": [b"-"],
        "env": {b"PATH": b"/"},
        "timeout": 1.0,
        "output_limit": 1 << 10,
        "live": False,
        "spill_root": "/",
        "spill_folders": [],
        "spill_name": "",
        "spill_json": "",
        "spill_limit": 0,
        "limits": {},
        "has_stdin": False,
    }
    for _ in range(_REHEARSALS):
        ours, theirs = socket.socketpair()
        wake = _pipe()
        cwd = os.open("/", os.O_RDONLY)
        Channel(ours).send_with_fds(REQUEST, pack(request), [cwd])
        ours.shutdown(socket.SHUT_WR)
        Worker(Channel(theirs), SubreaperTree(), wake=wake[0], shared=False).serve()
        ours.close()
        for fd in (cwd, *wake):
            os.close(fd)
