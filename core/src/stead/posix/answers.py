"""What the scripts say, as values and errors of the contract."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn

from stead.adapt import time_of
from stead.errors import (
    AccessDenied,
    FileChanged,
    FileExists,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    PathOutsideRoot,
    SteadError,
    Unavailable,
    Unsupported,
)
from stead.results import FileInfo, FileKind

__all__ = ["Facts", "file_info", "raise_status"]

_STATUSES: Mapping[str, tuple[type[SteadError], str]] = {
    "missing": (FileMissing, "not found: {path!r} does not exist"),
    "nodir": (FileMissing, "the working directory does not exist any more, so {path!r} means nothing"),
    "dir": (IsADirectory, "{path!r} is a directory, not a file"),
    "file": (NotADirectory, "{path!r} is a file, not a directory"),
    "notdir": (NotADirectory, "{path!r} goes through something that is not a directory"),
    "denied": (AccessDenied, "permission denied: {path!r}"),
    "loop": (InvalidPath, "{path!r} leads through too many links"),
    "outside": (PathOutsideRoot, "the path {path!r} leads outside the root; use a path inside it"),
    "other": (Unsupported, "{path!r} is a FIFO, device or socket; only regular files can be used"),
    "exists": (FileExists, "{path!r} exists already"),
    "changed": (FileChanged, "{path!r} is not that version any more"),
    "full": (SteadError, "there is no room for it on the machine: {path!r}"),
    "unsent": (Unavailable, "what the command was to be given is gone from the machine; it has not run: {path!r}"),
    "short": (Unavailable, "the upload of {path!r} arrived in part; the old content stays"),
}


def raise_status(status: str, *, backend: str, operation: str, path: str) -> NoReturn:
    """Raises what a script's word for a failure means."""
    kind, text = _STATUSES.get(status, (SteadError, "{operation} of {path!r} failed: " + status))
    raise kind(text.format(path=path, operation=operation), backend=backend, operation=operation, path=path)


@dataclass(frozen=True, slots=True)
class Facts:
    """A file as `stat` told it: size, device and inode, time of change, seconds, type, mode bits, owner."""

    text: str
    size: int
    inode: str
    version: str
    """Size, inode and time of change, as the scripts compare them."""
    modified: datetime | None
    kind: FileKind

    @classmethod
    def of(cls, text: str) -> "Facts":
        """Reads one line of the scripts' `facts`.

        Raises:
            Unavailable: It is no such line.
        """
        try:
            size, inode, changed, seconds, mode, _bits, _owner = text.rstrip("\n").split("|")
            fraction = changed.partition(".")[2][:6]
            micros = int(fraction.ljust(6, "0")) if fraction.isdigit() else 0
            modified = time_of(int(seconds))
            modified = modified and modified + timedelta(microseconds=micros)
            kinds: dict[int, FileKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
            kind = kinds.get(stat.S_IFMT(int(mode, 16)), "other")
            return cls(text, int(size), inode, f"{size}|{inode}|{changed}", modified, kind)
        except ValueError:
            raise Unavailable(f"the machine's stat told {text[:200]!r}") from None

    def same_version(self, other: "Facts") -> bool:
        """Says whether size, inode and time are equal."""
        return self.version == other.version

    def grew_from(self, other: "Facts") -> bool:
        """Says whether this is that file with more in it."""
        return self.inode == other.inode and self.size > other.size


def file_info(path: str, facts: Facts) -> FileInfo:
    """Makes the contract's value of it."""
    if facts.kind != "file":
        return FileInfo(path=path, kind=facts.kind, modified=facts.modified)
    return FileInfo(path=path, kind="file", size=facts.size, modified=facts.modified, version=facts.version)
