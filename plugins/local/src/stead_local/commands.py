"""Commands of the local backend: run by keepers, small processes that end whatever a command started."""

import asyncio
import contextlib
import errno
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, NoReturn

from stead.environment import PathLike
from stead.errors import ConfigError, EnvironmentClosed, EnvironmentLost, Unavailable, Unsupported
from stead.results import ExecutionResult, OutputChunk
from stead_local.command_input import command_argv, command_stdin, command_variables, output_limit, timeout_seconds
from stead_local.command_result import to_result
from stead_local.errors import BACKEND, translated
from stead_local.keeper.channel import CHUNK_ERR, CHUNK_OUT, FAILURE, Frame
from stead_local.keeper.request import Request, pack_request, unpack_failure, unpack_final
from stead_local.keeper.worker import GRACE, KILL_PATIENCE
from stead_local.limits import Limits
from stead_local.pool import Keeper, KeeperPool
from stead_local.variables import host_variables
from stead_local.walk import Root

__all__ = ["CommandOptions", "Commands", "Limits"]

_CANCEL_PATIENCE = GRACE + 1.0
"""Seconds that a cancelled call waits for the end of its processes; the keeper goes on after that."""
_SILENCE = 30.0
"""Seconds after its deadline at which a keeper that has not answered (someone stopped it) is given up."""
_IN_FRAME = 32 << 10
"""Bytes of argv and variables that travel in the request itself; more go into a file in memory."""
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """How an environment runs commands.

    Raises:
        TypeError: A value is of the wrong type.
        ValueError: A value is out of its range.
    """

    shell: str = "/bin/sh"
    """Runs a command that is a `str`, as `shell -c text`. A POSIX shell; no login shell."""
    inherit_env: bool = False
    """Hand all of the host's variables to commands, not only those of `stead_local.variables`."""
    output_limit: int = 1 << 20
    """Bytes of each stream that a result holds."""
    spill_limit: int = 8 << 30
    """Bytes of each spill file."""
    limits: Limits | Mapping[str, int] | None = None
    """Resource limits; a mapping has the field names of `Limits`."""
    on_close: Literal["kill", "keep"] = "kill"
    """What `close()` does with what commands left in the background."""

    def __post_init__(self) -> None:
        output_limit(self.output_limit, 0)
        output_limit(self.spill_limit, 0)
        if not self.shell or "\0" in self.shell:
            raise ValueError(f"{self.shell!r} cannot be a shell")
        if self.on_close not in ("kill", "keep"):
            raise ValueError(f"on_close must be 'kill' or 'keep', not {self.on_close!r}")
        if isinstance(self.limits, Mapping):
            object.__setattr__(self, "limits", Limits(**self.limits))

    def given_limits(self) -> dict[str, int]:
        """Returns the limits that are set, by name."""
        return self.limits.given() if isinstance(self.limits, Limits) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call, checked."""

    argv: list[bytes]
    variables: dict[bytes, bytes]
    cwd: PathLike
    stdin: bytes | None
    timeout: float | None
    output_limit: int
    live: bool


class Commands:
    """Runs the commands of one environment. Its methods belong to one event loop."""

    def __init__(self, root: Root, *, state_dir: str = ".stead", options: CommandOptions | None = None) -> None:
        """Takes the options; touches nothing.

        Args:
            root: Where commands run.
            state_dir: Where spilled output goes, below the root.
            options: How commands run.

        Raises:
            ConfigError: `state_dir` is not below the root.
        """
        self._root = root
        self._options = CommandOptions() if options is None else options
        self._spill_folders = [*_below(root, state_dir), "spill"]
        self._pool = KeeperPool()

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecutionResult:
        """Runs a command to its end; see `Environment.execute`."""
        call = self._call(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit, live=False
        )
        async with aclosing(self._converse(call)) as items:
            async for item in items:
                if isinstance(item, ExecutionResult):
                    return item
        raise AssertionError("a conversation ends with a result or an error")

    async def stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        """Runs a command and yields its output as it comes; see `Environment.execute_stream`."""
        call = self._call(command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit, live=True)
        async with aclosing(self._converse(call)) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        """Ends all running commands, and what was left in the background unless `on_close` is `"keep"`."""
        await self._pool.close(keep=self._options.on_close == "keep")

    # ---- one call --------------------------------------------------------------------------------------------------

    def _call(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None,
        cwd: PathLike | None,
        env: Mapping[str, str] | None,
        stdin: str | bytes | None,
        output_limit: int | None,
        live: bool,
    ) -> _Call:
        _refuse_windows()
        place = "." if cwd is None else cwd
        return _Call(
            argv=command_argv(command, self._options.shell),
            variables=self._variables(place) | command_variables(env),
            cwd=place,
            stdin=command_stdin(stdin),
            timeout=timeout_seconds(timeout),
            output_limit=_output_limit(output_limit, self._options.output_limit),
            live=live,
        )

    def _variables(self, cwd: PathLike) -> dict[bytes, bytes]:
        variables = host_variables(inherit=self._options.inherit_env)
        variables.pop("OLDPWD", None)
        variables.pop("PWD", None)
        logical = PurePosixPath(self._root.path) / cwd
        if ".." not in logical.parts:
            # `pwd` then prints the path as the caller spells it, also where a link is on the way.
            variables["PWD"] = str(logical)
        return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}

    async def _converse(self, call: _Call) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        """Has a keeper run a command: yields its live output, and at last the result."""
        keeper = await self._ask(call)
        ended = False
        try:
            frame = await self._next(keeper, call)
            while frame is not None and frame.kind in (CHUNK_OUT, CHUNK_ERR):
                yield OutputChunk(stream="stdout" if frame.kind == CHUNK_OUT else "stderr", data=frame.payload)
                frame = await self._next(keeper, call)
            retry = frame is None and self._pool.never_served(keeper)
            if frame is not None:
                ended = True
                result = self._answer(keeper, frame, call)
        finally:
            if not ended:
                await self._abort(keeper)
        if retry:
            async with aclosing(self._converse(call)) as items:
                async for item in items:
                    yield item
        elif not ended:
            raise _lost("the process that ran the command was killed")
        else:
            yield result

    async def _ask(self, call: _Call) -> Keeper:
        """Gets a keeper and gives it the command."""
        with contextlib.ExitStack() as opened:
            fds = {"cwd": self._root.open_directory(call.cwd, "execute")}
            opened.callback(os.close, fds["cwd"])
            words = b"\0".join([*call.argv, *(name + b"=" + value for name, value in call.variables.items())])
            for name, data in (("stdin", call.stdin), ("words", words if len(words) > _IN_FRAME else None)):
                if data:
                    fds[name] = _memory_file()
                    opened.callback(os.close, fds[name])
                    await _fill(fds[name], data)
            payload = pack_request(self._request(call, list(fds)), b"" if "words" in fds else words)
            keeper = await self._pool.take()
            try:
                keeper.request(payload, list(fds.values()))
            except OSError as error:
                self._pool.drop(keeper)
                raise Unavailable(f"the keeper is gone: {error}", backend=BACKEND, operation="execute") from error
            return keeper

    def _request(self, call: _Call, fds: list[str]) -> Request:
        return Request(
            argc=len(call.argv),
            timeout=call.timeout,
            output_limit=call.output_limit,
            live=call.live,
            spill_root=self._root.path,
            spill_folders=self._spill_folders,
            spill_name=secrets.token_hex(8),
            spill_limit=self._options.spill_limit,
            limits=self._options.given_limits(),
            fds=fds,
        )

    async def _next(self, keeper: Keeper, call: _Call) -> Frame | None:
        self._check_open()
        # The keeper owns the deadline; this is for one that cannot, because someone stopped it.
        patience = None if call.timeout is None else call.timeout + GRACE + KILL_PATIENCE + _SILENCE
        try:
            async with asyncio.timeout(patience):
                frame = await keeper.frame()
        except TimeoutError:
            raise _lost("the process that runs the command does not answer") from None
        self._check_open()
        return frame

    def _check_open(self) -> None:
        if self._pool.closed:
            raise EnvironmentClosed(
                "the environment was closed while the command ran; its processes were ended",
                backend=BACKEND,
                operation="execute",
            )

    def _answer(self, keeper: Keeper, frame: Frame, call: _Call) -> ExecutionResult:
        """Reads a keeper's last frame and takes the keeper back."""
        if frame.kind == FAILURE:
            failure = unpack_failure(frame.payload)
            self._pool.give_back(keeper, idle=True)
            _raise_failure(failure["stage"], failure["number"], failure["text"], call)
        final, shown = unpack_final(frame.payload)
        self._pool.give_back(keeper, idle=final["idle"])
        return to_result(final, shown)

    async def _abort(self, keeper: Keeper) -> None:
        """Ends a command whose result nobody wants, and waits until it has ended."""
        keeper.kill()
        idle = False
        try:
            idle = bool(await _uninterrupted(_idle_at_end(keeper), _CANCEL_PATIENCE))
        finally:
            if idle:
                self._pool.give_back(keeper, idle=True)
            else:
                self._pool.drop(keeper)


