"""Running one step of a law within a time limit, whatever it does."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["LawHung", "run_limited"]

_BLOCKED_SECONDS = 3.0


class LawHung(Exception):
    """A law took longer than its limit."""


def run_limited(runner: asyncio.Runner, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
    """Runs a step on a loop, at most for some seconds.

    Raises:
        LawHung: It took longer, or blocked the loop itself.
    """

    async def limited() -> None:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await step()
        except TimeoutError:
            if limit.expired():
                raise LawHung(f"it did not end within {seconds:g} s") from None
            raise

    with _alarm(seconds + _BLOCKED_SECONDS):
        runner.run(limited())


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Ends what blocks the event loop, which no asyncio timeout can. Works in the main thread of a POSIX system."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise LawHung(f"it blocked the event loop for {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        # Another user of the timer, such as pytest-timeout, gets back what it had.
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler)
