"""Each way in which GCS can fail has its one error, soon."""

import asyncio
import time

import pytest
from gcs_support import collect, is_media, refusal, run
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
from stead_gcs import GcsEnvironment
from stead_gcs.errors import Refusal


def error_of(options, use):
    with pytest.raises(SteadError) as caught:
        run(options, use)
    return caught.value


def test_missing_object(place):
    """A missing object is FileMissing by every way of reading, with the service's answer as its cause."""
    for use in (
        lambda env: env.read_file("nothing"),
        lambda env: collect(env.read_file_stream("nothing", offset=5, length=5)),
        lambda env: collect(env.read_file_stream("nothing", length=0)),
        lambda env: env.stat("nothing"),
        lambda env: env.delete_file("nothing"),
    ):
        error = error_of(place, use)
        assert type(error) is FileMissing
        assert (error.backend, error.path) == ("gcs", "nothing")
    assert isinstance(error_of(place, lambda env: env.read_file("nothing")).__cause__, Refusal)


def test_missing_bucket(place):
    """A missing bucket is an error at start that names the bucket: neither a missing file nor a refusal."""
    error = error_of({**place, "bucket": "no-such-bucket"}, lambda env: env.read_file("a"))
    assert isinstance(error, ConfigError)
    assert "'no-such-bucket' does not exist" in error.message
    assert not isinstance(error, (FileNotFoundError, PermissionError))


def test_bucket_lost_later(near, proxy):
    """A bucket that is gone after the start is no missing file either."""

    async def use(env):
        with proxy.fault("answer", response=refusal(404, "The specified bucket does not exist.", "notFound")):
            for call in (env.read_file("a"), env.write_file("a", "x")):
                with pytest.raises(ConfigError, match="bucket 'test-bucket' does not exist"):
                    await call

    run(near, use)


def test_prefix_is_directory(place):
    """A prefix of names is a directory, with and without its slash; so is the bucket."""

    async def use(env):
        await env.write_file("d/a", "x")
        for path in ("d", "d/", "/", "."):
            with pytest.raises(IsADirectory):
                await env.read_file(path)

    run(place, use)


def test_empty_object_and_ranges(place):
    """An empty object, and a range at or after the end, is read as nothing."""

    async def use(env):
        await env.write_file("e", b"")
        await env.write_file("a", b"abc")
        assert await env.read_file("e") == b""
        for offset, length in ((0, None), (0, 0), (0, 5), (3, None), (3, 4)):
            assert await collect(env.read_file_stream("e", offset=offset, length=length)) == b""
        for offset, length in ((3, None), (3, 1), (1 << 40, None), (0, 0), (1, 0)):
            assert await collect(env.read_file_stream("a", offset=offset, length=length)) == b""
        assert await collect(env.read_file_stream("a", offset=2, length=9)) == b"c"

    run(place, use)


@pytest.mark.parametrize("status", [401, 403])
def test_refused(near, proxy, status):
    """401 and 403 are AccessDenied at the first answer: not missing, not a plain OSError, not half a minute later."""

    async def use(env):
        for call in (env.read_file("a"), env.stat("a"), env.write_file("a", "x"), collect(env.list_files("a"))):
            with pytest.raises(AccessDenied, match="no no"):
                await call

    async def started(options):
        env = GcsEnvironment(**options)
        await env.start()
        begun = time.monotonic()
        with proxy.fault("answer", response=refusal(status, "no no", "authError")):
            await use(env)
        assert time.monotonic() - begun < 10
        await env.close()

    asyncio.run(started(near))


def test_refused_at_start(near, proxy):
    """Wrong credentials fail the start; those that may only not list do not."""
    with proxy.fault("answer", response=refusal(401, "Invalid Credentials", "authError")) as fault:
        assert isinstance(error_of(near, lambda env: env.read_file("a")), AccessDenied)
        assert fault.hits == 1

    async def use(env):
        await env.write_file("d/a", "x")
        assert await env.read_file("d/a") == b"x"

    no_listing = refusal(403, "does not have storage.objects.list access")
    with proxy.fault("answer", response=no_listing, matches=lambda r: "prefixes" in r.target or "maxRes" in r.target):
        run(near, use)


def test_no_credentials(place):
    """Without any credentials the error says what to give."""
    error = error_of({**place, "anonymous": False}, lambda env: env.read_file("a"))
    assert isinstance(error, AccessDenied)
    assert "credentials" in error.message


def test_credentials_that_are_none(place, tmp_path):
    """What is no key, or the path of no key, is an error at start that does not repeat it."""
    (tmp_path / "key.json").write_text('{"half-a-secret')
    for given in (
        '{"type": "my-secret"}',
        '{"type": "service_account", "key": "my-secret"}',
        str(tmp_path / "key.json"),
    ):
        error = error_of({**place, "anonymous": False, "credentials": given}, lambda env: env.read_file("a"))
        assert isinstance(error, (AccessDenied, ConfigError))
        assert "secret" not in error.message


def test_endpoint_refused(place):
    """A port at which nobody listens is Unavailable and retryable, within ten seconds."""
    begun = time.monotonic()
    error = error_of({**place, "endpoint_url": f"http://127.0.0.1:{free_port()}"}, lambda env: env.read_file("a"))
    assert isinstance(error, Unavailable)
    assert error.retryable
    assert time.monotonic() - begun < 10


def test_conditions(place):
    """A condition that does not hold is FileExists or FileChanged, each where it belongs."""

    async def use(env):
        first = await env.write_file("a", "x", if_absent=True)
        with pytest.raises(FileExists):
            await env.write_file("a", "y", if_absent=True)
        second = await env.write_file("a", "z", if_version=first.version)
        for path, version in (
            ("a", first.version),
            ("nothing", second.version),
            ("a", "0"),
            ("nothing", "0"),
            ("a", "x"),
            ("a", "٣"),
            ("a", "9" * 23),
            ("a", str(1 << 63)),
        ):
            with pytest.raises(FileChanged):
                await env.write_file(path, "y", if_version=version)
        assert await env.read_file("a") == b"z"

    run(place, use)


@pytest.mark.parametrize(("status", "reason"), [(429, ""), (503, ""), (500, ""), (403, "rateLimitExceeded")])
def test_throttled_twice(near, proxy, status, reason):
    """What asks twice to come back later is asked a third time; 403 for a rate is no refusal."""

    async def use(env):
        await env.write_file("a", "x")
        with proxy.fault("answer", response=refusal(status, "later", reason), times=2, matches=is_media) as fault:
            assert await env.read_file("a") == b"x"
        assert fault.hits == 2

    run(near, use)


def test_throttled_for_good(near, proxy, quick_retries):
    """What always asks to come back later is Unavailable after five tries."""

    async def use(env):
        with proxy.fault("answer", response=refusal(503, "later")) as fault, pytest.raises(Throttled):
            await env.read_file("a")
        assert fault.hits == 5

    run(near, use)


def test_bad_request(near, proxy):
    """400 with `invalid` in its text is no ValueError, and is not asked again."""

    async def use(env):
        with proxy.fault("answer", response=refusal(400, "invalid thing"), matches=is_media) as fault:
            with pytest.raises(SteadError, match="invalid thing") as caught:
                await env.read_file("a")
        assert type(caught.value) is SteadError
        assert fault.hits == 1

    run(near, use)
