"""A large file in the environment under test, made without holding it in memory."""

from collections.abc import AsyncIterator

from stead.environment import Environment

__all__ = ["large_file"]

_MIB = 1 << 20
_LINE = b"a line of a large file, as long as lines in logs are\n"


async def large_file(env: Environment, path: str, size: int) -> None:
    """Writes a file of exactly `size` bytes.

    Where `write_file` holds the whole content, its memory is returned before a law measures.
    """
    block = (_LINE * (_MIB // len(_LINE) + 1))[:_MIB]

    async def source() -> AsyncIterator[bytes]:
        for start in range(0, size, _MIB):
            yield block[: min(_MIB, size - start)]

    await env.write_file(path, source())
