"""The SDK's errors as ours: one table.

Order matters: the SDK derives "the sandbox is gone" and "it cannot be reached" from its timeout error, and what happens to a
connection arrives as the transports' own errors.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from stead.errors import AccessDenied, EnvironmentLost, SteadError, StreamInterrupted, Unavailable
from stead.posix import Throttled, TookTooLong

__all__ = ["BACKEND", "translated"]

BACKEND = "e2b"
Table = tuple[tuple[type[BaseException], type[SteadError], str], ...]


@cache
def _table() -> Table:
    import e2b
    import httpx
    from connectrpc.errors import ConnectError
    from e2b import exceptions as sdk

    return (
        (sdk.SandboxNotRunningException, EnvironmentLost, "the sandbox was killed, paused or reached its timeout"),
        (sdk.SandboxNotFoundException, EnvironmentLost, "the sandbox does not exist"),
        (sdk.GuestUnresponsiveException, EnvironmentLost, "the paused sandbox cannot be resumed"),
        (sdk.SandboxUnreachableException, Unavailable, "the sandbox cannot be reached"),
        (sdk.AuthenticationException, AccessDenied, "E2B refused the API key"),
        (sdk.RateLimitException, Throttled, "E2B asks to come back later"),
        (sdk.ServiceBusyException, Throttled, "E2B is busy"),
        (sdk.FileNotFoundException, StreamInterrupted, "the file is gone"),
        (sdk.NotEnoughSpaceException, SteadError, "no space is left on the sandbox"),
        (e2b.TimeoutException, TookTooLong, "E2B took too long"),
        (sdk.InvalidArgumentException, SteadError, "E2B refused"),
        (sdk.NotFoundException, SteadError, "E2B found nothing"),
        (e2b.SandboxException, Unavailable, "E2B failed"),
        (httpx.TimeoutException, Unavailable, "E2B gave no answer in time"),
        (httpx.RemoteProtocolError, StreamInterrupted, "the connection to E2B ended early"),
        (httpx.ReadError, StreamInterrupted, "the connection to E2B broke"),
        (httpx.HTTPError, Unavailable, "E2B could not be reached"),
        (ConnectError, Unavailable, "the connection to the sandbox broke"),
        (TimeoutError, TookTooLong, "E2B gave no answer in time"),
        (ssl.SSLError, Unavailable, "E2B could not be reached"),
        (OSError, Unavailable, "E2B could not be reached"),
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
        status = getattr(cause, "status_code", None)
        told = f"{text} ({'HTTP ' + str(status) + ', ' if status else ''}{type(cause).__name__}: {cause})"
        raise kind(told, backend=BACKEND, operation=operation) from cause


def _kind(cause: Exception) -> tuple[type[SteadError], str]:
    for theirs, ours, text in _table():
        if isinstance(cause, theirs):
            return ours, text
    if str(cause) == "Command ended without an end event":
        return Unavailable, "the connection to the sandbox ended early"
    raise cause
