"""What goes over the channel: the request for one command, and the answer.

Both are plain values in Python's own `marshal` form. The two ends are one program in one version, started by one another,
so nothing foreign is read; and a keeper that was just forked pays for each page that it touches, which rules out `json`.
"""

from __future__ import annotations

import marshal
import os

__all__ = ["pack", "unpack", "unpack_request"]

_PIECE = 1 << 20

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stead_local.keeper.messages import Failure, Final, Request


def pack(message: Request | Final | Failure) -> bytes:
    """Turns a message into bytes."""
    return marshal.dumps(dict(message))


def unpack(payload: bytes) -> Any:
    """Turns the bytes of `pack` into the message."""
    return marshal.loads(payload)  # noqa: S302 - written by our own child or parent, see above


def unpack_request(payload: bytes, fds: list[int]) -> Request:
    """Reads a request; an empty frame says that it is in the last attached descriptor, which is taken and closed."""
    if not payload:
        payload = _read_all(fds[-1])
        os.close(fds.pop())
    request: Request = unpack(payload)
    return request


def _read_all(fd: int) -> bytes:
    data = bytearray()
    while piece := os.pread(fd, _PIECE, len(data)):
        data += piece
    return bytes(data)
