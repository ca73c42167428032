"""Running a `LineSearch` where a pattern cannot stop the event loop: in a process of its own."""

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from stead.tools import line_search
from stead.tools.line_search import FRAME, FRAME_BYTES, READY, LineSearch

__all__ = ["SLOW_ADVICE", "Matcher", "PatternError"]

# Empty where `sys.executable` is not a Python that runs a script: a frozen or embedded program, a zip file.
_SCRIPT = line_search.__file__ if sys.executable and not getattr(sys, "frozen", False) else ""
_SCRIPT = _SCRIPT if os.path.isfile(_SCRIPT) else ""
# How the process ends if a pattern cannot even be interrupted.
_KILLED = -getattr(signal, "SIGPROF", 0)


SLOW_ADVICE = "Write it without repeats inside of repeats, such as (a+)+, and without several .* in a row."


class PatternError(Exception):
    """The pattern is not valid, or takes too long."""


class _Search(Protocol):
    """Where the search runs."""

    async def send(self, kind: bytes, payload: bytes) -> None: ...

    async def finish(self) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class Matcher:
    """One search over many files. `async with` it, so that its process ends on every way out."""

    def __init__(self, pattern: str, *, ignore_case: bool, keep: int) -> None:
        self._request: dict[str, Any] = {"pattern": pattern, "ignore_case": ignore_case, "keep": keep}

    async def __aenter__(self) -> Self:
        """Starts it.

        Raises:
            PatternError: The pattern is not valid.
        """
        self._search: _Search = await _Process.start(self._request) or _InThread(self._request)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._search.close()

    async def begin(self, file: str) -> None:
        """Starts the next file.

        Raises:
            PatternError: The pattern cannot be interrupted. So do the next two methods.
        """
        await self._search.send(b"F", file.encode("utf-8", "surrogatepass"))

    async def feed(self, data: bytes) -> None:
        """Takes the next bytes of the file."""
        for start in range(0, len(data), FRAME_BYTES):
            await self._search.send(b"D", data[start : start + FRAME_BYTES])

    async def finish(self) -> dict[str, Any]:
        """Returns the answer of the `LineSearch`."""
        return await self._search.finish()


class _Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None  # noqa: S101  (both are pipes)
        assert process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls, request: dict[str, Any]) -> "_Process | None":
        """Starts it; None where this program cannot start a second Python (frozen, embedded, no processes)."""
        if not _SCRIPT:
            return None
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", _SCRIPT, stdin=pipe, stdout=pipe, stderr=null
            )
        except (OSError, NotImplementedError):
            return None
        search, greeted = cls(process), False
        try:
            greeted = await search._greet(request)
        finally:
            if not greeted:
                await search.close()
        return search if greeted else None

    async def _greet(self, request: dict[str, Any]) -> bool:
        self._stdin.write(_frame(b"P", json.dumps(request).encode()))
        answer = await self._stdout.read(1)
        if answer and answer != READY:
            raise _pattern_error(json.loads(answer + await self._stdout.read())["error"])
        if not answer and await self._process.wait() == _KILLED:
            raise _too_slow()
        return answer == READY

    async def send(self, kind: bytes, payload: bytes) -> None:
        self._stdin.write(_frame(kind, payload))
        try:
            await self._stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._ended() from None

    async def finish(self) -> dict[str, Any]:
        self._stdin.close()
        text = await self._stdout.read()
        if not text:
            raise await self._ended()
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def _ended(self) -> Exception:
        code = await self._process.wait()
        return _too_slow() if code == _KILLED else RuntimeError(f"the search process ended with {code}")

    async def close(self) -> None:
        # At the end of its output it is ending by itself. A signal now would first poll, and so reap it before asyncio's
        # own watcher does, which reports that on stderr (3.11).
        if not self._stdout.at_eof():
            with suppress(ProcessLookupError):
                self._process.kill()
        self._stdin.close()
        await self._stdout.read()
        await self._process.wait()


class _InThread:
    """The last resort: a pattern that never ends then stops the whole program."""

    def __init__(self, request: dict[str, Any]) -> None:
        try:
            self._search = LineSearch(**request)
        except (re.error, RecursionError, OverflowError) as error:
            raise _pattern_error(str(error)) from None

    async def send(self, kind: bytes, payload: bytes) -> None:
        if kind == b"F":
            await asyncio.to_thread(self._search.begin, payload.decode("utf-8", "surrogatepass"))
        else:
            await asyncio.to_thread(self._search.feed, payload)

    async def finish(self) -> dict[str, Any]:
        await asyncio.to_thread(self._search.end)
        return self._search.answer()

    async def close(self) -> None:
        """Nothing is held."""


def _frame(kind: bytes, payload: bytes) -> bytes:
    return FRAME.pack(kind, len(payload)) + payload


def _pattern_error(text: str) -> PatternError:
    return PatternError(f"Not a valid pattern of Python's re: {text}")


def _too_slow() -> PatternError:
    return PatternError(f"The pattern takes too long. {SLOW_ADVICE}")
