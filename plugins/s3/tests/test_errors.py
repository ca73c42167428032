"""Each way in which S3 can fail has its one error, soon."""

import asyncio
import pickle
import time

import pytest
from botocore.exceptions import ClientError
from s3_support import BOTH, collect, is_media, refusal, run, source
from servers.process import free_port

from stead.errors import (
    AccessDenied,
    ConfigError,
    FileChanged,
    FileExists,
    FileMissing,
    IsADirectory,
    SteadError,
    Unavailable,
)
from stead_fsspec.errors import Throttled
from stead_s3 import S3Environment


def error_of(options, use):
    with pytest.raises(SteadError) as caught:
        run(options, use)
    return caught.value


@BOTH
def test_missing_key(place):
    """A missing key is FileMissing, with the SDK's error as its cause, by every way of reading."""
    for use in (
        lambda env: env.read_file("nothing"),
        lambda env: collect(env.read_file_stream("nothing")),
        lambda env: collect(env.read_file_stream("nothing", offset=5, length=5)),
        lambda env: collect(env.read_file_stream("nothing", length=0)),
        lambda env: env.stat("nothing"),
        lambda env: env.delete_file("nothing"),
    ):
        error = error_of(place, use)
        assert type(error) is FileMissing
        assert error.backend == "s3"
        assert error.path == "nothing"
    assert isinstance(error_of(place, lambda env: env.read_file("nothing")).__cause__, ClientError)


@BOTH
def test_missing_bucket(place):
    """A missing bucket is an error at start that names the bucket: neither a missing file nor a refusal."""
    error = error_of({**place, "bucket": "no-such-bucket"}, lambda env: env.read_file("a"))
    assert isinstance(error, ConfigError)
    assert "'no-such-bucket' does not exist" in error.message
    assert error.operation == "start"


def test_bucket_lost_later(near, proxy):
    """A bucket that is gone after the start is no missing file either, for reading and for writing."""

    async def use(env):
        with proxy.fault("answer", response=refusal(404, "NoSuchBucket", "The specified bucket does not exist")):
            for call in (env.read_file("a"), env.write_file("a", "x")):
                with pytest.raises(SteadError, match="bucket 'test-bucket' does not exist") as caught:
                    await call
                assert not isinstance(caught.value, (FileNotFoundError, PermissionError))

    run(near, use)


@BOTH
def test_prefix_is_directory(place):
    """A prefix of keys is a directory, with and without its slash; so is the bucket."""

    async def use(env):
        await env.write_file("d/a", "x")
        for path in ("d", "d/", "/", "."):
            with pytest.raises(IsADirectory):
                await env.read_file(path)

    run(place, use)


@BOTH
def test_empty_object(place):
    """An empty object is read as nothing: whole, streamed, in ranges, and by lines."""

    async def use(env):
        await env.write_file("e", b"")
        assert await env.read_file("e") == b""
        for offset, length in ((0, None), (0, 0), (0, 5), (3, None), (3, 4)):
            assert await collect(env.read_file_stream("e", offset=offset, length=length)) == b""

    run(place, use)


@BOTH
def test_range_past_the_end(place):
    """A range at or after the end is nothing, and one of no bytes is not the whole object."""

    async def use(env):
        await env.write_file("a", b"abc")
        for offset, length in ((3, None), (3, 1), (1 << 40, None), (0, 0), (1, 0)):
            assert await collect(env.read_file_stream("a", offset=offset, length=length)) == b""
        assert await collect(env.read_file_stream("a", offset=2, length=9)) == b"c"

    run(place, use)


@pytest.mark.parametrize(
    "wrong",
    [
        {"secret_key": "wrong-secret"},
        {"access_key": "nobody"},
        {"access_key": None, "secret_key": None, "anonymous": True},
    ],
    ids=["secret", "key", "anonymous"],
)
def test_wrong_credentials(place, wrong):
    """A wrong secret, an unknown key and no credentials at all are AccessDenied, and say nothing of the secret."""
    error = error_of({**place, **wrong}, lambda env: env.read_file("nothing"))
    assert isinstance(error, AccessDenied)
    assert "wrong-secret" not in f"{error.message} {error!r} {error.__cause__}"


def test_read_only_identity(place):
    """Credentials that may only read can read, and a write is AccessDenied."""

    async def write(env):
        await env.write_file("a", "x")

    run(place, write)

    async def use(env):
        assert await env.read_file("a") == b"x"
        for call in (env.write_file("a", "y"), env.delete_file("a"), env.write_file("b", "y", if_absent=True)):
            with pytest.raises(AccessDenied):
                await call
        assert await env.read_file("a") == b"x"

    run({**place, "access_key": "rokey", "secret_key": "rosecret"}, use)


def test_no_credentials(place):
    """Without any credentials the error says what to give."""
    error = error_of({**place, "access_key": None, "secret_key": None}, lambda env: env.read_file("a"))
    assert isinstance(error, AccessDenied)
    assert "access_key" in error.message


def test_may_not_list(near, proxy):
    """Credentials that may read and write but not list are good ones: only listing is refused."""

    async def use(env):
        await env.write_file("d/a", "x")
        assert await env.read_file("d/a") == b"x"
        with pytest.raises(FileMissing):
            await env.read_file("d/b")
        with pytest.raises(AccessDenied):
            await collect(env.list_files("d"))

    with proxy.fault("answer", response=refusal(403, "AccessDenied"), matches=lambda r: "list-type" in r.target):
        run(near, use)


