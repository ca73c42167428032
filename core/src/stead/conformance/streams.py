"""Small steps with streams that many laws take."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

__all__ = ["collect", "pieces"]


async def collect(stream: AsyncGenerator[bytes, None]) -> bytes:
    """Joins a stream and closes it."""
    async with aclosing(stream) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def pieces(*parts: Any) -> AsyncIterator[bytes]:
    """Yields its arguments, whatever their type: what a write makes of them is the question."""
    for part in parts:
        yield part
