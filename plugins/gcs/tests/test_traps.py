"""What gcsfs and the service get wrong for those who use them as they come, and the test that holds against each."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from gcs_support import collect, is_media, run
from servers.index import missing_tests

from stead.tools import toolset
from stead_gcs import GcsEnvironment

TRAPS = {
    "another protocol is asked first, and stalls": ("test_traps.py::test_no_other_protocol_is_asked",),
    "content that holds the fixed boundary is stored cut": ("test_traps.py::test_no_content_cuts_itself",),
    "packed objects are unpacked on the way": ("test_traps.py::test_packed_objects_are_read_as_stored",),
    "no wait has a limit, and six tries take half a minute": (
        "test_interrupted.py::TestInterrupted::test_stalled_body",
        "test_interrupted.py::TestInterrupted::test_stalled_for_good",
        "test_errors.py::test_refused",
    ),
    "403 and 416 are no errors of their own kind, and every 412 is the same": (
        "test_errors.py::test_refused",
        "test_errors.py::test_empty_object_and_ranges",
        "test_errors.py::test_conditions",
    ),
    "renewing a token blocks the loop": ("test_traps.py::test_tokens_are_renewed_off_the_loop",),
    "a cancelled upload stays open": ("test_streams.py::test_unfinished_upload_is_ended",),
    "an instance belongs to a loop that is gone": ("test_traps.py::test_one_for_each_loop",),
}
ERRORS = {
    "missing key": ("test_errors.py::test_missing_object",),
    "missing bucket": ("test_errors.py::test_missing_bucket", "test_errors.py::test_bucket_lost_later"),
    "prefix only": ("test_errors.py::test_prefix_is_directory",),
    "bucket as path": ("test_errors.py::test_prefix_is_directory",),
    "empty object, whole, streamed and in ranges; start and end 0": ("test_errors.py::test_empty_object_and_ranges",),
    "wrong credentials": ("test_errors.py::test_refused", "test_errors.py::test_refused_at_start"),
    "no credentials": ("test_errors.py::test_no_credentials", "test_errors.py::test_credentials_that_are_none"),
    "endpoint refused": ("test_errors.py::test_endpoint_refused",),
    "create-only on what exists; generation failed": ("test_errors.py::test_conditions",),
    "429 and 503": ("test_errors.py::test_throttled_twice", "test_errors.py::test_throttled_for_good"),
    "400 with invalid in its text": ("test_errors.py::test_bad_request",),
    "stalled body": (
        "test_interrupted.py::TestInterrupted::test_stalled_body",
        "test_interrupted.py::TestInterrupted::test_stalled_for_good",
    ),
    "cut body": (
        "test_interrupted.py::TestInterrupted::test_cut_body_is_resumed",
        "test_interrupted.py::TestInterrupted::test_cut_again_and_again",
    ),
}


@pytest.mark.parametrize("index", [TRAPS, ERRORS], ids=["traps", "errors"])
def test_each_has_its_test(index):
    """Every trap and every kind of error names tests that exist."""
    assert missing_tests(index, Path(__file__).parent) == []


def test_no_other_protocol_is_asked(near, proxy):
    """Start, write, read and stat are plain requests to the endpoint: no storage layout is asked for, nothing stalls."""

    async def use(env):
        async with asyncio.timeout(10):
            await env.write_file("a", "x")
            assert await env.read_file("a") == b"x"
            await env.stat("a")
        kind = type(env._store.client._filesystem)
        assert f"{kind.__module__}.{kind.__name__}" == "gcsfs.core.GCSFileSystem"

    run(near, use)
    assert all(request.target.startswith(("/storage/", "/upload/", "/download/")) for request in proxy.requests)
    assert "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT" not in os.environ


@pytest.mark.parametrize(
    "content",
    [b"hello\n--==0==--\nworld", b"\r\n--==0==\r\n", b"--", b"\r\n--boundary--\r\n", bytes(range(256)), b"\r\n"],
)
def test_no_content_cuts_itself(place, door, content):
    """Content that looks like the end of an upload is stored whole, be it small or in parts."""

    async def use(env):
        await env.write_file("a", content)
        assert await env.read_file("a") == content

        async def twice():
            yield content
            yield content

        await env.write_file("b", twice())
        assert await env.read_file("b") == content * 2

    run(place, use)
    assert door.read("a") == content


def test_packed_objects_are_read_as_stored(place, door):
    """An object with `Content-Encoding: gzip` is its stored bytes: whole, streamed, in ranges, and as `stat` says."""
    packed = door.write_gzip("z", b"line\n" * 10_000)

    async def use(env):
        assert await env.read_file("z") == packed
        assert await collect(env.read_file_stream("z")) == packed
        assert await collect(env.read_file_stream("z", offset=7, length=20)) == packed[7:27]
        assert (await env.stat("z")).size == len(packed)
        total = (await toolset(env)["ReadFile"](path="z"))["total_lines"]
        assert total == packed.count(b"\n") + (not packed.endswith(b"\n"))

    run(place, use)


def test_reads_are_of_now(place, door):
    """Each read gets the present object, whatever generation was read before, by file and by lines."""

    async def use(env):
        read = toolset(env)["ReadFile"]
        door.write("log", b"1\n")
        assert await env.read_file("log") == b"1\n"
        assert (await read(path="log"))["total_lines"] == 1
        door.write("log", b"1\n2\n")
        assert await env.read_file("log") == b"1\n2\n"
        assert (await read(path="log"))["total_lines"] == 2
        await env.write_file("log", b"3\n")
        assert await env.read_file("log") == b"3\n"
        assert (await read(path="log"))["content"].endswith("3")

    run(place, use)


def test_replaced_before_its_bytes_came(near, proxy, door, quick_retries):
    """An object that is replaced between its description and its bytes is read as it is then: it is never missing."""

    async def use(env):
        await env.write_file("t", b"one" * 1000)

        def replace(request):
            if is_media(request) and "generation" not in request.target:
                door.write("t", b"two" * 1000)
                return True
            return False

        with proxy.fault("end", after=0, times=1, matches=replace):
            assert await env.read_file("t") == b"two" * 1000

    run(near, use)


def test_tokens_are_renewed_off_the_loop(place):
    """Renewing a token blocks a thread, never the event loop, and happens once for many requests."""
    from google.auth.credentials import Credentials

    class Slow(Credentials):
        renewed = 0

        def refresh(self, request):
            assert threading.current_thread() is not threading.main_thread()
            time.sleep(0.5)
            type(self).renewed += 1
            self.token = "t"

    async def use(env):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        env._store.client._filesystem.credentials.credentials.token = None
        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(env.write_file(f"{n}", "x") for n in range(5)))
        ticking.cancel()
        return ticks

    ticks = run({**place, "anonymous": False, "credentials": Slow()}, use)
    assert Slow.renewed == 2
    assert ticks > 5


def test_token_is_sent(near, proxy):
    """An access token is sent as it is, and shown nowhere."""

    async def use(env):
        await env.write_file("a", "x")
        assert "my-token" not in repr(env) + repr(env._store._access)

    run({**near, "anonymous": False, "credentials": "my-token"}, use)
    assert {request.headers["authorization"] for request in proxy.requests} == {"Bearer my-token"}


def test_requester_pays(near, proxy):
    """A bucket that bills who asks gets the project with each request; others do not."""
    from gcs_support import refusal

    message = "Bucket is a requester pays bucket but no user project provided."
    with proxy.fault(
        "answer", response=refusal(400, message, "required"), matches=lambda r: "userProject" not in r.target
    ):
        run(near, lambda env: env.write_file("a", "x"))
    assert all("userProject=p" in request.target for request in proxy.requests[1:])
    proxy.requests.clear()
    run(near, lambda env: env.write_file("a", "x"))
    assert not [request for request in proxy.requests if "userProject" in request.target]


def test_one_for_each_loop(place):
    """Environments of several loops, one after the other and in threads, do not share what belongs to a loop."""

    async def use(env):
        await env.write_file("a", "x")
        return await env.read_file("a")

    for _ in range(3):
        assert run(place, use) == b"x"

    async def in_threads():
        return await asyncio.gather(*(asyncio.to_thread(run, place, use) for _ in range(3)))

    assert asyncio.run(in_threads()) == [b"x"] * 3


def test_many_requests(place):
    """Six hundred requests in a row hang nowhere."""

    async def use(env):
        for _ in range(6):
            await asyncio.gather(*(env.write_file(f"{n}", b"x") for n in range(50)))
        async with asyncio.timeout(30):
            assert await env.read_file("7") == b"x"

    run(place, use)


def test_no_commands(place):
    """`execute` is refused at once, without a request."""
    with pytest.raises(NotImplementedError, match=r"stead\.wrappers"):
        asyncio.run(GcsEnvironment(**place).execute("true"))


def test_options_are_checked():
    """Options that cannot be meant are refused when the environment is made."""
    for options in (
        {"bucket": ""},
        {"bucket": "a/b"},
        {"bucket": "b", "timeout": -1},
        {"bucket": "b", "prefix": "a/../.."},
    ):
        with pytest.raises(ValueError, match=r"bucket|timeout|prefix"):
            GcsEnvironment(**options)
    with pytest.raises(ValueError, match="anonymous"):
        GcsEnvironment("b", anonymous=True, credentials="x")
