"""The SDK's errors as ours: one table."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from stead.errors import (
    AccessDenied,
    ConfigError,
    FileChanged,
    FileMissing,
    InvalidPath,
    SteadError,
    StreamInterrupted,
    Unavailable,
    Unsupported,
)
from stead_fsspec.errors import ChecksumMismatch, Throttled

__all__ = ["BucketMissing", "ConditionFailed", "UploadGone", "code_of", "translated"]


class ConditionFailed(FileChanged):
    """The condition of a request did not hold."""


class UploadGone(FileMissing):
    """There is no such upload: it was finished or aborted."""


class BucketMissing(ConfigError):
    """The bucket does not exist."""


_REFUSED = "the store refused the credentials"
_CODES: dict[str, tuple[type[SteadError], str]] = {
    "NoSuchKey": (FileMissing, "not found"),
    "NoSuchBucket": (BucketMissing, "the bucket {bucket!r} does not exist; make it, or name another"),
    "NoSuchVersion": (FileChanged, "that version is not there any more"),
    "NoSuchUpload": (UploadGone, "the upload is gone"),
    "PreconditionFailed": (ConditionFailed, "another version is there"),
    "InvalidRange": (SteadError, "the range begins after the end"),
    "AccessDenied": (AccessDenied, "the store does not allow it; check what these credentials may do"),
    "AllAccessDisabled": (AccessDenied, "the store does not allow it"),
    "AccountProblem": (AccessDenied, "there is a problem with the account"),
    "InvalidAccessKeyId": (AccessDenied, f"{_REFUSED}: it does not know the access key"),
    "SignatureDoesNotMatch": (AccessDenied, f"{_REFUSED}: the secret key is wrong"),
    "InvalidSecurity": (AccessDenied, _REFUSED),
    "ExpiredToken": (AccessDenied, f"{_REFUSED}: they have expired; get new ones"),
    "ExpiredTokenException": (AccessDenied, f"{_REFUSED}: they have expired; get new ones"),
    "TokenRefreshRequired": (AccessDenied, f"{_REFUSED}: the session token must be renewed"),
    "InvalidToken": (AccessDenied, f"{_REFUSED}: the session token is wrong"),
    "RequestTimeTooSkewed": (AccessDenied, f"{_REFUSED}: the clock of this machine is wrong; set it"),
    "RequestExpired": (AccessDenied, f"{_REFUSED}: the clock of this machine may be wrong"),
    "SlowDown": (Throttled, "the store asks to be called less often"),
    "TooManyRequests": (Throttled, "the store asks to be called less often"),
    "RequestLimitExceeded": (Throttled, "the store asks to be called less often"),
    "ThrottlingException": (Throttled, "the store asks to be called less often"),
    "ServiceUnavailable": (Throttled, "the store is not available now"),
    "ConditionalRequestConflict": (Unavailable, "another write of it is under way"),
    "OperationAborted": (Unavailable, "another operation on it is under way"),
    "RequestTimeout": (Unavailable, "the request arrived too slowly"),
    "BadDigest": (Unavailable, "what arrived at the store was damaged on its way"),
    "XAmzContentSHA256Mismatch": (Unavailable, "what arrived at the store was damaged on its way"),
    "XAmzContentChecksumMismatch": (Unavailable, "what arrived at the store was damaged on its way"),
    "KeyTooLongError": (InvalidPath, "the key is too long"),
    "InvalidBucketName": (ConfigError, "no bucket can be called {bucket!r}"),
    "PermanentRedirect": (ConfigError, "the bucket {bucket!r} is in another region; set `region`"),
    "AuthorizationHeaderMalformed": (ConfigError, "the bucket {bucket!r} is in another region; set `region`"),
    "IllegalLocationConstraintException": (ConfigError, "the bucket {bucket!r} is in another region; set `region`"),
    "NotImplemented": (Unsupported, "the store does not know that operation"),
    "MethodNotAllowed": (Unsupported, "the store does not allow that operation"),
}  # fmt: skip
# A HEAD has no body, so its errors have a number for a code.
_NUMBERS: dict[int, str] = {
    301: "PermanentRedirect",
    401: "AccessDenied",
    403: "AccessDenied",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    412: "PreconditionFailed",
    416: "InvalidRange",
    429: "TooManyRequests",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}
_CLASSES: tuple[tuple[type[Exception], type[SteadError], str], ...] = (
    (sdk.NoCredentialsError, AccessDenied, "no credentials were found; give access_key and secret_key, or anonymous"),
    (sdk.PartialCredentialsError, AccessDenied, "the credentials are not complete"),
    (sdk.CredentialRetrievalError, AccessDenied, "the credentials could not be fetched"),
    (sdk.TokenRetrievalError, AccessDenied, "the sign-on has expired; sign on again"),
    (sdk.UnauthorizedSSOTokenError, AccessDenied, "the sign-on has expired; sign on again"),
    (sdk.ProfileNotFound, ConfigError, "there is no such profile"),
    (sdk.NoRegionError, ConfigError, "the region is not known; set `region`"),
    (sdk.ParamValidationError, ConfigError, "the SDK refused an option"),
    (sdk.FlexibleChecksumError, ChecksumMismatch, "what arrived is not what was stored"),
    (ResponseParserError, Unavailable, "the answer is damaged"),
    (sdk.ConnectTimeoutError, Unavailable, "no connection was made in time"),
    (sdk.ReadTimeoutError, Unavailable, "the store stopped sending"),
    (sdk.EndpointConnectionError, Unavailable, "the store cannot be reached"),
    (sdk.IncompleteReadError, StreamInterrupted, "the connection was cut"),
    (sdk.ResponseStreamingError, StreamInterrupted, "the connection was cut"),
    (aiohttp.ClientPayloadError, StreamInterrupted, "the connection was cut"),
    (sdk.HTTPClientError, Unavailable, "the connection failed"),
    (aiohttp.ClientError, Unavailable, "the connection failed"),
    (TimeoutError, Unavailable, "no connection was free in time; close streams that are not read to their end"),
    (ConnectionError, Unavailable, "the connection failed"),
    (OSError, Unavailable, "the connection failed"),
    (sdk.BotoCoreError, ConfigError, "the SDK refused it"),
    (ValueError, ConfigError, "the SDK refused an option"),
)


def code_of(error: sdk.ClientError) -> str:
    """Returns the store's code for an error, also for one that only has a status."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code in _CODES:
        return code
    status = _status(error)
    return _NUMBERS.get(status, code or str(status))


