"""One command, from its request to its reply."""

import math
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from mmap import mmap

from stead_local.keeper.channel import CHUNK_ERR, CHUNK_OUT, DETACH, FAILURE, FINAL, KILL, REQUEST, Channel
from stead_local.keeper.request import Final, Job, StreamEnd, pack_failure, pack_final
from stead_local.keeper.spawn import CannotRun, Stdio, apply_limits, spawn
from stead_local.keeper.streams import Input, Output, Spill, SpillPlace, new_buffer
from stead_local.keeper.tree import Tree, kill_all

__all__ = ["GRACE", "KILL_PATIENCE", "serve"]

GRACE = 0.2
"""Seconds between SIGTERM and SIGKILL."""
KILL_PATIENCE = 0.7
"""Seconds of killing after which the caller gets an answer, although something is still there."""
_LAST_PATIENCE = 5.0
"""Seconds of killing after the environment is gone."""
_QUIET = 0.05
_DRAIN = 0.5
"""After the command's own end its pipes are read until they were quiet for `_QUIET` seconds, at most for `_DRAIN`: the
last lines of a `tee` or a process substitution come from children that end a moment later."""
_LIVE_BACKLOG = 256 << 10
"""Bytes of live output that wait for a slow reader before the command's pipes are left to fill up."""
_TICK = 0.01
"""Seconds between two looks at the command where no signal wakes us."""
_LONG = 3600.0
"""Seconds to wait where nothing is due."""

_Source = tuple[int, int, Callable[[], None]]


def serve(channel: Channel, tree: Tree, *, wake: int | None, shared: bool) -> None:
    """Runs commands, one at a time, until the environment is gone or a command leaves something in the background.

    In the latter case it looks after that until the last of it has ended, and takes no other command.

    Args:
        channel: To the environment.
        tree: Follows the processes of a command.
        wake: A descriptor that becomes readable when a child ends, or None.
        shared: Whether this process does other things too: its working directory is then left alone.
    """
    buffer = new_buffer()
    try:
        while _wait_for_request(channel):
            _kind, payload = channel.inbox.popleft()
            job = Job(payload, channel.take_fds())
            try:
                run = _Run(job, channel, tree, wake=wake, buffer=buffer)
                started = run.start(job, shared=shared)
            finally:
                job.close()
            if started and not run.finish():
                break
    except Exception:  # noqa: BLE001 - whatever it is, the environment must hear of it and no process may stay
        kill_all(tree, _LAST_PATIENCE)
        channel.post(FAILURE, pack_failure(stage="keeper", text=traceback.format_exc()))
    finally:
        channel.close()
        buffer.close()


def _wait_for_request(channel: Channel) -> bool:
    """Waits for the next request; returns False at the end of the connection."""
    while True:
        while channel.inbox and channel.inbox[0].kind != REQUEST:
            channel.inbox.popleft()  # a kill that came when its command had ended by itself
        if channel.inbox:
            return True
        if channel.at_end:
            return False
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.poll()
        channel.receive()


