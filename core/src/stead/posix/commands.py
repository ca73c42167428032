"""Commands on a machine: each runs detached there, watched over, and is asked for until its end is known.

The service's own way to run commands is only used for short questions. So a lost connection loses no command, nothing that
may have run is run again, output that nobody wants to see does not travel, and the deadline is kept where the command is.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import PurePosixPath

from stead.command_input import check_variables, output_limit, stdin_bytes, timeout_seconds
from stead.environment import PathLike
from stead.errors import EnvironmentClosed, EnvironmentLost
from stead.paths import split_path
from stead.posix.calls import Caller, Reply
from stead.posix.command_result import to_result
from stead.posix.files import PosixFiles
from stead.posix.job import CommandOptions, Job, Overdue, Request
from stead.posix.words import LARGEST_NUMBER, machine_words
from stead.results import ExecutionResult, OutputChunk

__all__ = ["CommandOptions", "PosixCommands"]

_WAIT = 20.0
"""Seconds that one question waits for a command to end: less than what proxies allow a request."""
_GIVE_UP_SECONDS = 0.7
_CANCEL_SECONDS = 1.5
"""Seconds that a caller who gave up waits for the end of what it started; it is pursued beyond that."""
_PURSUIT_SECONDS = 30.0


class PosixCommands:
    """Runs the commands of one machine. Its methods belong to one event loop."""

    def __init__(self, caller: Caller, files: PosixFiles, options: CommandOptions) -> None:
        self._caller = caller
        self._files = files
        self._options = options
        self._running: set[Job] = set()
        self._pursuits: set[asyncio.Task[Reply | None]] = set()

    async def run(self, request: Request) -> ExecutionResult:
        """Runs a command to its end; see `Environment.execute`."""
        async with self._watched(request) as job:
            reply: Reply | None
            try:
                reply = await job.start(_WAIT)
                while reply.status == "running":
                    reply = await job.wait(_WAIT)
            except Overdue:
                reply = await self._give_up(job)
            return self._result(job, reply, request.limit)

    async def stream(self, request: Request) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        """Runs a command and yields its output as it comes; see `Environment.execute_stream`."""
        async with self._watched(request) as job:
            reply: Reply | None
            try:
                await job.start(0.0)
                async with _renewed(job), aclosing(job.follow(_WAIT)) as pieces:
                    async for out, err in pieces:
                        if out:
                            yield OutputChunk(stream="stdout", data=out)
                        if err:
                            yield OutputChunk(stream="stderr", data=err)
                reply = await job.wait(_WAIT)
            except Overdue:
                reply = await self._give_up(job)
            yield self._result(job, reply, request.limit)

    async def close(self) -> None:
        """Ends all running commands. What earlier ones left in the background goes on."""
        for job in list(self._running):
            self._pursue(job)
        if self._pursuits:
            await asyncio.wait(self._pursuits, timeout=_PURSUIT_SECONDS)

    def abandon(self) -> None:
        """Gives up all that is still under way: the machine is gone."""
        for task in self._pursuits:
            task.cancel()

    def request(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None,
        cwd: PathLike | None,
        env: Mapping[str, str] | None,
        stdin: str | bytes | None,
        output_limit: int | None,
    ) -> Request:
        """Checks what a caller asks for.

        Raises:
            TypeError: An argument is of the wrong type.
            ValueError: An argument is out of its range.
        """
        variables = {**self._options.envs, **check_variables(env)}
        base = self._caller.place.dir
        return Request(
            words=machine_words(command, self._caller.place.shell, variables),
            cwd=base if cwd is None else str(PurePosixPath(base) / split_path(cwd).text),
            stdin=stdin_bytes(stdin),
            timeout=timeout_seconds(timeout),
            limit=min(_output_limit(output_limit, self._options.output_limit), LARGEST_NUMBER),
        )

    @asynccontextmanager
    async def _watched(self, request: Request) -> AsyncGenerator[Job, None]:
        """Has a command ended whose end its caller does not see."""
        job = Job(self._caller, self._files, request, self._options)
        self._running.add(job)
        try:
            yield job
        finally:
            self._running.discard(job)
            if job.ended and not job.pursued:
                job.forget()
            elif not job.pursued and not self._caller.closed:
                await _uninterrupted(self._pursue(job), _CANCEL_SECONDS)

    def _pursue(self, job: Job) -> asyncio.Task[Reply | None]:
        async def stop() -> Reply | None:
            ended = False
            try:
                async with asyncio.timeout(_PURSUIT_SECONDS):
                    reply = await job.stop()
                ended = reply is not None and reply.status == "ended"
                return reply
            finally:
                # Else its folder stays: by it a start that comes late knows that it must not run.
                job.forget(folder=ended)

        job.pursued = True
        task = asyncio.ensure_future(stop())
        self._pursuits.add(task)
        task.add_done_callback(self._let_go)
        return task

    def _let_go(self, task: asyncio.Task[Reply | None]) -> None:
        self._pursuits.discard(task)
        if not task.cancelled():
            task.exception()  # a machine that does not answer ends the command by itself, at its deadline or its lease

    async def _give_up(self, job: Job) -> Reply | None:
        """Ends a command that is past its deadline; returns what is known of it."""
        task = self._pursue(job)
        job.ended = True
        await asyncio.wait({task}, timeout=_GIVE_UP_SECONDS)
        return task.result() if task.done() and not task.cancelled() and task.exception() is None else None

    def _result(self, job: Job, reply: Reply | None, limit: int) -> ExecutionResult:
        overdue = job.ended
        job.ended = True
        if overdue and (reply is None or reply.status != "ended"):
            return ExecutionResult(
                exit_code=124,
                stdout="",
                stderr="",
                timed_out=True,
                spill_error="the machine did not answer, so the output is not known",
            )
        assert reply is not None  # noqa: S101 - only giving up goes without one
        result, how = to_result(reply, limit, timed_out=overdue)
        if how == "abandoned":
            raise EnvironmentLost(
                f"the command was ended, since nobody asked for it for {self._options.lease:g} s",
                backend=self._caller.backend,
                operation="execute",
            )
        if how == "stopped" and not overdue:
            raise EnvironmentClosed("the environment was closed while the command ran", backend=self._caller.backend)
        return result


_output_limit = output_limit  # the argument of the same name hides it


@asynccontextmanager
async def _renewed(job: Job) -> AsyncGenerator[None, None]:
    """Has a command asked for while its caller takes its time between two pieces of output: the caller lives."""
    task = asyncio.ensure_future(job.renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _uninterrupted(task: asyncio.Task[Reply | None], limit: float) -> None:
    """Waits for at most `limit` seconds, also if it is cancelled meanwhile.

    Raises:
        CancelledError: It was cancelled meanwhile.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < end:
        try:
            await asyncio.wait({task}, timeout=max(0.0, end - loop.time()))
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled is not None:
        raise cancelled
