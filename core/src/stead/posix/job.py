"""One command on a machine, from its start to its end."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from stead.errors import EnvironmentLost, SteadError, Unavailable
from stead.posix.answers import raise_status
from stead.posix.calls import Caller, Reply, TookTooLong
from stead.posix.files import PosixFiles
from stead.posix.scripts import NAMES, script
from stead.posix.words import quoted

__all__ = ["CommandOptions", "Job", "Overdue", "Request"]

_LATE = 2.0
"""Seconds after the deadline at which an answer is no longer waited for."""
_STOP_WAIT = 3.0
_STOP_TRIES = 6
_SHORT_TRIES = 4
_IN_VARIABLE = 24 << 10
"""Bytes of a command that travel in a variable; longer ones are sent as a file."""
_PIECE = 256 << 10
"""Bytes of each stream that come with one answer while a command is followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """How an environment runs commands."""

    state_dir: str
    """Where spilled output goes, absolute."""
    envs: Mapping[str, str] = field(default_factory=dict)
    """Variables of every command."""
    output_limit: int = 1 << 20
    """Bytes of each stream that a result holds."""
    spill_limit: int = 8 << 30
    """Bytes of each spill file."""
    lease: float = 120.0
    """Seconds without a question after which a command is ended on the machine: its owner has gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be run, checked."""

    words: list[str]
    cwd: str
    stdin: bytes
    timeout: float | None
    limit: int


class Overdue(Exception):
    """The deadline is past, and the machine has not told how the command ended."""


class Job:
    """A command that runs detached on the machine. Questions about it may be asked again and again."""

    def __init__(self, caller: Caller, files: PosixFiles, request: Request, options: CommandOptions) -> None:
        self._caller, self._files = caller, files
        self._request, self._options = request, options
        self._deadline: float | None = None
        self._asked = 0.0
        self.id = secrets.token_hex(8)
        # A limit that no other command has, and no system sets.
        self._mark = str(10**14 + secrets.randbelow(10**14))
        self.ended = False
        """That its end is known, or not waited for any more."""
        self.pursued = False
        """That it was asked to end."""

    async def start(self, wait: float) -> Reply:
        """Starts the command, and waits some seconds for its end.

        Raises:
            Overdue: No answer came in time.
            SteadError: It could not be started.
        """
        variables = await self._variables()
        if self._request.timeout is not None:
            self._deadline = asyncio.get_running_loop().time() + self._request.timeout
        return await self._ask("start", variables, wait)

    async def wait(self, wait: float) -> Reply:
        """Waits some seconds for its end.

        Raises:
            Overdue: No answer came in time.
            SteadError: The machine or the command is gone.
        """
        return await self._ask("wait", {}, wait)

    async def follow(self, wait: float) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Yields what it printed since the last step, of each stream, until its end.

        Raises:
            Overdue: No answer came in time.
            SteadError: The machine or the command is gone.
        """
        out = err = short = 0
        while True:
            asked = {"OUT": str(out), "ERR": str(err), "PIECE": str(_PIECE)}
            reply = await self._ask("follow", asked, wait)
            (state, out_size, err_size), data = reply.fields(3)
            if len(data) != int(out_size) + int(err_size):
                short += 1
                if short < _SHORT_TRIES:
                    continue
                raise Unavailable("output of the command arrived in part", backend=self._caller.backend)
            short = 0
            if data:
                yield data[: int(out_size)], data[int(out_size) :]
            elif state == "ended":
                return
            out, err = out + int(out_size), err + int(err_size)

    async def renew(self) -> None:
        """Asks for the command whenever nobody else has for a third of its lease, until it ends. What fails is not told."""
        loop, pause = asyncio.get_running_loop(), self._options.lease / 3
        status = "running"
        with contextlib.suppress(SteadError, Overdue):
            while status == "running":
                await asyncio.sleep(max(0.0, self._asked + pause - loop.time()))
                if loop.time() < self._asked + pause:
                    continue
                with contextlib.suppress(Unavailable):
                    status = (await self._ask("wait", {"LIMIT": "0"}, 0.0)).status

    async def stop(self) -> Reply | None:
        """Ends it and all that it started; returns how it ended, where that can be told."""
        asked = {"JOB": self.id, "MARK": self._mark, "LIMIT": str(self._request.limit), "WAIT": "0"}
        with contextlib.suppress(SteadError):
            return await self._caller.call("stop", asked, wait=_STOP_WAIT, tries=_STOP_TRIES)
        return None

    def forget(self, *, folder: bool = True) -> None:
        """Has its files removed by the next call: what it was given, and the folder in which it runs."""
        self._caller.drop(f"up-{self.id}-words", f"up-{self.id}-stdin", *([f"job-{self.id}"] if folder else []))

    async def _ask(self, name: str, more: Mapping[str, str], wait: float) -> Reply:
        asked = {"JOB": self.id, "MARK": self._mark, "LIMIT": str(self._request.limit), **more}
        asked["WAIT"] = str(round(wait * 1000))
        self._asked = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(None if self._deadline is None else self._deadline + _LATE):
                reply = await self._caller.call(name, asked, wait=wait)
        except TimeoutError:
            raise Overdue from None
        except TookTooLong as error:
            if self._deadline is None:
                raise self._unanswered(error) from error
            await asyncio.sleep(self._deadline - asyncio.get_running_loop().time())
            raise Overdue from error
        except Unavailable as error:
            raise self._unanswered(error) from error
        if reply.status == "lost":
            raise EnvironmentLost(
                "what ran the command is gone (killed, or the machine began anew); the command may have run. "
                "The environment goes on",
                backend=self._caller.backend,
                operation="execute",
            )
        if reply.status not in ("running", "ended", "ok"):
            raise_status(reply.status, backend=self._caller.backend, operation="execute", path=self._request.cwd)
        return reply

    def _unanswered(self, error: Unavailable) -> Unavailable:
        return Unavailable(
            f"{error.message}; the command may have run, and is ended",
            backend=self._caller.backend,
            operation="execute",
            retryable=False,
        )

    async def _variables(self) -> dict[str, str]:
        request, options = self._request, self._options
        spill = f"{options.state_dir}/spill/{self.id}"
        words = quoted(request.words)
        variables = {
            "CWD": request.cwd,
            "WORDS": words,
            "WORDS_FILE": "",
            "STDIN": "",
            "TIMEOUT": "" if request.timeout is None else str(max(1, round(request.timeout * 1000))),
            "LEASE": str(round(options.lease * 1000)),
            "SPILL_BLOCKS": str(max(1, options.spill_limit // 512)),
            "SPILL_JSON": json.dumps(spill)[:-1],
            "STATE": options.state_dir,
            "SUPERVISE": script("supervise"),
            "NAMES": " ".join(NAMES),
        }
        if len(words.encode()) > _IN_VARIABLE:
            sent = await self._files.upload(f"{self.id}-words", f"set -- {words}\n".encode())
            variables |= {"WORDS": "", "WORDS_FILE": sent}
        if request.stdin:
            variables["STDIN"] = await self._files.upload(f"{self.id}-stdin", request.stdin)
        return variables
