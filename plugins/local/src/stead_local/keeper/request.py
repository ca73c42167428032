"""What goes over the channel: the request for one command, and the answer."""

import json
import os
import struct
from typing import Any, TypedDict

__all__ = [
    "Failure",
    "Final",
    "Job",
    "Request",
    "StreamEnd",
    "pack_failure",
    "pack_final",
    "pack_request",
    "unpack_failure",
    "unpack_final",
]

_LENGTH = struct.Struct("!I")
_PIECE = 1 << 20


class Request(TypedDict):
    """What the environment asks for. Its words follow it: argv, then `NAME=value`, joined by NUL."""

    argc: int
    timeout: float | None
    """Seconds, counted by the keeper: a blocked event loop does not delay it."""
    output_limit: int
    """Bytes of each stream to send back."""
    live: bool
    """Whether output is also sent as it comes."""
    spill_root: str
    spill_folders: list[str]
    spill_name: str
    spill_limit: int
    """Bytes of each spill file."""
    limits: dict[str, int]
    """As `spawn.apply_limits`."""
    fds: list[str]
    """What the attached descriptors are: `cwd`, `stdin` (a file to read), `words` (if too many for the frame)."""


class StreamEnd(TypedDict):
    """How one stream ended."""

    bytes: int
    head: int
    """Bytes of the shown part that follow, before the cut."""
    tail: int
    """Bytes after the cut; 0 if there is none."""
    path: str | None
    error: str | None


class Final(TypedDict):
    """How the command ended. The shown bytes follow it: head and tail of stdout, then of stderr."""

    exit_code: int
    timed_out: bool
    duration: float
    stdout: StreamEnd
    stderr: StreamEnd
    limit_hit: str | None
    idle: bool
    """True if nothing of the command is left, so that the keeper can take another."""
    gone: bool
    """False if something that had to be killed is still there."""


class Failure(TypedDict):
    """Why the command did not start."""

    stage: str
    """`cwd`, `spawn`, or `keeper` (a fault of ours; the command may have run)."""
    number: int
    """The system's error number, or 0."""
    text: str


class Job:
    """A request as a keeper receives it."""

    def __init__(self, payload: bytes, fds: list[int]) -> None:
        head, block = _split(payload)
        self.request: Request = json.loads(head)
        self.fds = dict(zip(self.request["fds"], fds, strict=True))
        """The attached descriptors by name; `close` closes what is left here."""
        words = (_read_all(self.fds["words"]) if "words" in self.fds else block).split(b"\0")
        argc = self.request["argc"]
        self.argv = words[:argc]
        self.env = {name: value for name, _, value in (word.partition(b"=") for word in words[argc:])}

    def close(self) -> None:
        """Closes the descriptors."""
        while self.fds:
            os.close(self.fds.popitem()[1])


def pack_request(request: Request, words: bytes) -> bytes:
    """Joins a request and its words."""
    return _join(request, words)


def pack_final(final: Final) -> bytes:
    """Makes the first part of an answer; the shown bytes follow."""
    return _join(final, b"")


def unpack_final(payload: bytes) -> tuple[Final, bytes]:
    """Splits an answer into how it ended and the shown bytes."""
    head, shown = _split(payload)
    final: Final = json.loads(head)
    return final, shown


def pack_failure(*, stage: str, text: str, number: int = 0) -> bytes:
    """Makes the answer for a command that did not start."""
    return json.dumps(Failure(stage=stage, number=number, text=text)).encode()


def unpack_failure(payload: bytes) -> Failure:
    """Reads why a command did not start."""
    failure: Failure = json.loads(payload)
    return failure


def _join(head: Any, rest: bytes) -> bytes:
    text = json.dumps(head).encode()
    return _LENGTH.pack(len(text)) + text + rest


def _split(payload: bytes) -> tuple[bytes, bytes]:
    (length,) = _LENGTH.unpack_from(payload)
    end = _LENGTH.size + length
    return payload[_LENGTH.size : end], payload[end:]


def _read_all(fd: int) -> bytes:
    data = bytearray()
    while piece := os.pread(fd, _PIECE, len(data)):
        data += piece
    return bytes(data)
