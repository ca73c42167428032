"""Frames over a stream socket, with descriptors: how an environment and its keepers talk.

A frame is one byte of kind, eight of length, and the payload. Both ends are non-blocking.
"""

from __future__ import annotations

import os
import struct

from stead_local.keeper.lean import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CHUNK_ERR",
    "CHUNK_OUT",
    "DETACH",
    "FAILURE",
    "FINAL",
    "KILL",
    "REQUEST",
    "Channel",
    "receive_with_fds",
]

# To a keeper.
REQUEST = b"R"
"""Run a command: `worker.Request` as JSON with argv and variables after it, descriptors attached."""
KILL = b"K"
"""End the running command with everything it started. Harmless when none runs."""
DETACH = b"D"
"""Outlive the environment for as long as something of the command runs."""

# From a keeper.
CHUNK_OUT, CHUNK_ERR = b"o", b"e"
"""A piece of live output."""
FINAL = b"F"
"""How the command ended: JSON, then the shown bytes of both streams."""
FAILURE = b"X"
"""The command did not start: JSON with `errno` and `stage`, or a traceback."""

_HEADER = struct.Struct("!cQ")
_PIECE = 256 << 10
_INT = struct.Struct("i")
_ANCILLARY = socket.CMSG_SPACE(8 * _INT.size) if hasattr(socket, "CMSG_SPACE") else 0
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_NOSIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)


class Channel:
    """One end of the socket: frames in, frames out, neither blocks."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.inbox: list[tuple[bytes, bytes]] = []
        """Complete frames, oldest first: kind and payload."""
        self.pending = 0
        """Bytes that wait to be sent."""
        self.at_end = False
        """True once the other side closed or died."""
        self._partial = bytearray()
        self._fds: list[int] = []
        self._outbox: list[memoryview] = []

    def fileno(self) -> int:
        """The socket's descriptor; -1 once closed."""
        return self.sock.fileno()

    def descriptors(self) -> list[int]:
        """The descriptors that are open here: the socket's, and those that came and were not taken."""
        return [self.fileno(), *self._fds]

    def receive(self) -> None:
        """Takes what has arrived: complete frames go to `inbox`, the end of the connection to `at_end`."""
        try:
            data, fds = receive_with_fds(self.sock, _PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a reset: the other side died with unread data
            data, fds = b"", []
        self._fds += fds
        if not data:
            self.at_end = True
            return
        self._partial += data
        while len(self._partial) >= _HEADER.size:
            kind_byte, length = _HEADER.unpack_from(self._partial)
            end = _HEADER.size + length
            if len(self._partial) < end:
                return
            self.inbox.append((kind_byte, bytes(memoryview(self._partial)[_HEADER.size : end])))
            del self._partial[:end]

    def take_fds(self) -> list[int]:
        """Hands over the descriptors that came with the frames so far; the caller closes them."""
        fds, self._fds = self._fds, []
        return fds

    def send_with_fds(self, kind: bytes, payload: bytes, fds: Sequence[int]) -> None:
        """Sends one frame, of 64 KiB at most and into an idle connection, with descriptors attached.

        Raises:
            OSError: The other side is gone.
        """
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]
        frame = _HEADER.pack(kind, len(payload)) + payload
        sent = self.sock.sendmsg([frame], rights, _NOSIGNAL)
        if sent < len(frame):
            self._queue(frame[sent:])
            self.flush()

    def post(self, kind: bytes, *parts: bytes) -> None:
        """Queues one frame and sends as much as goes without blocking."""
        self._queue(_HEADER.pack(kind, sum(map(len, parts))))
        for part in parts:
            self._queue(part)
        self.flush()

    def _queue(self, part: bytes) -> None:
        if part:
            self._outbox.append(memoryview(part))
            self.pending += len(part)

    def flush(self) -> None:
        """Sends what is queued, as far as it goes. If the other side is gone, forgets it."""
        while self._outbox:
            try:
                sent = self.sock.send(self._outbox[0], _NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._outbox.clear()
                self.pending = 0
                return
            self.pending -= sent
            if sent == len(self._outbox[0]):
                del self._outbox[0]
            else:
                self._outbox[0] = self._outbox[0][sent:]

    def close(self) -> None:
        """Closes the socket and any descriptor that nobody took."""
        for fd in self.take_fds():
            os.close(fd)
        self.sock.close()
        self.at_end = True


def receive_with_fds(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receives at most `size` bytes and what descriptors come with them: none, if some were lost on the way.

    Raises:
        OSError: As `recvmsg`.
    """
    data, ancillary, flags, _address = sock.recvmsg(size, _ANCILLARY, _CLOEXEC)
    fds: list[int] = []
    for level, kind, packed in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            count = len(packed) // _INT.size
            fds += struct.unpack_from(f"{count}i", packed)
    if flags & socket.MSG_CTRUNC:  # this process has as many descriptors as it may
        for fd in fds:
            os.close(fd)
        return data, []
    if not _CLOEXEC:  # macOS cannot set it on arrival
        for fd in fds:
            os.set_inheritable(fd, False)
    return data, fds
