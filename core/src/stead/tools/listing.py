"""What ListFiles, Glob and Grep share: how much of a long answer is shown, and how long they look."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from stead.tools.toolkit import Toolkit

__all__ = ["MAX_ENTRIES", "shown_part", "within_time"]

MAX_ENTRIES = 1_000
"""Most files that one answer names."""
_ENTRY_CHARS = 40  # what the JSON around one entry costs, about


async def within_time(kit: Toolkit, work: Awaitable[None]) -> bool:
    """Lets `work` collect for `default_timeout` seconds at most; what it has collected is then the answer.

    Returns:
        True if it came to its end.
    """
    try:
        async with asyncio.timeout(kit.options.default_timeout) as limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    return True


def shown_part(items: list[Any], limit: int, *texts: str) -> list[Any]:
    """The first items of which the named texts fit into `limit` characters: one at least."""
    room = limit
    for count, item in enumerate(items):
        room -= _ENTRY_CHARS + sum(len(item[text]) for text in texts)
        if room < 0:
            return items[: max(count, 1)]
    return items
