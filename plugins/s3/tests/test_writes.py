"""Writes: old or new in full, nothing left behind, and an answer that was lost is no failure."""

import asyncio
from contextlib import suppress

import pytest
from s3_support import BOTH, refusal, run, source

from stead.errors import AccessDenied, EnvironmentClosed, FileExists, FileMissing, SteadError, Unavailable, Unsupported
from stead_s3 import S3Environment
from stead_s3.sums import combined

_MIB = 1 << 20


def is_put(request):
    return request.method == "PUT"


def is_completion(request):
    return request.method == "POST" and "uploadId" in request.target


def test_small_write_is_two_requests(near, proxy):
    """A write asks whether a directory is there, and writes; what its parents are is asked once."""

    async def use(env):
        await env.write_file("d/a", "x")
        proxy.requests.clear()
        await env.write_file("d/b", "x")
        assert [request.method for request in proxy.requests] == ["GET", "PUT"]

    run(near, use)


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.8])
def test_cancelled_large_write_leaves_no_part(place, door, delay, scale):
    """A cancelled write of 200 MB leaves no part and the old content."""

    async def use(env):
        await env.write_file("d/a", "old")
        task = asyncio.create_task(env.write_file("d/a", source(int(2000 * scale))))
        await asyncio.sleep(delay)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert await env.read_file("d/a") == b"old"

    run(place, use)
    assert door.unfinished("d") == []


@BOTH
def test_cancelled_twice_leaves_no_part(near, proxy, door):
    """Neither does one that is cancelled again while it cleans up, nor one whose beginning was not answered yet."""

    async def use(env):
        for delay in (0.0, 0.02, 0.1):
            task = asyncio.create_task(env.write_file("d/a", source(64)))
            await asyncio.sleep(delay)
            for _ in range(5):
                task.cancel()
                await asyncio.sleep(0.01)
            with suppress(asyncio.CancelledError):
                await task

    run(near, use)
    assert door.unfinished("d") == []


@BOTH
def test_closed_while_writing_leaves_no_part(near, door):
    """A write that is under way when the environment closes is EnvironmentClosed, and its parts are removed."""

    async def main():
        env = S3Environment(**near)
        sent = asyncio.Event()

        async def endless():
            async for piece in source(15):
                yield piece
            sent.set()
            await asyncio.Event().wait()

        await env.write_file("d/a", "old")
        task = asyncio.create_task(env.write_file("d/a", endless()))
        await sent.wait()
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await task

    asyncio.run(main())
    assert door.unfinished("d") == []


def test_failing_producer_leaves_no_part(place, door):
    """When what is written fails in the middle, its error passes unchanged and nothing is left."""

    async def failing():
        async for piece in source(20):
            yield piece
        raise ZeroDivisionError

    async def use(env):
        await env.write_file("d/a", "old")
        with pytest.raises(ZeroDivisionError):
            await env.write_file("d/a", failing())
        assert await env.read_file("d/a") == b"old"

    run(place, use)
    assert door.unfinished("d") == []


@BOTH
def test_refused_part_leaves_no_part(near, proxy, door):
    """When the store refuses a part, or the completion, the error rises and nothing is left."""

    async def use(env):
        for match in (lambda r: "partNumber=2" in r.target, is_completion):
            with proxy.fault("answer", response=refusal(403, "AccessDenied"), matches=match):
                with pytest.raises(AccessDenied):
                    await env.write_file("d/a", source(20))

    run(near, use)
    assert door.unfinished("d") == []


def test_part_is_repeated(near, proxy):
    """A part whose connection breaks, or that is throttled, is sent again; the content is right."""

    async def use(env):
        with proxy.fault("lose", times=2, matches=lambda r: "partNumber" in r.target):
            with proxy.fault("answer", response=refusal(503, "SlowDown"), times=1, matches=is_completion):
                info = await env.write_file("a", source(20, b"y"))
        assert info.size == 20 * _MIB
        assert await env.read_file("a") == b"y" * 20 * _MIB

    run(near, use)


@BOTH
def test_lost_answer_of_a_create(near, proxy):
    """`if_absent` whose answer was lost has succeeded, and says so, although the store refuses its repetition."""

    async def use(env):
        await env.write_file("other", "x", if_absent=True)
        with proxy.fault("lose", times=1, matches=is_put) as fault:
            info = await env.write_file("a", "mine", if_absent=True)
        assert fault.hits == 1
        assert info.version == (await env.stat("a")).version
        assert await env.read_file("a") == b"mine"
        with pytest.raises(FileExists):
            await env.write_file("a", "mine", if_absent=True)

    run(near, use)


