"""The first keeper of an environment: it forks the others, and ends what one that was killed leaves behind."""

from __future__ import annotations

import gc
import os
import select
import time

from stead_local.keeper.channel import FAILURE, REQUEST, Channel, receive_with_fds
from stead_local.keeper.lean import signal, socket
from stead_local.keeper.request import pack
from stead_local.keeper.streams import new_buffer
from stead_local.keeper.tree import GroupTree, SubreaperTree, become_subreaper, children
from stead_local.keeper.worker import GRACE, KILL_PATIENCE, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from mmap import mmap
    from typing import NoReturn

    from stead_local.keeper.messages import Failure, Request
    from stead_local.keeper.tree import Tree

__all__ = ["FORK", "FORKED", "LEAVE", "READY", "main"]

FORK = b"F"
"""From the environment, with a socket attached: fork a keeper for that connection."""
LEAVE = b"L"
"""From the environment: end now, without waiting for keepers that look after background processes."""
READY = b"!"
"""To the environment, once."""
FORKED = b"+"
"""To the environment, for each order: it is done."""

_PATIENCE = 2 * (GRACE + KILL_PATIENCE) + 6.0
"""Seconds that the other keepers get to end their commands once the environment is gone."""
_LAST_PATIENCE = 1.0
"""Seconds that we then spend on killing what is left, keepers too."""
_TICK = 0.01
_BATCH = 16
"""Keepers that are forked in a row: their descriptors are open here meanwhile."""
_REHEARSALS = 10  # the interpreter adapts a function in its first eight calls, and its instructions in the next

_FAR = 1 << 20  # no descriptor is that high


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
    signal.signal(signal.SIGCHLD, lambda *_: None)
    catches_all = become_subreaper()
    _rehearse(catches_all=catches_all)
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
        self._wake = _pipe()
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        self._buffer = new_buffer()
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
                order, taken, batch = self._take_orders()
                self._fork_all(batch)
                self._tell(FORKED * taken)
            self._reap(ready)
            if self._strays:
                self._kill_strays()
        if order != LEAVE:
            self._wait_for_keepers()

    def _take_orders(self) -> tuple[bytes, int, list[Channel]]:
        """Takes what has been ordered; returns the last order (empty at the end), how many, and the connections to serve.

        Those are fewer where descriptors were lost, because this process has as many as it may.
        Their first requests are received here: after a fork each page that is written to costs a copy, so as much as
        possible is done before a row of them, and as little as possible between them.
        """
        batch: list[Channel] = []
        for taken in range(_BATCH):
            try:
                order, fds = receive_with_fds(self._control, 1)
            except BlockingIOError:
                return FORK, taken, batch
            except OSError:
                return b"", taken, batch
            if order != FORK:
                return order, taken, batch
            for fd in fds:
                channel = Channel(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd))
                channel.receive()
                batch.append(channel)
        return FORK, _BATCH, batch

    def _fork_all(self, batch: list[Channel]) -> None:
        """Forks a keeper for each connection."""
        workers = [_worker(channel, self._buffer, catches_all=self._catches_all) for channel in batch]
        end = max([self._control.fileno(), *self._wake, *(fd for worker in workers for fd in worker.descriptors())]) + 1
        gaps = [_gaps(worker.descriptors(), end) for worker in workers]
        for number, worker in enumerate(workers):
            try:
                pid = os.fork()
            except OSError as error:
                text = f"no process for a keeper: {error}"
                failure: Failure = {"stage": "fork", "number": error.errno or 0, "text": text}
                batch[number].post(FAILURE, pack(failure))
                continue
            if pid == 0:
                _be_keeper(worker, gaps[number])
            self._keepers.add(pid)
        for worker in workers:
            worker.close()

    def _tell(self, answer: bytes) -> None:
        """Tells the environment."""
        try:
            self._control.send(answer)
        except OSError:  # gone, as the next poll will say
            return

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
        for pid in self._keepers:
            try:
                os.kill(pid, signal.SIGCONT)  # a command may have stopped its keeper
            except OSError:
                continue
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


def _worker(channel: Channel, buffer: mmap, *, catches_all: bool) -> Worker:
    """Makes the worker of a keeper that is about to be forked, with its first request read."""
    tree: Tree = SubreaperTree() if catches_all else GroupTree()
    worker = Worker(channel, tree, buffer=buffer)
    if channel.inbox and channel.inbox[0][1]:  # a long request, in a file, is left to the keeper
        worker.look()
    return worker


def _gaps(kept: list[int], end: int) -> list[tuple[int, int]]:
    """Returns the ranges of descriptors between those that are kept, from 3 on and below `end`."""
    gaps = []
    low = 3
    for fd in [*sorted(kept), end]:
        if low < fd:
            gaps.append((low, fd))
        low = fd + 1
    return gaps


def _be_keeper(worker: Worker, gaps: list[tuple[int, int]]) -> NoReturn:
    status = 1
    try:
        _keep(worker, gaps)
        status = 0
    finally:
        os._exit(status)


def _keep(worker: Worker, gaps: list[tuple[int, int]]) -> None:
    """Is a keeper, from its fork to its end.

    Args:
        worker: What it runs.
        gaps: Ranges of descriptors that belong to others: closed.
    """
    for low, high in gaps:
        os.closerange(low, high)
    wake = _pipe()
    signal.set_wakeup_fd(wake[1], warn_on_full_buffer=False)
    become_subreaper()
    worker.serve(wake[0])
    for fd in wake:
        os.close(fd)


def _rehearse(*, catches_all: bool) -> None:
    """Is a keeper some times, for commands that do not exist, until all code and caches are warm.

    A forked keeper copies each page that it writes to; after this it writes to a third fewer.
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
        cwd = os.open("/", os.O_RDONLY)
        Channel(ours).send_with_fds(REQUEST, pack(request), [cwd])
        ours.shutdown(socket.SHUT_WR)
        os.close(cwd)
        channel = Channel(theirs)
        channel.receive()
        worker = _worker(channel, new_buffer(), catches_all=catches_all)
        _keep(worker, [(_FAR, _FAR + 1)])
        worker.close()
        ours.close()
