"""Running one script on a machine: its answer found among whatever else was printed, and asked for again if it is lost."""

import asyncio
import base64
import binascii
import contextlib
import random
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from stead.errors import EnvironmentClosed, EnvironmentLost, FileMissing, SteadError, StreamInterrupted, Unavailable
from stead.posix.machine import Machine
from stead.posix.scripts import script

__all__ = ["Caller", "Place", "Reply", "Throttled", "TookTooLong", "pause_before"]

T = TypeVar("T")
_TRIES = 4
_PATIENCE = 30.0
"""Seconds beyond what a script itself may take."""
_LONGEST_PAUSE = 30.0
_DROPS = 40
_CLEAN_SECONDS = 5.0


class Throttled(Unavailable):
    """The service asked to come back later, and perhaps said when."""

    seconds: float | None = None
    """How long it asked to be left alone."""


class TookTooLong(Unavailable):
    """The service itself ended a question that took longer than it allows."""


class Reply(NamedTuple):
    """A script's answer."""

    status: str
    data: bytes

    def fields(self, count: int) -> tuple[list[str], bytes]:
        """Splits off leading fields, each ended by NUL.

        Raises:
            Unavailable: There are not that many.
        """
        *fields, rest = self.data.split(b"\0", count)
        if len(fields) != count:
            raise Unavailable("the machine sent an answer with parts missing")
        return [field.decode("utf-8", "surrogateescape") for field in fields], rest


@dataclass(slots=True)
class Place:
    """Where scripts work on a machine; known once it was asked."""

    dir: str = ""
    root: str = "/"
    scratch: str = ""
    shell: str = "/bin/sh"


class Caller:
    """Runs scripts on one machine. Every script may be run again: what it did the first time it finds done."""

    def __init__(self, machine: Machine, backend: str) -> None:
        self.machine = machine
        self.backend = backend
        self.place = Place()
        self._drops: list[str] = []
        self._closed = asyncio.Event()
        self._lost: str | None = None

    def close(self, lost: str | None = None) -> None:
        """Ends all calls with `EnvironmentClosed`, the running ones too; with `EnvironmentLost` if something is `lost`."""
        self._lost = lost
        self._closed.set()

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed.is_set()

    def drop(self, *names: str) -> None:
        """Has files of ours removed by the next call. Names are made here and plain."""
        self._drops += names

    async def clean(self) -> None:
        """Removes what the next calls would, as far as the machine answers within some seconds."""
        with contextlib.suppress(SteadError, TimeoutError):
            async with asyncio.timeout(_CLEAN_SECONDS):
                while self._drops:
                    await self.call("clean", {}, tries=1)

    def path(self, name: str) -> str:
        """Returns where a file of ours lies on the machine."""
        return f"{self.place.scratch}/{name}"

    async def call(self, name: str, variables: Mapping[str, str], *, wait: float = 0.0, tries: int = _TRIES) -> Reply:
        """Runs a script until its answer has come.

        Args:
            name: Which script.
            variables: What it works on, by names without `STEAD_`.
            wait: Seconds that it may wait for something by itself.
            tries: How often it is run at most.

        Raises:
            Unavailable: No answer came, each time.
            EnvironmentLost: The machine is gone.
            AccessDenied: The service refused.
            EnvironmentClosed: `close()` was called.
        """
        for attempt in range(1, tries + 1):
            try:
                return await self._once(name, {**variables, "AGAIN": "1" if attempt > 1 else ""}, wait)
            except Unavailable as error:
                if attempt == tries or not error.retryable:
                    raise
                await self.unless_closed(asyncio.sleep(pause_before(attempt, error)))
        raise AssertionError("the last try returns or raises")

    async def _once(self, name: str, variables: Mapping[str, str], wait: float) -> Reply:
        mark = secrets.token_hex(8)
        drops, self._drops = self._drops[:_DROPS], self._drops[_DROPS:]
        given = {
            "ID": mark,
            "SCRIPT": script(name),
            "SCRATCH": self.place.scratch,
            "ROOT": self.place.root,
            "DIR": self.place.dir,
            "DROP": " ".join(drops),
            **variables,
        }
        named = {f"STEAD_{key}": value for key, value in given.items()}
        try:
            text = await self.unless_closed(self.machine.run(named, seconds=wait + _PATIENCE))
            reply = _found(text, mark, self.backend)
        except BaseException:
            # What this try may leave behind is wanted by nobody.
            self._drops += [*drops, f"reply-{mark}", f"data-{mark}", f"part-{mark}"]
            raise
        if not reply.status.endswith("-at"):
            return reply
        size, _, path = reply.data.decode().rstrip("\n").partition(" ")
        if path.startswith(f"{self.place.scratch}/reply-"):
            self.drop(path.rpartition("/")[2])
        try:
            async with contextlib.aclosing(self.fetch(path)) as chunks:
                data = b"".join([chunk async for chunk in chunks])
        except (FileMissing, StreamInterrupted) as error:
            raise Unavailable(f"the answer could not be fetched: {error.message}", backend=self.backend) from error
        if len(data) != int(size):
            raise Unavailable(f"an answer of {size} bytes came with {len(data)}", backend=self.backend)
        return Reply(reply.status.removesuffix("-at"), data)

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yields a file of the machine.

        Raises:
            StreamInterrupted: The connection broke in the middle.
            SteadError: As `call`.
        """
        async with contextlib.aclosing(self.machine.fetch(path)) as chunks:
            try:
                async for chunk in chunks:
                    self.check_open()
                    yield chunk
            except SteadError:
                self.check_open()  # what a closing environment breaks is not the service's fault
                raise

    def check_open(self) -> None:
        """Refuses to go on after `close()`.

        Raises:
            EnvironmentClosed: It was called.
            EnvironmentLost: It was called since the machine is gone.
        """
        if self._closed.is_set() and self._lost is not None:
            raise EnvironmentLost(self._lost, backend=self.backend)
        if self._closed.is_set():
            raise EnvironmentClosed("the environment was closed meanwhile", backend=self.backend)

    async def unless_closed(self, awaitable: Awaitable[T]) -> T:
        """Awaits something, and gives it up when the environment closes.

        Raises:
            EnvironmentClosed: It has closed.
        """
        task = asyncio.ensure_future(awaitable)
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({task, closed}, return_when=asyncio.FIRST_COMPLETED)
            self.check_open()
            return task.result()
        finally:
            closed.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # retrieved, so that asyncio does not report it as lost


def pause_before(attempt: int, error: SteadError) -> float:
    """Returns the seconds to wait after a failed try: what the service asked for, else more each time, with jitter."""
    if isinstance(error, Throttled) and error.seconds is not None:
        return min(error.seconds, _LONGEST_PAUSE)
    return 0.2 * 2.0**attempt * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets


def _found(text: str, mark: str, backend: str) -> Reply:
    match = re.search(rf"@{mark} ([a-z-]+) ([bx])([^@]*) @{mark}", text)
    if match is None:
        # Never taken for an empty file or a success: an answer that is not there is a failure of the way to it.
        raise Unavailable("the machine's answer is missing or was mixed with other output", backend=backend)
    try:
        letters = "".join(match[3].split())
        data = base64.b64decode(letters, validate=True) if match[2] == "b" else bytes.fromhex(letters)
    except (binascii.Error, ValueError):
        raise Unavailable("the machine's answer was mixed with other output", backend=backend) from None
    return Reply(match[1], data)
