"""One command, from its request to its reply."""

from __future__ import annotations

import errno
import os
import select
import time

from stead_local.keeper.channel import CHUNK_ERR, CHUNK_OUT, DETACH, FAILURE, FINAL, KILL, REQUEST, Channel
from stead_local.keeper.lean import signal
from stead_local.keeper.request import pack, unpack_request
from stead_local.keeper.spawn import CannotRun, apply_limits, spawn
from stead_local.keeper.spill import Spill, SpillPlace
from stead_local.keeper.streams import Input, Output
from stead_local.keeper.tree import kill_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from mmap import mmap

    from stead_local.keeper.messages import Failure, Final, Request, StreamEnd
    from stead_local.keeper.tree import Tree

__all__ = ["GRACE", "KILL_PATIENCE", "Worker"]

GRACE = 0.2
"""Seconds between SIGTERM and SIGKILL."""
KILL_PATIENCE = 0.7
"""Seconds of killing after which the caller gets an answer, although something is still there."""
_LAST_PATIENCE = 5.0
"""Seconds of killing after the environment is gone."""
_QUIET = 0.05
_DRAIN = 0.5
"""After the command's own end its pipes are read until they were quiet for `_QUIET` seconds and nothing of it is at work,
at most for `_DRAIN`: the last lines of a `tee` or a process substitution come from children that end a moment later."""
_LIVE_BACKLOG = 256 << 10
"""Bytes of live output that wait for a slow reader before the command's pipes are left to fill up."""
_TICK = 0.01
"""Seconds between two looks at the command where no signal wakes us."""
_NEVER = float("inf")
_LONG = 3600.0
"""Seconds to wait where nothing is due."""


class Worker:
    """Runs commands for one connection, one at a time.

    Args:
        channel: To the environment.
        tree: Follows the processes of a command.
        buffer: Scratch space, for nobody else in this process.
        shared: Whether this process does other things too: its working directory is then left alone.
    """

    def __init__(self, channel: Channel, tree: Tree, *, buffer: mmap, shared: bool = False) -> None:
        self._channel = channel
        self._tree = tree
        self._buffer = buffer
        self._shared = shared
        self._next: tuple[Request, list[int]] | None = None
        """A request that was read and has not begun, with its descriptors."""

    def descriptors(self) -> list[int]:
        """The descriptors that are open here between two commands."""
        return [*self._channel.descriptors(), *(self._next[1] if self._next else ())]

    def close(self) -> None:
        """Closes them."""
        for fd in self._next[1] if self._next else ():
            os.close(fd)
        self._next = None
        self._channel.close()

    def serve(self, wake: int | None) -> None:
        """Serves until the environment is gone or a command leaves something in the background.

        In the latter case it looks after that until the last of it has ended, and takes no other command.

        Args:
            wake: A descriptor that becomes readable when a child ends, or None.
        """
        try:
            while self._wait() and self._next is not None:
                (request, fds), self._next = self._next, None
                run = _Run(request, fds, self._channel, self._tree, wake=wake, buffer=self._buffer)
                if run.start(shared=self._shared) and not run.finish():
                    break
        except Exception:  # noqa: BLE001 - whatever it is, the environment must hear of it and no process may stay
            kill_all(self._tree, _LAST_PATIENCE)
            self._report()
        finally:
            self.close()

    def _report(self) -> None:
        import traceback

        failure: Failure = {"stage": "keeper", "number": 0, "text": traceback.format_exc()}
        self._channel.post(FAILURE, pack(failure))

    def _wait(self) -> bool:
        """Waits for the next request; False at the end of the connection."""
        while not self.look():
            if self._channel.at_end:
                return False
            poll = select.poll()
            poll.register(self._channel, select.POLLIN)
            poll.poll()
            self._channel.receive()
        return True

    def look(self) -> bool:
        """Reads the next request if it has arrived."""
        inbox = self._channel.inbox
        while self._next is None and inbox:
            kind, payload = inbox.pop(0)
            if kind == REQUEST:  # else a kill that came when its command had ended by itself
                fds = self._channel.take_fds()
                if not fds:
                    self._refuse_without_descriptors()
                    continue
                self._next = unpack_request(payload, fds), fds
        return self._next is not None

    def _refuse_without_descriptors(self) -> None:
        text = "the descriptors of its request did not arrive: too many files are open"
        failure: Failure = {"stage": "spawn", "number": errno.EMFILE, "text": text}
        self._channel.post(FAILURE, pack(failure))


