"""zstd in independent frames of 1 MiB, so that any range of a compressed offload can be read by itself."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from stead.environment import Environment
from stead.errors import ConfigError, StreamInterrupted

__all__ = ["FRAME_SIZE", "SUFFIX", "FrameWriter", "read_frames", "require_zstd"]

FRAME_SIZE = 1 << 20
SUFFIX = ".zst"


def require_zstd() -> Any:
    """The `zstandard` module.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import zstandard
    except ImportError:
        raise ConfigError("compression='zstd' needs zstandard; pip install 'stead[zstd]'") from None
    return zstandard


class FrameWriter:
    """Compresses bytes that come in any pieces.

    Attributes:
        sizes: Compressed size of each frame so far.
    """

    def __init__(self) -> None:
        self._compressor = require_zstd().ZstdCompressor()
        self._pending = bytearray()
        self.sizes: list[int] = []

    def feed(self, data: bytes) -> bytes:
        """The frames that are full now.

        Args:
            data: The next bytes.
        """
        self._pending += data
        out = bytearray()
        while len(self._pending) >= FRAME_SIZE:
            out += self._frame(FRAME_SIZE)
        return bytes(out)

    def finish(self) -> bytes:
        """The last frame; empty if nothing is left."""
        return self._frame(len(self._pending)) if self._pending else b""

    def _frame(self, size: int) -> bytes:
        frame: bytes = self._compressor.compress(bytes(self._pending[:size]))
        del self._pending[:size]
        self.sizes.append(len(frame))
        return frame


async def read_frames(
    env: Environment, path: str, sizes: Sequence[int], *, offset: int = 0, length: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Reads a range of the decompressed bytes; only the frames that hold it are fetched.

    Args:
        env: Where the compressed file is.
        path: The compressed file.
        sizes: Compressed size of each frame.
        offset: First decompressed byte.
        length: Most decompressed bytes; None is to the end.

    Yields:
        Non-empty decompressed bytes, at most one frame at a time.

    Raises:
        StreamInterrupted: The file is not what the record says.
        SteadError: As `Environment.read_file_stream`.
    """
    zstandard = require_zstd()
    first = offset // FRAME_SIZE
    last = len(sizes) if length is None else min(len(sizes), -(-(offset + length) // FRAME_SIZE))
    if first >= last:
        return
    skip, left = offset - first * FRAME_SIZE, length
    start, total = sum(sizes[:first]), sum(sizes[first:last])
    pending = bytearray()
    number = first
    async with aclosing(env.read_file_stream(path, offset=start, length=total)) as chunks:
        async for chunk in chunks:
            pending += chunk
            while number < last and len(pending) >= sizes[number]:
                try:
                    data = zstandard.ZstdDecompressor().decompress(bytes(pending[: sizes[number]]))
                except zstandard.ZstdError as error:
                    raise StreamInterrupted(f"frame {number} of {path!r} is damaged: {error}", path=path) from error
                del pending[: sizes[number]]
                number += 1
                part = data[skip:] if left is None else data[skip : skip + left]
                skip, left = 0, None if left is None else left - len(part)
                if part:
                    yield part
    if number < last:
        raise StreamInterrupted(f"{path!r} ends in frame {number} of {len(sizes)}", path=path)