_output_limit = output_limit  # the argument of the same name hides it


async def _idle_at_end(keeper: Keeper) -> bool:
    """Waits for the end of a killed command; returns whether the keeper can take another."""
    while (frame := await keeper.frame()) is not None:
        if frame.kind == FAILURE or (frame.kind not in (CHUNK_OUT, CHUNK_ERR) and unpack_final(frame.payload)[0]["idle"]):
            return True
    return False


async def _uninterrupted(waiting: Coroutine[None, None, bool], limit: float) -> bool | None:
    """Waits for at most `limit` seconds, also if it is cancelled meanwhile.

    Returns:
        What it waited for, or None if that did not come.

    Raises:
        CancelledError: It was cancelled meanwhile.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(waiting)
    end = loop.time() + limit
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        left = end - loop.time()
        if left <= 0:
            task.cancel()
        try:
            await asyncio.wait({task}, timeout=max(left, 0.1))
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled is not None:
        raise cancelled
    return None if task.cancelled() else task.result()


async def _fill(fd: int, data: bytes) -> None:
    """Writes into a file in memory; lets the loop run between pieces."""
    with memoryview(data) as view:
        for start in range(0, len(data), _PIECE):
            piece = view[start : start + _PIECE]
            done = 0
            while done < len(piece):
                done += os.pwrite(fd, piece[done:], start + done)
            await asyncio.sleep(0)


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stead")
    import tempfile

    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


def _below(root: Root, state_dir: str) -> tuple[str, ...]:
    try:
        parts = (PurePosixPath(root.path) / state_dir).relative_to(root.path).parts
    except ValueError:
        parts = ()
    if not parts or ".." in parts:
        raise ConfigError(f"state_dir must be a folder below the root, not {state_dir!r}", backend=BACKEND)
    return parts


def _raise_failure(stage: str, number: int, text: str, call: _Call) -> NoReturn:
    if stage == "keeper":
        raise _lost(f"the process that ran the command failed: {text}")
    if stage == "cwd":
        with translated("execute", os.fspath(call.cwd)):
            raise OSError(number, os.strerror(number))
    if number == errno.E2BIG:
        raise ValueError(
            f"the arguments and variables are too long for this system ({sum(map(len, call.argv))} bytes of arguments, "
            "one at most 128 KiB on Linux); hand the data over by stdin or in a file"
        )
    raise Unavailable(f"the command could not be started: {text}", backend=BACKEND, operation="execute")


def _lost(what: str) -> EnvironmentLost:
    return EnvironmentLost(
        f"{what}; the command may have run. The environment goes on", backend=BACKEND, operation="execute"
    )


def _refuse_windows() -> None:
    if sys.platform == "win32":
        raise Unsupported(
            "the local backend runs no commands on Windows; use WSL or a sandbox backend",
            backend=BACKEND,
            operation="execute",
        )
