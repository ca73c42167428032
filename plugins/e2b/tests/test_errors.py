"""What the SDK raises, as ours: by class, most special first."""

import e2b
import httpx
import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b import exceptions as sdk

from stead.errors import AccessDenied, EnvironmentLost, SteadError, StreamInterrupted, Unavailable
from stead.posix import Throttled, TookTooLong
from stead_e2b.errors import translated

EXPECTED = [
    # Both derive from the SDK's timeout: a sandbox that is gone is no command that took too long.
    (sdk.SandboxNotRunningException("gone"), EnvironmentLost),
    (sdk.SandboxUnreachableException("502"), Unavailable),
    (sdk.SandboxNotFoundException("gone"), EnvironmentLost),
    (e2b.TimeoutException("slow"), TookTooLong),
    (sdk.AuthenticationException("no key"), AccessDenied),
    (sdk.RateLimitException("429"), Throttled),
    (sdk.ServiceBusyException("503"), Throttled),
    (sdk.NotEnoughSpaceException("507"), SteadError),
    (sdk.InvalidArgumentException("400"), SteadError),
    (e2b.SandboxException("500"), Unavailable),
    (httpx.ReadTimeout("slow"), Unavailable),
    (httpx.ConnectError("refused"), Unavailable),
    (ConnectError(Code.UNAVAILABLE, "broke"), Unavailable),
    (TimeoutError(), TookTooLong),
    (OSError("no route"), Unavailable),
    (Exception("Command ended without an end event"), Unavailable),
]


@pytest.mark.parametrize("raised, expected", EXPECTED, ids=lambda value: getattr(value, "__name__", None))
def test_table(raised, expected):
    """Each becomes exactly that kind, with the backend, the operation and the SDK's own error as its cause."""
    with pytest.raises(expected) as caught, translated("execute"):
        raise raised

    assert type(caught.value) is expected
    assert (caught.value.backend, caught.value.operation) == ("e2b", "execute")
    assert caught.value.__cause__ is raised
    assert str(raised) in caught.value.message


@pytest.mark.parametrize("raised", [httpx.ReadError("cut"), httpx.RemoteProtocolError("cut")])
def test_broken_connection(raised):
    """While a body is read it is an interrupted stream, which is resumed; elsewhere the service is not available."""
    for reading, expected in ((True, StreamInterrupted), (False, Unavailable)):
        with pytest.raises(expected), translated("read_file", reading=reading):
            raise raised


def test_every_error_of_the_sdk_is_known():
    """What the SDK may raise about a sandbox is in the table, directly or by its base; nothing comes out as it is."""
    kinds = [kind for kind in vars(sdk).values() if isinstance(kind, type) and issubclass(kind, e2b.SandboxException)]

    assert len(kinds) > 10
    for kind in kinds:
        with pytest.raises(SteadError), translated("execute"):
            raise kind("told")


def test_our_own_and_unknown_errors_pass():
    """An error that is ours already stays as it is, and so does one that is a mistake in a program."""
    for error in (EnvironmentLost("gone"), ZeroDivisionError()):
        with pytest.raises(type(error)) as caught, translated("execute"):
            raise error
        assert caught.value is error
