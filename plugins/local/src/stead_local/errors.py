"""The system's errors as ours: one table."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from stead.errors import (
    AccessDenied,
    FileExists,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    SteadError,
    Unsupported,
)

__all__ = ["BACKEND", "error", "missing", "translated"]

BACKEND = "local"

_KINDS: dict[int, type[SteadError]] = {
    errno.ENOENT: FileMissing,
    errno.EISDIR: IsADirectory,
    errno.ENOTDIR: NotADirectory,
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EROFS: AccessDenied,
    errno.EEXIST: FileExists,
    errno.ELOOP: InvalidPath,
    errno.ENAMETOOLONG: InvalidPath,
    errno.EILSEQ: InvalidPath,
    errno.EAGAIN: Unsupported,  # a file that has no content now and would block: not a regular one
    errno.ENXIO: Unsupported,
}


def error(kind: type[SteadError], message: str, operation: str, path: str) -> SteadError:
    """Builds an error of this backend."""
    return kind(message, backend=BACKEND, operation=operation, path=path)


def missing(operation: str, path: str) -> SteadError:
    """The error for a path at which nothing is."""
    return error(FileMissing, f"not found: {path!r} does not exist", operation, path)


_TEXTS: dict[type[SteadError], str] = {
    FileMissing: "not found: {path!r} does not exist",
    IsADirectory: "{path!r} is a directory",
    NotADirectory: "{path!r} goes through something that is not a directory",
    AccessDenied: "permission denied: {path!r} ({reason})",
    FileExists: "{path!r} exists already",
}


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Turns the system's errors about `path` into ours; the original stays as the cause.

    Raises:
        SteadError: The kind that the table gives, or the root class for what has none (disk full, I/O error).
    """
    try:
        yield
    except SteadError as ours:
        ours.backend = ours.backend or BACKEND
        ours.operation = ours.operation or operation
        raise
    except OSError as cause:
        kind = _KINDS.get(cause.errno or 0, SteadError)
        reason = cause.strerror or str(cause)
        text = _TEXTS.get(kind, "{operation} of {path!r} failed: {reason}")
        raise error(kind, text.format(operation=operation, path=path, reason=reason), operation, path) from cause