@BOTH
def test_lost_answer_of_a_replacement(near, proxy):
    """So has `if_version`."""

    async def use(env):
        first = await env.write_file("a", "one")
        await env.write_file("other", "x", if_version=(await env.write_file("other", "y")).version)
        with proxy.fault("lose", times=1, matches=is_put):
            info = await env.write_file("a", "two", if_version=first.version)
        assert await env.read_file("a") == b"two"
        assert info.version == (await env.stat("a")).version

    run(near, use)


@BOTH
def test_lost_answer_of_a_completion(near, proxy):
    """So has a write in parts whose last answer was lost: its upload is gone when it is asked for again."""

    async def use(env):
        with proxy.fault("lose", times=1, matches=is_completion) as fault:
            info = await env.write_file("a", source(20, b"z"))
        assert fault.hits == 1
        assert info.size == 20 * _MIB
        assert info.version == (await env.stat("a")).version

    run(near, use)


def test_lost_answer_of_a_delete(near, proxy):
    """A delete whose answer was lost has succeeded."""

    async def use(env):
        await env.write_file("a", "x")
        with proxy.fault("lose", times=1, matches=lambda r: r.method == "DELETE") as fault:
            await env.delete_file("a")
        assert fault.hits == 1
        with pytest.raises(FileMissing):
            await env.stat("a")

    run(near, use)


@BOTH
def test_one_winner(place):
    """Of sixteen `if_absent` writes at once one wins; the others are FileExists."""

    async def use(env):
        for turn in range(2):
            writes = (env.write_file(f"a{turn}", f"{n}", if_absent=True) for n in range(16))
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            winners = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, FileExists)]
            assert len(winners) == 1
            assert await env.read_file(f"a{turn}") == f"{winners[0]}".encode()

    run(place, use)


def test_store_that_ignores_conditions(near, proxy, door):
    """A store that ignores conditions is found out once, before it is relied on: Unsupported, and nothing written."""

    async def use(env):
        await env.write_file("a", "old")
        accepted = b'HTTP/1.1 200 OK\r\nETag: "5d41402abc4b2a76b9719d911017c592"\r\nContent-Length: 0\r\n\r\n'
        conditional = {"if-none-match", "if-match"}
        with proxy.fault("answer", response=accepted, matches=lambda r: is_put(r) and conditional & set(r.headers)):
            for condition in ({"if_absent": True}, {"if_version": "x"}):
                for _ in range(2):
                    with pytest.raises(Unsupported, match="ignores conditions"):
                        await env.write_file("a", "new", **condition)
        assert await env.read_file("a") == b"old"

    run(near, use)
    assert [name for name in door.names(".stead") if name.startswith("probe")] == []


def test_probes_are_made_once(near, proxy):
    """The first conditional write tries the store; later ones of its kind do not."""

    async def use(env):
        await env.write_file("a", "x", if_absent=True)
        proxy.requests.clear()
        await env.write_file("b", "x", if_absent=True)
        assert [request.method for request in proxy.requests] == ["GET", "PUT"]

    run(near, use)


def test_store_without_whole_sums(near, proxy):
    """A store that does not know sums over a whole upload gets one without."""
    unknown = refusal(501, "NotImplemented", "A header you provided implies functionality that is not implemented")

    async def use(env):
        with proxy.fault("answer", response=unknown, matches=lambda r: "x-amz-checksum-type" in r.headers):
            assert (await env.write_file("a", source(12))).size == 12 * _MIB
        assert await env.read_file("a") == b"x" * 12 * _MIB

    run(near, use)


def test_without_checksums(near, proxy):
    """With `checksums = false` no request carries or asks for one."""

    async def use(env):
        await env.write_file("a", "x")
        await env.write_file("b", source(12))
        assert len(await env.read_file("b")) == 12 * _MIB
        named = {name for request in proxy.requests for name in request.headers}
        assert not [name for name in named if "checksum" in name]

    run({**near, "checksums": False}, use)


def test_sums_of_parts_are_the_sum_of_the_whole():
    """CRC32 sums put together are that of the bytes put together, also of empty pieces."""
    import random
    import zlib

    random.seed(1)
    for _ in range(200):
        first, second = (random.randbytes(random.choice([0, 1, 7, 4096, 70_000])) for _ in range(2))
        assert combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_write_that_cannot_be_sent(near, proxy, quick_retries):
    """A write that the store never takes is an error, and the old content stays."""

    async def use(env):
        await env.write_file("a", "old")
        with proxy.fault("answer", response=refusal(500, "InternalError"), matches=is_put):
            with pytest.raises(Unavailable):
                await env.write_file("a", "new")
        with proxy.fault("answer", response=refusal(507, "InsufficientStorage"), matches=is_put):
            with pytest.raises(SteadError):
                await env.write_file("a", "new")
        assert await env.read_file("a") == b"old"

    run(near, use)
