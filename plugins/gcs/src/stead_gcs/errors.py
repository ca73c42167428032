"""The service's answers, and the errors of its libraries, as ours: one table."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
from google.auth import exceptions as auth

from stead.errors import (
    AccessDenied,
    ConfigError,
    FileChanged,
    FileMissing,
    SteadError,
    StreamInterrupted,
    Unavailable,
    Unsupported,
)
from stead_fsspec.errors import Throttled

__all__ = ["BucketMissing", "ConditionFailed", "Refusal", "check", "translated"]


class Refusal(Exception):
    """An answer of the service that is no success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class ConditionFailed(FileChanged):
    """The condition of a request did not hold."""


class BucketMissing(ConfigError):
    """The bucket does not exist."""


_STATUSES: dict[int, tuple[type[SteadError], str]] = {
    400: (SteadError, "the service refused the request"),
    401: (AccessDenied, "the service refused the credentials; they are wrong or have expired"),
    403: (AccessDenied, "the service does not allow it; check what these credentials may do"),
    404: (FileMissing, "not found"),
    405: (Unsupported, "the service does not allow that operation"),
    408: (Unavailable, "the request arrived too slowly"),
    410: (FileMissing, "gone"),
    412: (ConditionFailed, "another version is there"),
    429: (Throttled, "the service asks to be called less often"),
    501: (Unsupported, "the service does not know that operation"),
    503: (Throttled, "the service is not available now"),
}
_CLASSES: tuple[tuple[type[Exception], type[SteadError], str], ...] = (
    (auth.DefaultCredentialsError, AccessDenied, "no credentials were found; give `credentials`, or anonymous = true"),
    (auth.TransportError, Unavailable, "the credentials could not be renewed"),
    (auth.RefreshError, AccessDenied, "the credentials could not be renewed"),
    (auth.GoogleAuthError, AccessDenied, "the credentials cannot be used"),
    (aiohttp.InvalidURL, ConfigError, "the endpoint_url cannot be used"),
    (aiohttp.ClientPayloadError, StreamInterrupted, "the connection was cut"),
    (aiohttp.ServerDisconnectedError, Unavailable, "the connection was cut"),
    (aiohttp.ConnectionTimeoutError, Unavailable, "no connection in time; are streams left that are not read to their end?"),
    (aiohttp.ServerTimeoutError, Unavailable, "the service stopped sending"),
    (aiohttp.ClientConnectorError, Unavailable, "the service cannot be reached"),
    (aiohttp.ClientError, Unavailable, "the connection failed"),
    (TimeoutError, Unavailable, "there was no answer in time"),
    (OSError, Unavailable, "the connection failed"),
    (ValueError, ConfigError, "an option cannot be used"),
)  # fmt: skip


def check(status: int, body: bytes, headers: Mapping[str, str], *, bucket: str) -> None:
    """Raises what an answer means that is no success.

    Args:
        status: Of the answer.
        body: Of the answer.
        headers: Of the answer.
        bucket: The bucket it is about.

    Raises:
        SteadError: As the table says; its cause is a `Refusal`.
    """
    if status < 300:
        return
    reason, told = _read(body)
    kind, text = _STATUSES.get(status, (Unavailable if status >= 500 else SteadError, "the service refused it"))
    if status == 403 and "ateLimitExceeded" in reason:
        kind, text = _STATUSES[429]
    if status == 404 and "bucket does not exist" in told:
        kind, text = BucketMissing, f"the bucket {bucket!r} does not exist; make it, or name another"
    error = kind(f"{text} ({status}{': ' + told if told else ''})")
    if isinstance(error, Throttled):
        asked = headers.get("Retry-After", "")
        error.retry_after = float(asked) if asked.isdigit() else 0.0
    raise error from Refusal(status, told)


@contextmanager
def translated(doing: str, bucket: str, key: str = "") -> Iterator[None]:
    """Names in an error what was done, and turns the libraries' errors into ours; the original stays as the cause.

    Args:
        doing: What is done, for the message.
        bucket: The bucket.
        key: The object it is done to.

    Raises:
        SteadError: Always ours, for any `Exception`.
    """
    where = key or bucket
    try:
        yield
    except SteadError as error:
        if isinstance(error.__cause__, Refusal):
            error.message = f"{doing} {where!r}: {error.message}"
            error.args = (error.message,)
        raise
    except Exception as cause:
        for theirs, ours, text in _CLASSES:
            if isinstance(cause, theirs):
                retryable = True if ours is StreamInterrupted else None
                raise ours(f"{doing} {where!r}: {text} ({_told(cause)})", retryable=retryable) from cause
        raise SteadError(f"{doing} {where!r} failed: {_told(cause)}") from cause


def _read(body: bytes) -> tuple[str, str]:
    """Returns the reason and the message of an error, which is JSON or plain text."""
    text = body.decode(errors="replace").strip()
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return "", text[:200]
    if not isinstance(error, dict):
        return "", str(error)[:200]
    details = error.get("errors") or [{}]
    return str(details[0].get("reason", "")), str(error.get("message", ""))[:200]


def _told(cause: Exception) -> str:
    text = str(cause)
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
