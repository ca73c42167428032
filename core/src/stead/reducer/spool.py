"""A local file that a growing text is written to while it is read from its beginning, in bounded memory."""

import asyncio
import codecs
import hashlib
import os
import tempfile
import threading
from collections.abc import AsyncGenerator
from typing import IO

__all__ = ["Spool"]

_CHUNK = 1 << 18


class Spool:
    """Text of a stream on its way to the store. It is kept until `close`, so a store that fails loses nothing.

    The file is made with the first block; what the disk refuses stays in memory, and `texts` gives it back.

    Attributes:
        size: Bytes so far.
        characters: Characters so far.
        newlines: Line ends so far.
        ends_line: True if the last character is a line end.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        # A read or write that was given up goes on in its thread: the file must not be closed under it.
        self._using = threading.Lock()
        self._closed = False
        self._pending = bytearray()
        self._on_disk = 0
        self._hash = hashlib.sha256()
        self._surrogates = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._grown = asyncio.Event()
        self._ended = False
        self.size = 0
        self.characters = 0
        self.newlines = 0
        self.ends_line = False

    async def write(self, text: str) -> str:
        """Appends text; lone surrogates become U+FFFD, also those that a chunk border had parted from each other.

        Returns:
            What was appended: perhaps one character less or more than `text`.

        Raises:
            OSError: The local disk is full.
        """
        clean = self._clean(text, final=False)
        await self._append(clean)
        return clean

    async def end(self) -> str:
        """Marks the end of the text.

        Returns:
            The last character, if a lone surrogate waited for its other half.

        Raises:
            OSError: The local disk is full.
        """
        rest = self._clean("", final=True)
        try:
            await self._append(rest, flush=True)
        finally:
            self.stop()
        return rest

    def stop(self) -> None:
        """Marks the end as it is, also if the local disk is full."""
        self._ended = True
        self._grown.set()

    @property
    def sha256(self) -> str:
        """Hash of all bytes so far, in hex."""
        return self._hash.hexdigest()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes from the beginning; waits for more until `end` was called."""
        position = 0
        while True:
            self._grown.clear()
            if position < self._on_disk:
                size = min(_CHUNK, self._on_disk - position)
                data = await asyncio.to_thread(self._read, size, position)
                position += len(data)
                yield data
            elif self._ended:
                if self._pending:  # The local disk is full: the rest never got there.
                    yield bytes(self._pending)
                return
            else:
                await self._grown.wait()

    async def texts(self, skip: int) -> AsyncGenerator[str, None]:
        """The text from a character on, in pieces; only after `end`, also if the local disk is full.

        Args:
            skip: Characters to leave out at the beginning.
        """
        decoder = codecs.getincrementaldecoder("utf-8")()
        async for data in self.chunks():
            text = decoder.decode(data)
            part, skip = text[skip:], max(0, skip - len(text))
            if part:
                yield part

    def close(self) -> None:
        """Removes the file. Idempotent."""
        with self._using:
            self._closed = True
            if self._file is not None:
                self._file.close()

    def _clean(self, text: str, *, final: bool) -> str:
        half = self._surrogates.getstate()[0]
        if not half:
            try:
                text.encode()
            except UnicodeEncodeError:
                pass
            else:
                return text
        return self._surrogates.decode(text.encode("utf-16-le", "surrogatepass"), final)

    async def _append(self, text: str, *, flush: bool = False) -> None:
        data = text.encode()
        self._hash.update(data)
        self.size += len(data)
        self.characters += len(text)
        self.newlines += text.count("\n")
        self.ends_line = text.endswith("\n") if text else self.ends_line
        self._pending += data
        if len(self._pending) >= _CHUNK or (flush and self._pending):
            block, self._pending = bytes(self._pending), bytearray()
            try:
                await asyncio.to_thread(self._write, block)
            except BaseException:
                # Cancelled or failed: the next write puts the same bytes at the same place.
                self._pending[:0] = block
                raise
            self._on_disk += len(block)
            self._grown.set()

    def _write(self, block: bytes) -> None:
        with self._using:
            if self._closed:
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="stead-")  # noqa: SIM115 - closed by close()
            position = self._on_disk
            while block:
                done = os.pwrite(self._file.fileno(), block, position)
                block, position = block[done:], position + done

    def _read(self, size: int, position: int) -> bytes:
        with self._using:
            if self._closed or self._file is None:
                raise OSError("the spooled text was given up")
            return os.pread(self._file.fileno(), size, position)
