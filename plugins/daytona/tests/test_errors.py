"""What the SDK raises, as ours: by class, and by status where it has no class."""

import aiohttp
import daytona as sdk
import httpx
import pytest

from stead.errors import AccessDenied, EnvironmentLost, SteadError, StreamInterrupted, Unavailable
from stead.posix import Throttled, TookTooLong
from stead_daytona.errors import refused, translated

EXPECTED = [
    (sdk.DaytonaAuthenticationError("no key"), AccessDenied),
    (sdk.DaytonaError("denied", 403), AccessDenied),
    (sdk.DaytonaNotFoundError("gone", 404), EnvironmentLost),
    (sdk.DaytonaError("404: file not found: /x", 404), Unavailable),
    (sdk.DaytonaError("gone", 410), EnvironmentLost),
    (sdk.DaytonaError("the sandbox is not running", 400), EnvironmentLost),
    (sdk.DaytonaSpotEvictedError("evicted"), EnvironmentLost),
    # It is an error of the connection and a timeout: a connection that was lost is no command that took too long.
    (sdk.DaytonaConnectionTimeoutError("lost"), Unavailable),
    (sdk.DaytonaConnectionError("lost"), Unavailable),
    (sdk.DaytonaTimeoutError("slow"), TookTooLong),
    (sdk.DaytonaError("slow", 408), TookTooLong),
    (sdk.DaytonaRateLimitError("later", 429), Throttled),
    (sdk.DaytonaError("busy", 503), Throttled),
    (sdk.DaytonaError("bad gateway", 502), Unavailable),
    (sdk.DaytonaError("no space left on device", 500), SteadError),
    (sdk.DaytonaError("strange", 418), SteadError),
    (sdk.DaytonaError("strange"), Unavailable),
    (aiohttp.ClientConnectionError("lost"), Unavailable),
    (httpx.ConnectError("refused"), Unavailable),
    (TimeoutError(), TookTooLong),
    (OSError("no route"), Unavailable),
]


@pytest.mark.parametrize("raised, expected", EXPECTED, ids=lambda value: getattr(value, "__name__", None))
def test_table(raised, expected):
    """Each becomes exactly that kind, with the backend, the operation and the SDK's own error as its cause."""
    with pytest.raises(expected) as caught, translated("execute"):
        raise raised

    assert type(caught.value) is expected
    assert (caught.value.backend, caught.value.operation) == ("daytona", "execute")
    assert caught.value.__cause__ is raised
    assert str(raised) in caught.value.message


@pytest.mark.parametrize("raised", [aiohttp.ClientPayloadError("cut"), ConnectionResetError("cut")])
def test_broken_connection(raised):
    """While a body is read it is an interrupted stream, which is resumed; elsewhere the service is not available."""
    for reading, expected in ((True, StreamInterrupted), (False, Unavailable)):
        with pytest.raises(expected), translated("read_file", reading=reading):
            raise raised


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after-long": "7", "Retry-After-short": "2"}, 7.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_told_to_come_back_later(headers, seconds):
    """The longest time that any limit asks for is kept; what is no number is not guessed."""
    with pytest.raises(Throttled) as caught, translated("start"):
        raise sdk.DaytonaRateLimitError("later", 429, headers)

    assert caught.value.seconds == seconds


def test_every_error_of_the_sdk_is_known():
    """What the SDK may raise is in the table, directly, by its base or by its status; nothing comes out as it is."""
    kinds = [
        kind for name in dir(sdk) if isinstance(kind := getattr(sdk, name), type) and issubclass(kind, sdk.DaytonaError)
    ]

    assert len(kinds) > 10
    for kind in kinds:
        with pytest.raises(SteadError), translated("execute"):
            raise kind("told")


def test_refused_answers():
    """An answer without an exception has the same meaning, and its text."""
    assert type(refused(404, "sandbox not found", "read_file")) is EnvironmentLost
    assert type(refused(404, "file not found", "read_file")) is StreamInterrupted
    assert "no such key" in refused(401, "no such key", "read_file").message
