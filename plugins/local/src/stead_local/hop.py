"""One step off the event loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["hop"]

T = TypeVar("T")


async def hop(function: Callable[[], T], *, stop: threading.Event | None = None) -> T:
    """Runs `function` in a worker thread of the loop.

    When the caller is cancelled, the thread cannot be: so the cancellation is raised only after the function has
    returned, and whatever it opened can be closed by the caller's `finally`.

    Args:
        function: Short, or watching `stop`.
        stop: Set when the caller is cancelled.

    Returns:
        What `function` returns.
    """
    future = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if stop is not None:
            stop.set()
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not report it as lost
        raise
