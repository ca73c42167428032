"""The SDK's errors as ours: one table.

Some of the SDK's calls raise by class, some only by status, and what breaks while a body is read arrives as the transport's
own errors. A 404 is the sandbox unless it is a file.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from stead.errors import AccessDenied, EnvironmentLost, SteadError, StreamInterrupted, Unavailable
from stead.posix import Throttled, TookTooLong

__all__ = ["BACKEND", "refused", "translated"]

BACKEND = "daytona"
Table = tuple[tuple[type[BaseException], type[SteadError], str], ...]
_STATUSES: Mapping[int, tuple[type[SteadError], str]] = {
    401: (AccessDenied, "Daytona refused the API key"),
    403: (AccessDenied, "Daytona does not allow it"),
    404: (EnvironmentLost, "the sandbox does not exist"),
    408: (TookTooLong, "Daytona took too long"),
    410: (EnvironmentLost, "the sandbox is gone"),
    429: (Throttled, "Daytona asks to come back later"),
    500: (Unavailable, "Daytona failed"),
    502: (Unavailable, "the daemon in the sandbox gave no answer"),
    503: (Throttled, "Daytona is busy"),
    504: (TookTooLong, "Daytona took too long"),
}
_STOPPED = "not running"


@cache
def _table() -> Table:
    import aiohttp
    import daytona as sdk
    import httpx

    return (
        (sdk.DaytonaFileNotFoundError, StreamInterrupted, "the file is gone"),
        # Raised without a status where there is no key at all.
        (sdk.DaytonaAuthenticationError, AccessDenied, "Daytona refused the API key"),
        (sdk.DaytonaSpotEvictedError, EnvironmentLost, "the sandbox was evicted"),
        # A timeout of the connection is an error of both kinds: a lost connection first.
        (sdk.DaytonaConnectionError, Unavailable, "Daytona could not be reached"),
        (sdk.DaytonaTimeoutError, TookTooLong, "Daytona took too long"),
        (TimeoutError, TookTooLong, "Daytona gave no answer in time"),
        (aiohttp.ClientPayloadError, StreamInterrupted, "the connection to Daytona broke"),
        (aiohttp.ClientError, Unavailable, "Daytona could not be reached"),
        (httpx.TimeoutException, Unavailable, "Daytona gave no answer in time"),
        (httpx.HTTPError, Unavailable, "Daytona could not be reached"),
        (ConnectionError, StreamInterrupted, "the connection to Daytona broke"),
        (OSError, Unavailable, "Daytona could not be reached"),
    )


@contextmanager
def translated(operation: str, *, reading: bool = False) -> Iterator[None]:
    """Turns the SDK's and its transports' errors into ours; the original stays as the cause.

    Args:
        operation: What was tried.
        reading: Whether a body is read: a connection that breaks is then `StreamInterrupted`, else `Unavailable`.

    Raises:
        SteadError: The kind that the table gives.
    """
    try:
        yield
    except SteadError:
        raise
    except Exception as cause:
        kind, text = _kind(cause)
        if kind is StreamInterrupted and not reading:
            kind = Unavailable
        error = kind(f"{text} ({type(cause).__name__}: {cause})", backend=BACKEND, operation=operation)
        if isinstance(error, Throttled):
            error.seconds = _retry_after(getattr(cause, "headers", {}))
        raise error from cause


def refused(status: int, text: str, operation: str) -> SteadError:
    """Makes the error of an answer that is no success, for calls that raise none."""
    kind, told = _of_status(status, text)
    return kind(f"{told} (HTTP {status}: {text[:300]})", backend=BACKEND, operation=operation)


def _kind(cause: Exception) -> tuple[type[SteadError], str]:
    from daytona import DaytonaError

    for theirs, ours, text in _table():
        if isinstance(cause, theirs):
            return ours, text
    if isinstance(cause, DaytonaError):
        return _of_status(cause.status_code or 0, cause.message)
    raise cause


def _of_status(status: int, text: str) -> tuple[type[SteadError], str]:
    if status in (400, 409) and _STOPPED in text:
        return EnvironmentLost, "the sandbox was stopped"
    if "no space left" in text:
        return SteadError, "no space is left on the sandbox"
    if status == 404 and "file not found" in text:
        return StreamInterrupted, "the file is gone"
    return _STATUSES.get(status, (SteadError if 400 <= status < 500 else Unavailable, "Daytona failed"))


def _retry_after(headers: Mapping[str, object]) -> float | None:
    # `Retry-After`, or one for each limit, `Retry-After-{name}`: the longest holds.
    told = [str(value) for name, value in headers.items() if name.lower().startswith("retry-after")]
    seconds = [float(value) for value in told if value.replace(".", "", 1).isdigit()]
    return max(seconds, default=None)
