"""Reaching and ending everything that a command started."""

from __future__ import annotations

import os
import resource  # noqa: TC003 - wait4 would import it in each forked keeper, for a third of what a command costs
import sys
import time

from stead_local.keeper.lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["GroupTree", "Process", "SubreaperTree", "Tree", "become_subreaper", "children", "kill_all", "process_table"]

_PR_SET_CHILD_SUBREAPER = 36
_prctl: list[Any] = []
_PAUSE = 0.001
"""Seconds between two rounds of killing that found nothing new to kill."""


class Process:
    """One line of the process table."""

    __slots__ = ("group", "parent", "pid", "started", "state")

    def __init__(self, pid: int, parent: int, group: int, *, state: bytes = b"", started: bytes = b"") -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.state = state
        """One letter as in /proc (Z is a zombie), empty where the system does not say."""
        self.started = started
        """Tells two processes with the same pid apart; empty where the system does not say."""


class Tree:
    """A command and its descendants, as far as this system lets us reach them."""

    def __init__(self) -> None:
        self.status: int | None = None
        """Wait status of the command itself, None while it runs."""
        self.empty = True
        """True if nothing is left."""
        self.fatal_signals: set[int] = set()
        """Signals that ended the command or a descendant that was left to us."""
        self.cpu_seconds = 0.0
        """Most processor time of one of those, its own children included."""
        self._main = 0

    def reset(self) -> None:
        """Forgets the last command."""
        self.status = None
        self.fatal_signals, self.cpu_seconds = set(), 0.0

    def begin(self, pid: int) -> None:
        """Starts to follow a command that was just started."""
        self.reset()
        self._main, self.empty = pid, False

    def reap(self) -> None:
        """Collects what has ended, and sets the attributes."""
        raise NotImplementedError

    def terminate(self) -> None:
        """Asks all to end (SIGTERM), parents before their children, so that no shell reports a child's death."""
        raise NotImplementedError

    def kill(self) -> int:
        """Kills (SIGKILL) whom it can reach now; returns how many of them were new since the last call."""
        raise NotImplementedError

    def is_busy(self) -> bool:
        """Whether a descendant is at work at this moment, rather than waiting for something."""
        return False

    def _note(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        """Takes down how one process ended."""
        self.cpu_seconds = max(self.cpu_seconds, usage.ru_utime + usage.ru_stime)
        if os.WIFSIGNALED(status):
            self.fatal_signals.add(os.WTERMSIG(status))
        if pid == self._main:
            self.status = status


def become_subreaper() -> bool:
    """Makes this process, not those forked from it, the parent of every descendant whose own parent ends.

    Returns:
        False where the system has no such thing (only Linux does).
    """
    if not sys.platform.startswith("linux"):
        return False
    if not _prctl:  # looked up once, before the first fork: it takes longer than a fork
        try:
            import ctypes

            _prctl.append(ctypes.CDLL(None).prctl)
        except (ImportError, OSError, AttributeError):
            return False
    return bool(_prctl[0](_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def kill_all(tree: Tree, patience: float) -> bool:
    """Kills until nothing is left.

    Args:
        tree: Whom.
        patience: Most seconds to spend; processes of another user and ones stuck in the kernel do not die on request.

    Returns:
        True if nothing is left.
    """
    give_up = time.monotonic() + patience
    while True:
        tree.reap()
        if tree.empty:
            return True
        fresh = tree.kill()
        if time.monotonic() >= give_up:
            return False
        if not fresh:
            # A fork storm is only outrun without pauses; once nobody new appears, dying takes its own time.
            time.sleep(_PAUSE)


class SubreaperTree(Tree):
    """All descendants of this process, a subreaper: nothing can leave, so "no child left" proves the end."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[int] = set()

    def begin(self, pid: int) -> None:
        super().begin(pid)
        self._seen = set()

    def reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.empty = True
                return
            if pid == 0:
                return
            self._seen.discard(pid)
            self._note(pid, status, usage)

    def is_busy(self) -> bool:
        return any(process.state in (b"R", b"D") for process in _descendants(process_table(), {os.getpid()}))

    def terminate(self) -> None:
        below = list(_descendants(process_table(), {os.getpid()}))
        own_group = self._main if self.status is None else 0
        if own_group:
            _quietly(os.killpg, own_group, signal.SIGTERM)
        for process in below:
            if process.group != own_group:
                _signal(process, signal.SIGTERM)

    def kill(self) -> int:
        fresh = 0
        # Children that we have not reaped keep their pid, so none of these can be a stranger's.
        for pid in reversed(children()):
            _quietly(os.kill, pid, signal.SIGKILL)
            if pid not in self._seen:
                self._seen.add(pid)
                fresh += 1
        return fresh


class GroupTree(Tree):
    """The command's process group, and its descendants as long as the parent links hold. Best effort.

    What a double fork put into another group is not found.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, Process] = {}

    def begin(self, pid: int) -> None:
        super().begin(pid)
        self._known = {}

    def reap(self) -> None:
        if self.empty:
            return
        if self.status is None:
            self._reap_command()
        if self.status is not None:
            self.empty = not self._group_lives() and not any(_is_same(p) for p in self._known.values())

    def _reap_command(self) -> None:
        # Only our own child, by number: in the fallback this process has children that are not ours.
        try:
            pid, status, usage = os.wait4(self._main, os.WNOHANG)
        except ChildProcessError:  # someone else in this process reaped it: its status is lost
            self.status = 255 << 8
            return
        if pid:
            self._note(pid, status, usage)

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._main, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        # Zombies count for the system until their new parent collects them, which may take its time.
        return any(process.group == self._main and process.state != b"Z" for process in process_table())

    def _walk(self) -> int:
        """Adds to `_known` what can be found now; returns how many were new."""
        before = len(self._known)
        table = process_table()
        roots = {self._main, *self._known} if self.status is None else set(self._known)
        group = [process for process in table if process.group == self._main]
        for process in [*group, *_descendants(table, roots | {process.pid for process in group})]:
            self._known.setdefault(process.pid, process)
        return len(self._known) - before

    def terminate(self) -> None:
        self._walk()
        _quietly(os.killpg, self._main, signal.SIGTERM)
        for process in self._known.values():
            if process.group != self._main:
                _signal(process, signal.SIGTERM)

    def kill(self) -> int:
        fresh = self._walk()
        if self.status is None or self._group_lives():
            _quietly(os.killpg, self._main, signal.SIGKILL)
        for process in self._known.values():
            if process.group != self._main:
                _signal(process, signal.SIGKILL)
        return fresh


def children() -> list[int]:
    """Returns the pids of this process's children, oldest first."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without that file
        return sorted(process.pid for process in process_table() if process.parent == me)


def process_table() -> list[Process]:
    """Returns every process that can be seen."""
    if not os.path.isdir("/proc/self"):
        return _process_table_of_ps()
    infos = (_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in infos if process is not None]


def _process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command name comes in brackets and may hold anything, brackets too.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[2]), state=fields[0], started=fields[19])


def _process_table_of_ps() -> list[Process]:
    import subprocess

    listing = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,pgid="], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    rows = (line.split() for line in listing.stdout.splitlines())
    return [Process(int(row[0]), int(row[1]), int(row[2])) for row in rows if len(row) == 3]


def _descendants(table: list[Process], roots: set[int]) -> Iterator[Process]:
    """Yields what descends from `roots`, parents before their children."""
    below: dict[int, list[Process]] = {}
    for process in table:
        below.setdefault(process.parent, []).append(process)
    todo = sorted(roots)
    seen = set(roots)
    for pid in todo:
        for process in below.get(pid, ()):
            if process.pid not in seen:
                seen.add(process.pid)
                todo.append(process.pid)
                yield process


def _is_same(process: Process) -> bool:
    """Says whether that very process still exists."""
    if not os.path.isdir("/proc/self"):
        return _quietly(os.kill, process.pid, 0)
    now = _process(process.pid)
    return now is not None and now.state != b"Z" and now.started == process.started


def _quietly(call: Callable[..., Any], *arguments: int) -> bool:
    """Sends a signal to a process that may be gone or another user's; returns whether it was sent."""
    try:
        call(*arguments)
    except OSError:
        return False
    return True


def _signal(process: Process, number: int) -> None:
    """Sends a signal to that very process, never to a later one that got its number."""
    if not hasattr(os, "pidfd_open"):
        if _is_same(process):
            _quietly(os.kill, process.pid, number)
        return
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if _is_same(process):
            _quietly(signal.pidfd_send_signal, fd, number)
    finally:
        os.close(fd)
