"""The streams of a command: what is shown of its output, and what feeds its input."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stead_local.keeper.spill import Spill

__all__ = ["Input", "Output", "new_buffer"]

_PIECE = 1 << 20
"""Most bytes of one read, and of a pipe."""
_LIVE_PIECE = 256 << 10
"""Bytes of the pipe of a stream that is forwarded: they wait in memory at both ends for a slow reader."""
_FEED = 64 << 10
"""Most bytes of one write to stdin."""
_HEAVY = 1 << 20
"""A stream that has written this much gets a larger pipe: the system allows a user only some of those."""


class Output:
    """One stream of a command: read from its pipe, kept in part, spilled in full past the limit.

    Args:
        fd: The reading end of the pipe; closed at its end.
        limit: Most bytes to keep in memory and show.
        spill: Takes the whole stream once it is longer.
        buffer: Scratch space for one read, shared by the streams of a keeper.
        forward: Called with each piece, or None.
    """

    def __init__(
        self, fd: int, *, limit: int, spill: Spill, buffer: mmap, forward: Callable[[bytes], None] | None
    ) -> None:
        self.fd = fd
        self.total = 0
        """Bytes that the command wrote."""
        self.taken = 0
        """Bytes read from the pipe, also those thrown away."""
        self.spill = spill
        self._limit = limit
        self._forward = forward
        self._head_size = limit // 2
        self._tail_size = limit - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._dropping = False
        self._buffer = buffer
        os.set_blocking(fd, False)

    @property
    def open(self) -> bool:
        """True until the end of the pipe was read."""
        return self.fd >= 0

    @property
    def cut(self) -> bool:
        """True if the stream is longer than the limit."""
        return self.total > self._limit

    def shown(self) -> tuple[bytes, bytes]:
        """Returns head and tail; the tail is empty unless the stream was cut."""
        if not self.cut:
            return bytes(self._head), b""
        return bytes(self._head), bytes(self._tail[len(self._tail) - self._tail_size :])

    def waiting(self) -> int:
        """Bytes that are in the pipe now."""
        if not self.open:
            return 0
        (size,) = struct.unpack("i", fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)))
        return int(size)

    def read(self) -> None:
        """Takes one piece from the pipe if one is there; closes it at its end."""
        try:
            size = os.readv(self.fd, [self._buffer])
        except (BlockingIOError, InterruptedError):
            return
        if size == 0:
            self.close()
            return
        self.taken += size
        if not self._dropping:
            with memoryview(self._buffer) as view:
                self._take(view[:size])

    def add(self, text: bytes) -> None:
        """Adds text of our own, as if the command had written it."""
        self._take(memoryview(text))

    def _take(self, data: memoryview) -> None:
        was = self.total
        self.total += len(data)
        if was <= _HEAVY < self.total:
            _enlarge_pipe(self.fd, _PIECE if self._forward is None else _LIVE_PIECE)
        if self._forward is not None:
            self._forward(bytes(data))
        if not self.cut:
            self._head += data
            return
        if was <= self._limit:
            self._start_cutting()
        self.spill.write(data)
        # The piece that crosses the limit may be the first one: its beginning belongs to the head.
        missing = self._head_size - len(self._head)
        self._head += data[:missing]
        self._add_to_tail(data[missing:])

    def _start_cutting(self) -> None:
        kept = memoryview(bytes(self._head))
        self.spill.write(kept)
        del self._head[self._head_size :]
        self._add_to_tail(kept[self._head_size :])

    def _add_to_tail(self, data: memoryview) -> None:
        if len(data) >= self._tail_size:
            self._tail[:] = data[len(data) - self._tail_size :]
            return
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    def drop(self) -> None:
        """From here on what comes is read and thrown away: the writer gets no SIGPIPE, and no result gets its text."""
        self._dropping = True
        self._head, self._tail = bytearray(), bytearray()

    def close(self) -> None:
        """Closes the pipe."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Input:
    """Writes a file into the pipe that is the command's stdin, as far as the command reads.

    A pipe, since some programs cannot read another kind of stdin (event loops want one that they can poll).

    Args:
        source: The file; closed at the end.
        fd: The writing end of the pipe; closed at the end.
    """

    def __init__(self, source: int, fd: int) -> None:
        self.fd = fd
        self._source = source
        self._offset = 0
        os.set_blocking(fd, False)

    @classmethod
    def open(cls, source: int | None) -> tuple[int, Input | None]:
        """Opens the command's stdin.

        Args:
            source: What the command can read; None is end of file at once.

        Returns:
            The descriptor for the command, and what feeds it, if anything.
        """
        if source is None:
            return os.open(os.devnull, os.O_RDONLY), None
        reading, writing = os.pipe()
        return reading, cls(source, writing)

    def feed(self) -> None:
        """Writes what fits; closes the pipe at the end of the file or once nobody reads it."""
        piece = os.pread(self._source, _FEED, self._offset)
        if not piece:
            self.close()
            return
        try:
            self._offset += os.write(self.fd, piece)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the command does not want the rest
            self.close()

    def close(self) -> None:
        """Closes both ends that are ours."""
        for fd in (self.fd, self._source):
            if fd >= 0:
                os.close(fd)
        self.fd = self._source = -1


def new_buffer() -> mmap:
    """Scratch space for `Output`: pages that are never touched cost nothing."""
    return mmap(-1, _PIECE, flags=MAP_PRIVATE | MAP_ANONYMOUS)


def _enlarge_pipe(fd: int, size: int) -> None:
    # Only where it pays: a user's larger pipes count against one small allowance (fs.pipe-user-pages-soft).
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
        except OSError:
            return  # the allowance is used up; the pipe works as it is
