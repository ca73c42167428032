"""Running one step of a law within a time limit, and closing its loop, whatever it does."""

import asyncio
import ctypes
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

__all__ = ["LawHung", "close_runner", "run_limited"]

T = TypeVar("T")
_BLOCKED_SECONDS = 3.0
_RING_AGAIN_SECONDS = 1.0
_CANCEL_SECONDS = 2.0


class LawHung(Exception):
    """A law took longer than its limit."""


def run_limited(runner: asyncio.Runner, seconds: float, step: Callable[[], Awaitable[T]]) -> T:
    """Runs a step on a loop, at most for some seconds, and returns what it returned.

    Raises:
        LawHung: It took longer, or blocked the loop itself.
    """

    async def limited() -> T:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await step()
        except TimeoutError:
            if limit.expired():
                raise LawHung(f"it did not end within {seconds:g} s") from None
            raise

    with _alarm(seconds + _BLOCKED_SECONDS):
        return runner.run(limited())


def close_runner(runner: asyncio.Runner) -> bool:
    """Closes a runner and returns True; leaves its loop behind and returns False if a task ignores cancellation."""
    loop = runner.get_loop()

    async def cancel() -> bool:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        return not tasks or not (await asyncio.wait(tasks, timeout=_CANCEL_SECONDS))[1]

    # `Runner.close` waits for every task without a limit.
    if asyncio.all_tasks(loop):
        try:
            ended = run_limited(runner, _CANCEL_SECONDS + 1, cancel)
        except LawHung:
            ended = False
        if not ended:
            # Never collected, even at exit: closing a coroutine that swallows GeneratorExit too would not end.
            for left in (runner, *asyncio.all_tasks(loop)):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))
            return False
    runner.close()
    return True


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Ends what blocks the event loop, which no asyncio timeout can. Works in the main thread of a POSIX system."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise LawHung(f"it blocked the event loop for {seconds:g} s")

    # More than once: code that swallows every exception swallows the first.
    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _RING_AGAIN_SECONDS)
    try:
        yield
    finally:
        # Another user of the timer, such as pytest-timeout, gets back what it had.
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler)