class _Run:
    """One command."""

    def __init__(self, job: Job, channel: Channel, tree: Tree, *, wake: int | None, buffer: mmap) -> None:
        request = job.request
        self._channel = channel
        self._tree = tree
        self._wake = wake
        self._live = request["live"]
        self._limits = request["limits"]
        self._exit_code: int | None = None
        self._killed = False
        self._detached = False
        self._input: Input | None = None
        self._started = self._ended = time.monotonic()
        timeout = request["timeout"]
        self._deadline = math.inf if timeout is None else self._started + timeout
        place = SpillPlace(request["spill_root"], request["spill_folders"], request["spill_name"])
        self._outputs: list[Output] = []
        self._pipe_ends: list[int] = []
        for suffix, kind in ((".out", CHUNK_OUT), (".err", CHUNK_ERR)):
            reading, writing = os.pipe()
            self._pipe_ends.append(writing)
            self._outputs.append(
                Output(
                    reading,
                    limit=request["output_limit"],
                    spill=Spill(place, suffix, request["spill_limit"]),
                    buffer=buffer,
                    forward=partial(channel.post, kind) if self._live else None,
                )
            )

    # ---- the way of a command --------------------------------------------------------------------------------------

    def start(self, job: Job, *, shared: bool) -> bool:
        """Starts the command; returns False, and says why to the environment, if that failed."""
        cwd = job.fds["cwd"]
        prepare = partial(_prepare, cwd if shared else None, self._limits) if shared or self._limits else None
        stdin = self._open_stdin(job)
        try:
            if not shared:
                os.fchdir(cwd)
            pid = spawn(job.argv, job.env, Stdio(stdin, *self._pipe_ends), prepare=prepare)
            self._tree.begin(pid)
        except CannotRun as problem:
            self._exit_code = problem.exit_code
            self._outputs[1].add(f"{problem.text}\n".encode())
        except OSError as error:
            stage = "cwd" if error.filename == cwd else "spawn"
            self._channel.post(FAILURE, pack_failure(stage=stage, text=str(error), number=error.errno or 0))
            self._close()
            return False
        finally:
            for fd in (stdin, *self._pipe_ends):
                os.close(fd)
            if not shared:
                os.chdir("/")  # pins no folder while it waits
        return True

    def _open_stdin(self, job: Job) -> int:
        source = job.fds.pop("stdin", None)
        if source is None:
            return os.open(os.devnull, os.O_RDONLY)
        reading, writing = os.pipe()
        self._input = Input(source, writing)
        return reading

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
        self._close()
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
            left = min(quiet, end) - time.monotonic()
            if left <= 0 and owed <= 0:
                return
            taken = self._step(max(left, 0))
            owed = owed - taken if taken else 0
            if taken:
                quiet = time.monotonic() + _QUIET

    def _reply(self, *, timed_out: bool, gone: bool, idle: bool) -> None:
        ends: list[StreamEnd] = []
        shown: list[bytes] = []
        for name, output in zip(("stdout", "stderr"), self._outputs, strict=True):
            head, tail = (b"", b"") if self._abandoned else output.shown()
            shown += [head, tail]
            path = None
            if self._abandoned:
                output.spill.discard()
            else:
                path = output.spill.keep(stream=name, total=output.total)
            ends.append(
                StreamEnd(bytes=output.total, head=len(head), tail=len(tail), path=path, error=output.spill.error)
            )
            output.drop()
        final = Final(
            exit_code=124 if timed_out or self._exit_code is None else self._exit_code,
            timed_out=timed_out,
            duration=self._ended - self._started,
            stdout=ends[0],
            stderr=ends[1],
            limit_hit=None if timed_out else self._limit_hit(),
            idle=idle,
            gone=gone,
        )
        self._channel.post(FINAL, pack_final(final), *shown)

    def _look_after(self, *, doomed: bool) -> None:
        """Stays for what the command left in the background: reads its output away and collects it."""
        while not self._tree.empty or any(output.open for output in self._outputs):
            if doomed or self._abandoned:
                if kill_all(self._tree, _LAST_PATIENCE) or self._channel.at_end:
                    return
                self._step(1.0)
            else:
                self._step(_LONG)

    def _close(self) -> None:
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
        for fd, _events in poll.poll(math.ceil(min(wait, _LONG) * 1000)):
            handlers[fd]()
        self._take_orders()
        self._tree.reap()
        if self._exit_code is None and self._tree.status is not None:
            code = os.waitstatus_to_exitcode(self._tree.status)
            self._exit_code = 128 - code if code < 0 else code
        return sum(output.taken for output in self._outputs) - before

    def _sources(self) -> Iterator[_Source]:
        if not self._channel.at_end:
            events = select.POLLIN | (select.POLLOUT if self._channel.pending else 0)
            yield self._channel.fileno(), events, self._talk
        if self._wake is not None:
            yield self._wake, select.POLLIN, partial(os.read, self._wake, 4096)
        if not self._paused:
            for output in self._outputs:
                if output.open:
                    yield output.fd, select.POLLIN, output.read
        if self._input is not None and self._input.open:
            yield self._input.fd, select.POLLOUT, self._input.feed

    def _talk(self) -> None:
        self._channel.flush()
        self._channel.receive()

    def _take_orders(self) -> None:
        inbox = self._channel.inbox
        while inbox and inbox[0].kind != REQUEST:
            kind = inbox.popleft().kind
            self._killed = self._killed or kind == KILL
            self._detached = self._detached or kind == DETACH

    def _limit_hit(self) -> str | None:
        """Which limit ended the command or a child whose death its shell passed on."""
        signals = self._tree.fatal_signals | {(self._exit_code or 0) - 128}
        if "file_size" in self._limits and signal.SIGXFSZ in signals:
            return "file_size"
        cpu_seconds = self._limits.get("cpu_seconds", math.inf)
        # A process that ignores SIGXCPU is killed by SIGKILL, which anybody may have sent: its time tells.
        if signal.SIGXCPU in signals or (signal.SIGKILL in signals and self._tree.cpu_seconds >= cpu_seconds):
            return "cpu_seconds" if "cpu_seconds" in self._limits else None
        return None


def _prepare(cwd: int | None, limits: dict[str, int]) -> None:
    """Runs in the forked child, before the program."""
    if cwd is not None:
        os.fchdir(cwd)
    apply_limits(limits)