@contextmanager
def translated(doing: str, bucket: str, key: str = "") -> Iterator[None]:
    """Turns the SDK's errors into ours; the original stays as the cause.

    Args:
        doing: What is done, for the message.
        bucket: The bucket.
        key: The key it is done to.

    Raises:
        SteadError: Always ours, for any `Exception`.
    """
    try:
        yield
    except SteadError:
        raise
    except sdk.ClientError as cause:
        raise _of_code(cause, doing, bucket, key) from cause
    except Exception as cause:
        for theirs, ours, text in _CLASSES:
            if isinstance(cause, theirs):
                retryable = True if ours is StreamInterrupted else None
                raise ours(f"{doing} {key or bucket!r}: {text} ({_told(cause)})", retryable=retryable) from cause
        raise SteadError(f"{doing} {key or bucket!r} failed: {type(cause).__name__}: {cause}") from cause


def _of_code(cause: sdk.ClientError, doing: str, bucket: str, key: str) -> SteadError:
    code, status = code_of(cause), _status(cause)
    kind, text = _CODES.get(code, (Unavailable if status >= 500 else SteadError, "the store refused it"))
    told = cause.response.get("Error", {}).get("Message") or ""
    error = kind(f"{doing} {key or bucket!r}: {text.format(bucket=bucket)} ({code}{': ' + told if told else ''})")
    if isinstance(error, Throttled):
        headers: dict[str, Any] = cause.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        asked = str(headers.get("retry-after", ""))
        error.retry_after = float(asked) if asked.isdigit() else 0.0
    return error


def _status(error: sdk.ClientError) -> int:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status


def _told(cause: Exception) -> str:
    text = str(cause)
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
