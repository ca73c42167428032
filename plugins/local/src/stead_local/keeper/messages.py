"""The fields of what goes over the channel. Keepers use these names only for checking types: `typing` is slow to load."""

from typing import TypedDict

__all__ = ["Failure", "Final", "Request", "StreamEnd"]


class Request(TypedDict):
    """What the environment asks for."""

    argv: list[bytes]
    env: dict[bytes, bytes]
    """All variables of the command."""
    timeout: float | None
    """Seconds, counted by the keeper: a blocked event loop does not delay it."""
    output_limit: int
    """Bytes of each stream to send back."""
    live: bool
    """Whether output is also sent as it comes."""
    spill_root: str
    spill_folders: list[str]
    spill_name: str
    spill_json: str
    """See `streams.SpillPlace`."""
    spill_limit: int
    """Bytes of each spill file."""
    limits: dict[str, int]
    """As `spawn.apply_limits`."""
    has_stdin: bool
    """Whether the second attached descriptor is a file for stdin. The first one is the working directory."""


class StreamEnd(TypedDict):
    """How one stream ended."""

    total: int
    """Bytes that the command wrote."""
    head: bytes
    tail: bytes
    """The shown part before and after the cut; no tail if there is none."""
    path: str | None
    error: str | None


class Final(TypedDict):
    """How the command ended."""

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
    """`cwd`, `spawn`, `fork` (no keeper could be made), or `keeper` (a fault of ours; the command may have run). After
    the last two the keeper is gone."""
    number: int
    """The system's error number, or 0."""
    text: str
