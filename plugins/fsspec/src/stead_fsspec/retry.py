"""Repeating what is safe to repeat: a bounded number of times, after pauses that grow and differ."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stead.errors import SteadError
from stead_fsspec.errors import Throttled

__all__ = ["MAX_WAIT", "TRIES", "Retry", "retrying"]

T = TypeVar("T")

TRIES = 5
"""How often something is tried that fails each time: with the pauses between, about three seconds."""
MAX_WAIT = 5.0
"""Seconds that one pause takes at most, also when a service asks for more."""
_FIRST_PAUSE = 0.2


class Retry:
    """Counts failures in a row."""

    def __init__(self) -> None:
        self._failures = 0

    def progress(self) -> None:
        """Begins anew: what comes next is another failure, not the same again."""
        self._failures = 0

    async def pause(self, error: SteadError) -> None:
        """Waits before the next try.

        Raises:
            SteadError: `error` itself, if it cannot be retried or was not for the last time.
        """
        self._failures += 1
        if not error.retryable or self._failures >= TRIES:
            raise error
        pause = _FIRST_PAUSE * 2 ** (self._failures - 1) * random.uniform(0.5, 1)  # noqa: S311 - not for secrets
        asked = error.retry_after if isinstance(error, Throttled) else 0.0
        await asyncio.sleep(min(max(pause, asked), MAX_WAIT))


async def retrying(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call until it succeeds, fails for good, or has failed too often.

    Args:
        call: Safe to make again after any retryable error.

    Raises:
        SteadError: The last error.
    """
    retry = Retry()
    while True:
        try:
            return await call()
        except SteadError as error:
            await retry.pause(error)
