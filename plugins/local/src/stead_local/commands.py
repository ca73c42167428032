"""Commands of the local backend: run by keepers, small processes that end whatever a command started."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, NoReturn

from stead.command_input import check_variables, command_words, output_limit, stdin_bytes, timeout_seconds
from stead.environment import PathLike
from stead.errors import ConfigError, EnvironmentClosed, EnvironmentLost, Unavailable
from stead.paths import check_state_dir
from stead.results import ExecutionResult, OutputChunk
from stead_local.command_options import CommandOptions
from stead_local.command_result import to_result
from stead_local.errors import BACKEND, translated
from stead_local.keeper.channel import CHUNK_ERR, CHUNK_OUT, FAILURE, FINAL
from stead_local.keeper.messages import Failure, Final, Request
from stead_local.keeper.request import pack, unpack
from stead_local.keeper.worker import GRACE, KILL_PATIENCE
from stead_local.keepers import Keeper
from stead_local.limits import Limits
from stead_local.pool import KeeperPool
from stead_local.variables import host_variables
from stead_local.walk import Root

__all__ = ["CommandOptions", "Commands", "Limits"]

_log = logging.getLogger("stead.local")
_CANCEL_PATIENCE = GRACE + 1.0
"""Seconds that a cancelled call waits for the end of its processes; the keeper goes on after that."""
_SILENCE = 30.0
"""Seconds after its deadline at which a keeper that has not answered (someone stopped it) is given up."""
_IN_FRAME = 32 << 10
"""Bytes of a request that travel over the socket; a longer one goes into a file in memory."""
_PIECE = 1 << 20
_STREAMS: dict[bytes, Literal["stdout", "stderr"]] = {CHUNK_OUT: "stdout", CHUNK_ERR: "stderr"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call, checked."""

    argv: list[bytes]
    variables: dict[bytes, bytes]
    cwd: PathLike | None
    stdin: bytes
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
        self._spill_folders = [*_parts_of(state_dir), "spill"]
        self._spill_json = json.dumps("/".join([root.path.rstrip("/"), *self._spill_folders, ""]))[1:-1]
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
        return _Call(
            argv=[_encoded(word) for word in command_words(command, self._options.shell)],
            variables=self._variables(cwd) | {_encoded(k): _encoded(v) for k, v in check_variables(env).items()},
            cwd=cwd,
            stdin=stdin_bytes(stdin),
            timeout=timeout_seconds(timeout),
            output_limit=_output_limit(output_limit, self._options.output_limit),
            live=live,
        )

    def _variables(self, cwd: PathLike | None) -> dict[bytes, bytes]:
        variables = host_variables(inherit=self._options.inherit_env)
        variables.pop(b"OLDPWD", None)
        variables.pop(b"PWD", None)
        logical = self._root.path if cwd is None else os.path.join(self._root.path, cwd)
        if not {"..", ".", ""}.intersection(logical[1:].split("/")):
            # `pwd` then prints the path as the caller spells it, also where a link is on the way.
            variables[b"PWD"] = os.fsencode(logical)
        return variables

    async def _converse(self, call: _Call) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        """Has a keeper run a command: yields its live output, and at last the result."""
        keeper = await self._ask(call)
        ended = False
        try:
            frame = await self._next(keeper, call)
            while frame is not None and frame[0] in _STREAMS:
                yield OutputChunk(stream=_STREAMS[frame[0]], data=frame[1])
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
            fds = [self._open_cwd(call.cwd)]
            opened.callback(os.close, fds[0])
            payload = pack(self._request(call))
            try:
                for data in (call.stdin, payload if len(payload) > _IN_FRAME else None):
                    if data:
                        fds.append(_memory_file())
                        opened.callback(os.close, fds[-1])
                        await _fill(fds[-1], data)
            except OSError as error:
                text = f"the command's input cannot be handed over: {error}"
                raise Unavailable(text, backend=BACKEND, operation="execute") from error
            return await self._pool.ask(payload if len(payload) <= _IN_FRAME else b"", fds)

    def _open_cwd(self, cwd: PathLike | None) -> int:
        if cwd is not None:
            return self._root.open_directory(cwd, "execute")
        with translated("execute", self._root.path):
            return self._root.open()

    def _request(self, call: _Call) -> Request:
        name = secrets.token_hex(8)
        return Request(
            argv=call.argv,
            env=call.variables,
            timeout=call.timeout,
            output_limit=call.output_limit,
            live=call.live,
            spill_root=self._root.path,
            spill_folders=self._spill_folders,
            spill_name=name,
            spill_json=self._spill_json + name,
            spill_limit=self._options.spill_limit,
            limits=self._options.given_limits(),
            has_stdin=bool(call.stdin),
        )

    async def _next(self, keeper: Keeper, call: _Call) -> tuple[bytes, bytes] | None:
        self._check_open()
        if call.timeout is None:
            frame = await keeper.frame()
        else:
            # The keeper owns the deadline; this is for one that cannot, because someone stopped it.
            try:
                async with asyncio.timeout(call.timeout + GRACE + KILL_PATIENCE + _SILENCE):
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

    def _answer(self, keeper: Keeper, frame: tuple[bytes, bytes], call: _Call) -> ExecutionResult:
        """Reads a keeper's last frame and takes the keeper back."""
        kind, payload = frame
        if kind == FAILURE:
            failure: Failure = unpack(payload)
            if _lives_on(failure):
                self._pool.give_back(keeper, idle=True)
            else:
                self._pool.drop(keeper)
            _raise_failure(failure, call)
        final: Final = unpack(payload)
        if not final["gone"]:
            _log.warning("a process of a command withstands its end (another user's?); `close()` tries again")
        self._pool.give_back(keeper, idle=final["idle"])
        return to_result(final)

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


def _encoded(text: str) -> bytes:
    # As the system's own names: bytes that are no UTF-8 travel as surrogates.
    return text.encode("utf-8", "surrogateescape")


async def _idle_at_end(keeper: Keeper) -> bool:
    """Waits for the end of a killed command; returns whether the keeper can take another."""
    while (frame := await keeper.frame()) is not None:
        kind, payload = frame
        if (kind == FINAL and unpack(payload)["idle"]) or (kind == FAILURE and _lives_on(unpack(payload))):
            return True
    return False


def _lives_on(failure: Failure) -> bool:
    return failure["stage"] in ("cwd", "spawn")


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


def _parts_of(state_dir: str) -> tuple[str, ...]:
    try:
        return PurePosixPath(check_state_dir(state_dir)).parts
    except ValueError as error:
        raise ConfigError(f"state_dir {state_dir!r}: {error}", backend=BACKEND) from None


def _raise_failure(failure: Failure, call: _Call) -> NoReturn:
    number, text = failure["number"], failure["text"]
    if failure["stage"] == "keeper":
        raise _lost(f"the process that ran the command failed: {text}")
    if failure["stage"] == "cwd":
        with translated("execute", "." if call.cwd is None else os.fspath(call.cwd)):
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
