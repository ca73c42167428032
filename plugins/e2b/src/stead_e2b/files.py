"""Bytes in and out of an E2B sandbox, streamed both ways."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TYPE_CHECKING

from stead.errors import Unavailable
from stead_e2b.errors import BACKEND, translated

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["fetch", "store"]

_LEAVE_SECONDS = 2.0


async def fetch(sandbox: "AsyncSandbox", path: str, *, idle: float) -> AsyncGenerator[bytes, None]:
    """Yields a file's bytes.

    Args:
        sandbox: Where it is.
        path: Absolute.
        idle: Seconds without a byte after which the stream is given up.
    """
    with translated("read_file", reading=True):
        reader = await sandbox.files.read(path, format="stream", stream_idle_timeout=idle)
        try:
            async for chunk in reader:
                if chunk:
                    yield bytes(chunk)
        finally:
            # Nothing else does: a reader that is left holds its connection.
            await reader.aclose()


async def store(sandbox: "AsyncSandbox", path: str, content: AsyncIterable[bytes], *, idle: float) -> None:
    """Writes a file in place. An async iterable is what the SDK streams; bytes it would hold twice.

    Args:
        sandbox: Where it goes.
        path: Absolute.
        content: Its pieces.
        idle: Seconds without a piece being taken, or without an answer after the last, until it is given up: the SDK itself
            would wait for ever.
    """
    pieces, producing = 0, False

    async def counted() -> AsyncGenerator[bytes, None]:
        nonlocal pieces, producing
        producing = True
        async for piece in content:
            pieces, producing = pieces + 1, False
            yield piece
            producing = True
        producing = False

    task = asyncio.ensure_future(_write(sandbox, path, counted()))
    try:
        while not task.done():
            before = pieces
            await asyncio.wait({task}, timeout=idle)
            # A producer may take its time; that is not the service's silence.
            if not task.done() and pieces == before and not producing:
                raise Unavailable(f"E2B took nothing for {idle:g} s", backend=BACKEND, operation="write_file")
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_LEAVE_SECONDS)


async def _write(sandbox: "AsyncSandbox", path: str, content: AsyncIterable[bytes]) -> None:
    with translated("write_file"):
        await sandbox.files.write(path, content)
