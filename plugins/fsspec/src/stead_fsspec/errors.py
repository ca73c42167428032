"""Errors of stores, and the errors of fsspec filesystems as ours."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from stead.errors import (
    AccessDenied,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    SteadError,
    StreamInterrupted,
    Unavailable,
    Unsupported,
)

__all__ = ["ChecksumMismatch", "Throttled", "cut_short", "translated"]


class Throttled(Unavailable):
    """The service asks to be called less often."""

    retry_after: float = 0.0
    """Seconds after which it wants to be asked again; 0 if it does not say."""


class ChecksumMismatch(StreamInterrupted):
    """The bytes that arrived are not those that were stored: their checksum is another."""


def cut_short(key: str, got: int, size: int) -> StreamInterrupted:
    """The error for a body that ended before its announced length. The rest can be asked for."""
    return StreamInterrupted(
        f"the body of {key!r} ended after {got} of {size} bytes; the connection was cut", retryable=True
    )


_BY_NUMBER: dict[int, type[SteadError]] = {
    errno.ENOENT: FileMissing,
    errno.EISDIR: IsADirectory,
    errno.ENOTDIR: NotADirectory,
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EROFS: AccessDenied,
    errno.ENAMETOOLONG: InvalidPath,
    errno.EBUSY: Throttled,
    errno.ENOSYS: Unsupported,
    errno.ENOTSUP: Unsupported,
}
_BY_CLASS: tuple[tuple[type[Exception], type[SteadError]], ...] = (
    (FileNotFoundError, FileMissing),
    (IsADirectoryError, IsADirectory),
    (NotADirectoryError, NotADirectory),
    (PermissionError, AccessDenied),
    (NotImplementedError, Unsupported),
    (ConnectionError, Unavailable),
    (TimeoutError, Unavailable),
)


@contextmanager
def translated(operation: str, key: str) -> Iterator[None]:
    """Turns what a filesystem raises about `key` into our errors; the original stays as the cause.

    Filesystems raise what their SDKs do. What has no clear meaning becomes the root class, never `FileMissing`.

    Raises:
        SteadError: Always ours, for any `Exception`.
    """
    try:
        yield
    except SteadError:
        raise
    except Exception as cause:
        kind = _kind(cause)
        raise kind(f"{operation} of {key!r} failed: {type(cause).__name__}: {cause}") from cause


def _kind(cause: Exception) -> type[SteadError]:
    for theirs, ours in _BY_CLASS:
        if isinstance(cause, theirs):
            return ours
    if isinstance(cause, OSError) and cause.errno in _BY_NUMBER:
        return _BY_NUMBER[cause.errno]
    # gcsfs raises a plain OSError for 403, and HTTP filesystems carry the number as `status` or `code`.
    status = getattr(cause, "status", None) or getattr(cause, "code", None)
    if status in (401, 403) or (isinstance(cause, OSError) and str(cause).startswith("Forbidden")):
        return AccessDenied
    if status in (429, 503):
        return Throttled
    if isinstance(status, int) and status >= 500:
        return Unavailable
    return SteadError