def test_refused_key_is_not_missing(near, proxy):
    """403 for a key is AccessDenied, also the bare one that a HEAD gets: never FileMissing, never empty."""

    async def use(env):
        with proxy.fault("answer", response=refusal(403, "AccessDenied"), matches=lambda r: r.method == "GET"):
            with pytest.raises(AccessDenied):
                await env.read_file("a")
        with proxy.fault("answer", response=b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"):
            with pytest.raises(AccessDenied):
                await env.stat("a")

    run(near, use)


def test_endpoint_refused(place):
    """A port at which nobody listens is Unavailable and retryable, within ten seconds."""
    begun = time.monotonic()
    error = error_of({**place, "endpoint_url": f"http://127.0.0.1:{free_port()}"}, lambda env: env.read_file("a"))
    assert isinstance(error, Unavailable)
    assert error.retryable
    assert time.monotonic() - begun < 10


@BOTH
def test_create_only(place):
    """`if_absent` on what exists is FileExists, whatever words the server uses."""

    async def use(env):
        await env.write_file("a", "x", if_absent=True)
        with pytest.raises(FileExists) as caught:
            await env.write_file("a", "y", if_absent=True)
        assert isinstance(caught.value, FileExistsError)
        assert await env.read_file("a") == b"x"

    run(place, use)


@BOTH
def test_if_version_failed(place):
    """`if_version` of another version, and of nothing, is FileChanged, whatever the server answers to the latter."""

    async def use(env):
        await env.write_file("a", "x")
        for path, version in (("a", "0" * 32), ("nothing", "0" * 32), ("a", "a\nb"), ("a", "\ud800"), ("a", "é")):
            with pytest.raises(FileChanged):
                await env.write_file(path, "y", if_version=version)
        with pytest.raises(FileChanged):
            await env.write_file("a", source(6), if_version="a\r\nb")
        assert await env.read_file("a") == b"x"
        with pytest.raises(FileMissing):
            await env.stat("nothing")

    run(place, use)


@pytest.mark.parametrize(("status", "code"), [(429, "TooManyRequests"), (503, "SlowDown"), (500, "InternalError")])
def test_throttled_twice(near, proxy, status, code):
    """What asks twice to come back later is asked a third time."""

    async def use(env):
        await env.write_file("a", "x")
        with proxy.fault("answer", response=refusal(status, code), times=2, matches=is_media) as fault:
            assert await env.read_file("a") == b"x"
        assert fault.hits == 2

    run(near, use)


def test_throttled_for_good(near, proxy):
    """What always asks to come back later is Unavailable within ten seconds, and says why."""

    async def use(env):
        begun = time.monotonic()
        with proxy.fault("answer", response=refusal(503, "SlowDown", "Please reduce your request rate.")) as fault:
            with pytest.raises(Throttled, match="less often") as caught:
                await env.read_file("a")
        assert fault.hits == 5
        assert caught.value.retryable
        assert time.monotonic() - begun < 10

    run(near, use)


def test_retry_after_is_kept(near, proxy):
    """A store that says when to come back is not asked before."""

    async def use(env):
        await env.write_file("a", "x")
        begun = time.monotonic()
        with proxy.fault("answer", response=refusal(503, "SlowDown", Retry_After="2"), times=1, matches=is_media):
            assert await env.read_file("a") == b"x"
        assert time.monotonic() - begun >= 2

    run(near, use)


def test_bad_request(near, proxy):
    """400 is no ValueError, whatever words are in it, and is not asked again."""

    async def use(env):
        with proxy.fault(
            "answer", response=refusal(400, "InvalidArgument", "invalid thing"), matches=is_media
        ) as fault:
            with pytest.raises(SteadError, match="invalid thing") as caught:
                await env.read_file("a")
        assert type(caught.value) is SteadError
        assert fault.hits == 1

    run(near, use)


@pytest.mark.parametrize(
    ("code", "said"),
    [("ExpiredToken", "expired"), ("RequestTimeTooSkewed", "clock"), ("InvalidToken", "session token")],
)
def test_credentials_that_went_bad(near, proxy, code, said):
    """Expired credentials and a wrong clock are AccessDenied at once, and the message says which it is."""

    async def use(env):
        with proxy.fault("answer", response=refusal(403, code)) as fault, pytest.raises(AccessDenied, match=said):
            await env.read_file("a")
        assert fault.hits == 1

    run(near, use)


def test_errors_pickle(place):
    """Errors travel between processes with what they carry."""
    error = pickle.loads(pickle.dumps(error_of(place, lambda env: env.read_file("nothing"))))
    assert (type(error), error.backend, error.operation, error.path) == (FileMissing, "s3", "read_file", "nothing")


def test_no_commands(place):
    """`execute` is refused at once, without a request, and says how to get both."""
    env = S3Environment(**place)
    with pytest.raises(NotImplementedError, match=r"stead\.wrappers\.MountsEnvironment"):
        asyncio.run(env.execute("true"))
    with pytest.raises(NotImplementedError, match=r"stead\.wrappers\.StagedEnvironment"):
        env.execute_stream("true")