class _Run:
    """One command."""

    def __init__(
        self, request: Request, fds: list[int], channel: Channel, tree: Tree, *, wake: int | None, buffer: mmap
    ) -> None:
        self._request = request
        self._channel = channel
        self._tree = tree
        self._wake = wake
        self._exit_code: int | None = None
        self._killed = False
        self._detached = False
        self._started = self._ended = 0.0
        self._deadline = _NEVER
        self._outputs: list[Output] = []
        self._input: Input | None = None
        self._cwd = fds.pop(0)
        stdin, self._input = Input.open(fds.pop() if request["has_stdin"] else None)
        self._stdio = [stdin]
        place = SpillPlace(
            request["spill_root"], request["spill_folders"], request["spill_name"], request["spill_json"]
        )
        for suffix, kind in ((".out", CHUNK_OUT), (".err", CHUNK_ERR)):
            reading, writing = os.pipe()
            self._stdio.append(writing)
            self._outputs.append(
                Output(
                    reading,
                    limit=request["output_limit"],
                    spill=Spill(place, suffix, request["spill_limit"]),
                    buffer=buffer,
                    forward=_forward(channel, kind) if request["live"] else None,
                )
            )

    # ---- the way of a command --------------------------------------------------------------------------------------

    def start(self, *, shared: bool) -> bool:
        """Starts the command; returns False, and says why to the environment, if that failed."""
        request = self._request
        forked = shared or bool(request["limits"])
        prepare = (lambda: _prepare(self._cwd if shared else None, request["limits"])) if forked else None
        self._started = time.monotonic()
        if request["timeout"] is not None:
            self._deadline = self._started + request["timeout"]
        stage = "cwd"
        self._tree.reset()
        try:
            if not shared:
                os.fchdir(self._cwd)
            stage = "spawn"
            self._tree.begin(spawn(request["argv"], request["env"], self._stdio, prepare=prepare))
        except CannotRun as problem:
            self._exit_code = problem.exit_code
            self._outputs[1].add(f"{problem.text}\n".encode())
        except OSError as error:
            failure: Failure = {"stage": stage, "number": error.errno or 0, "text": str(error)}
            self._channel.post(FAILURE, pack(failure))
            self.close()
            return False
        finally:
            self._close_start()
            if not shared:
                os.chdir("/")  # pins no folder while it waits
        return True

    def finish(self) -> bool:
        """Follows the command to its end and answers; returns True if nothing of it is left."""
        while self._exit_code is None and not self._abandoned and (left := self._deadline - time.monotonic()) > 0:
            self._step(left)
        timed_out = self._exit_code is None and not self._abandoned
        gone = self._stop() if self._exit_code is None else True
        self._ended = time.monotonic()
        self._settle()
        if self._abandoned and not self._tree.empty:
            gone = self._stop()
        idle = self._tree.empty and not any(output.open for output in self._outputs)
        self._reply(timed_out=timed_out, gone=gone, idle=idle)
        while self._channel.pending and not self._channel.at_end:
            self._step(_LONG)
        if not idle:
            self._look_after(doomed=not gone)
        self.close()
        return idle

    def _stop(self) -> bool:
        """Ends the whole tree; returns False if something of it withstands."""
        self._tree.terminate()
        end = time.monotonic() + GRACE
        while not self._tree.empty and (left := end - time.monotonic()) > 0:
            self._step(left)
        return kill_all(self._tree, KILL_PATIENCE)

    def _settle(self) -> None:
        """Takes what is in the pipes, and for a moment what still comes."""
        owed = sum(output.waiting() for output in self._outputs)
        now = time.monotonic()
        quiet, end = now + _QUIET, now + _DRAIN
        while not self._abandoned and any(output.open for output in self._outputs):
            if self._paused:
                self._step(_LONG)
                now = time.monotonic()
                quiet, end = now + _QUIET, now + _DRAIN
                continue
            now = time.monotonic()
            if owed <= 0 and (now >= end or (now >= quiet and not self._tree.is_busy())):
                return
            left = (quiet if now < quiet else now + _TICK) - now
            taken = self._step(left)
            owed = owed - taken if taken else 0
            if taken:
                quiet = time.monotonic() + _QUIET

    def _reply(self, *, timed_out: bool, gone: bool, idle: bool) -> None:
        stdout, stderr = (self._end_of(output) for output in self._outputs)
        final: Final = {
            "exit_code": 124 if timed_out or self._exit_code is None else self._exit_code,
            "timed_out": timed_out,
            "duration": self._ended - self._started,
            "stdout": stdout,
            "stderr": stderr,
            "limit_hit": None if timed_out else self._limit_hit(),
            "idle": idle,
            "gone": gone,
        }
        self._channel.post(FINAL, pack(final))

    def _end_of(self, output: Output) -> StreamEnd:
        """Takes leave of one stream: what comes later is read away."""
        head, tail = (b"", b"") if self._abandoned else output.shown()
        path = None
        if self._abandoned:
            output.spill.discard()  # nobody will learn its name
        else:
            path = output.spill.keep(output.total)
        output.drop()
        return {"total": output.total, "head": head, "tail": tail, "path": path, "error": output.spill.error}

    def _look_after(self, *, doomed: bool) -> None:
        """Stays for what the command left in the background: reads its output away and collects it."""
        while not self._tree.empty or any(output.open for output in self._outputs):
            if doomed or self._abandoned:
                if kill_all(self._tree, _LAST_PATIENCE) or self._channel.at_end:
                    return
                self._step(1.0)
            else:
                self._step(_LONG)

    def _close_start(self) -> None:
        """Closes what only the start of the command needs."""
        for fd in (self._cwd, *self._stdio):
            if fd >= 0:
                os.close(fd)
        self._cwd, self._stdio = -1, []

    def close(self) -> None:
        """Closes all that is open."""
        self._close_start()
        for end in (*self._outputs, self._input):
            if end is not None:
                end.close()

    # ---- one step --------------------------------------------------------------------------------------------------

    @property
    def _abandoned(self) -> bool:
        """True if the caller wants no result: it cancelled, closed, or is dead."""
        return self._killed or (self._channel.at_end and not self._detached)

    @property
    def _paused(self) -> bool:
        """True while a slow reader of live output holds the command up."""
        return self._channel.pending > _LIVE_BACKLOG and not self._abandoned

    def _step(self, wait: float) -> int:
        """Waits at most `wait` seconds for something to do, and does it; returns the bytes of output it read."""
        before = sum(output.taken for output in self._outputs)
        if self._wake is None and not self._tree.empty:
            wait = min(wait, _TICK)
        poll = select.poll()
        handlers = {}
        for fd, events, handler in self._sources():
            poll.register(fd, events)
            handlers[fd] = handler
        for fd, _events in poll.poll(int(min(wait, _LONG) * 1000) + 1 if wait > 0 else 0):
            handlers[fd]()
        self._take_orders()
        self._tree.reap()
        if self._exit_code is None and self._tree.status is not None:
            code = os.waitstatus_to_exitcode(self._tree.status)
            self._exit_code = 128 - code if code < 0 else code
        return sum(output.taken for output in self._outputs) - before

    def _sources(self) -> Iterator[tuple[int, int, Callable[[], object]]]:
        if not self._channel.at_end:
            events = select.POLLIN | (select.POLLOUT if self._channel.pending else 0)
            yield self._channel.fileno(), events, self._talk
        if self._wake is not None:
            yield self._wake, select.POLLIN, self._clear_wake
        if not self._paused:
            for output in self._outputs:
                if output.open:
                    yield output.fd, select.POLLIN, output.read
        if self._input is not None and self._input.fd >= 0:
            yield self._input.fd, select.POLLOUT, self._input.feed

    def _clear_wake(self) -> None:
        if self._wake is not None:
            os.read(self._wake, 4096)

    def _talk(self) -> None:
        self._channel.flush()
        self._channel.receive()

    def _take_orders(self) -> None:
        inbox = self._channel.inbox
        while inbox and inbox[0][0] != REQUEST:
            kind = inbox.pop(0)[0]
            self._killed = self._killed or kind == KILL
            self._detached = self._detached or kind == DETACH

    def _limit_hit(self) -> str | None:
        """Which limit ended the command or a child whose death its shell passed on."""
        limits = self._request["limits"]
        signals = self._tree.fatal_signals | {(self._exit_code or 0) - 128}
        if "file_size" in limits and signal.SIGXFSZ in signals:
            return "file_size"
        cpu_seconds = limits.get("cpu_seconds", _NEVER)
        # A process that ignores SIGXCPU is killed by SIGKILL, which anybody may have sent: its time tells.
        if signal.SIGXCPU in signals or (signal.SIGKILL in signals and self._tree.cpu_seconds >= cpu_seconds):
            return "cpu_seconds" if "cpu_seconds" in limits else None
        return None


def _forward(channel: Channel, kind: bytes) -> Callable[[bytes], None]:
    return lambda data: channel.post(kind, data)


def _prepare(cwd: int | None, limits: dict[str, int]) -> None:
    """Runs in the forked child, before the program."""
    if cwd is not None:
        os.fchdir(cwd)
    apply_limits(limits)
