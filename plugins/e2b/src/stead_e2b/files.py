"""Bytes in and out of an E2B sandbox, streamed both ways."""

from collections.abc import AsyncGenerator, AsyncIterable
from typing import TYPE_CHECKING

from stead_e2b.errors import translated

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["fetch", "store"]


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


async def store(sandbox: "AsyncSandbox", path: str, content: AsyncIterable[bytes]) -> None:
    """Writes a file in place. An async iterable is what the SDK streams; bytes it would hold twice."""
    with translated("write_file"):
        await sandbox.files.write(path, content)
