"""The values that an environment takes and returns: frozen, without behaviour beyond their own checks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

__all__ = ["ExecutionResult", "FileInfo", "FileKind", "LimitHit", "LineRange", "LineWindow", "OutputChunk"]

FileKind = Literal["file", "directory", "other"]
LimitHit = Literal["cpu_seconds", "file_size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """How a command ended and what it printed. A non-zero exit is a result, not an error."""

    exit_code: int
    """The command's exit status, 0 to 255. 127: no such program. 126: not executable. 128+n: ended by signal n.
    124: timed out; a command may also exit with 124 by itself, so only `timed_out` tells the two apart."""
    stdout: str
    """UTF-8 with replacement. Beyond `output_limit` bytes: head, one marker line, tail (see `stdout_path`)."""
    stderr: str
    """As `stdout`."""
    timed_out: bool = False
    """True if the timeout ended the command; the output so far is kept."""
    duration: float = 0.0
    """Seconds from the start of the command to its end, the grace after a timeout included."""
    stdout_bytes: int = 0
    """Bytes the command wrote to stdout, also those that are only in the spill file or were not kept."""
    stderr_bytes: int = 0
    """As `stdout_bytes`."""
    stdout_path: str | None = None
    """Where the full stream was spilled, usable with `read_file`; None if `stdout` is complete or nothing was kept."""
    stderr_path: str | None = None
    """As `stdout_path`."""
    spill_error: str | None = None
    """Why a spill file is missing or ends early (disk full, spill limit), or None."""
    limit_hit: LimitHit | None = None
    """Which resource limit ended the command, where that can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of a running command's output, in the order in which that stream was written."""

    stream: Literal["stdout", "stderr"]
    data: bytes
    """Non-empty; a character may be cut at either end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """What is at a path."""

    path: str
    """Absolute in the environment's namespace: usable with every method of the same environment."""
    kind: FileKind
    """What the path leads to: `"other"` is a device, a socket, or a link that dangles or leads outside."""
    size: int = 0
    """Bytes; 0 for a directory."""
    modified: datetime | None = None
    """Time of the last change, aware, in UTC; None where the backend has none."""
    version: str | None = None
    """Changes whenever the content does (etag, generation, or time+size+inode); None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    r"""Which lines to read. Lines end at `\n` only; an unterminated tail is a line; an empty file has none.

    Raises:
        TypeError: A number is not an int.
        ValueError: A number is out of its range.
    """

    start: int = 1
    """First line, from 1."""
    end: int | None = None
    """Last line, inclusive; None is the end of the file."""
    start_column: int = 1
    """First character of the first line, from 1, in code points of the decoded text."""
    max_chars: int = 30_000
    """Most characters (code points of raw text, newlines included) to return; at least 1."""
    count_total: bool = True
    """Whether `total_lines` must be exact. False stops reading after the page."""

    def __post_init__(self) -> None:
        for name in ("start", "start_column", "max_chars") + (() if self.end is None else ("end",)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.end is not None and self.end < self.start:
            raise ValueError(f"end ({self.end}) is before start ({self.start})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineWindow:
    """The lines of a `LineRange`, decoded as UTF-8 with replacement."""

    lines: str
    r"""Text of the window, without the newline that ends its last line."""
    first_line: int
    """Number of the first line in the window: `start`, also when the file is shorter."""
    last_line: int
    """Number of the last line of which the window holds something; `first_line - 1` if the window is empty."""
    total_lines: int | None
    """Lines in the file, exact for the version that was read; None if they were not counted."""
    last_line_complete: bool = True
    r"""True if the last line is here to its end and the file has a `\n` after it."""
    truncated: bool = False
    """True if `max_chars` ended the window before its `end`."""
    next_start_line: int | None = None
    """Where the next window starts; None if nothing is left. An unterminated last line is named again, since it may
    still grow."""
    next_start_column: int | None = None
    """The column that goes with `next_start_line`; 1 unless `max_chars` cut a line."""
