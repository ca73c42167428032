"""Bytes in and out of a Daytona sandbox, streamed both ways."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from stead_daytona.errors import refused, translated

if TYPE_CHECKING:
    from daytona import AsyncSandbox

__all__ = ["fetch", "store"]

_CHUNK = 256 << 10


async def fetch(sandbox: "AsyncSandbox", path: str, *, idle: float) -> AsyncGenerator[bytes, None]:
    """Yields a file's bytes.

    Args:
        sandbox: Where it is.
        path: Absolute.
        idle: Seconds without a byte after which the stream is given up.
    """
    # The SDK's own stream is a form with a fixed boundary: a file that holds it arrives cut, and an empty one not at all. The
    # generated client that it is built on gives the bare body, with its length.
    client: Any = getattr(sandbox.fs, "_api_client", None)
    download = getattr(client, "download_file_without_preload_content", None)
    stream = _of_form(sandbox, path, idle) if download is None else _of_body(download, path, idle)
    with translated("read_file", reading=True):
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                if chunk:
                    yield chunk


async def _of_body(download: Any, path: str, idle: float) -> AsyncGenerator[bytes, None]:
    async with asyncio.timeout(idle):
        response = await download(path)
    try:
        if response.status != 200:
            async with asyncio.timeout(idle):
                told = await response.content.read(2000)
            raise refused(response.status, told.decode(errors="replace"), "read_file")
        while True:
            # A limit for each piece: one for the whole would end what is only long.
            async with asyncio.timeout(idle):
                chunk = await response.content.read(_CHUNK)
            if not chunk:
                return
            yield chunk
    finally:
        # Not `release`: the rest of a body that nobody wants is not worth reading.
        response.close()


async def _of_form(sandbox: "AsyncSandbox", path: str, idle: float) -> AsyncGenerator[bytes, None]:
    stream: Any = await sandbox.fs.download_file_stream(path, timeout=math.ceil(idle))
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            yield chunk


async def store(sandbox: "AsyncSandbox", path: str, content: AsyncIterable[bytes], *, idle: float) -> None:
    """Writes a file in place. An async iterable is what the SDK streams; bytes it would hold twice."""
    with translated("write_file"):
        await sandbox.fs.upload_file_stream(content, path, timeout=math.ceil(idle))
