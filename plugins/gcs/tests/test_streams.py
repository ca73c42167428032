"""Streams and uploads: one generation, one request, nothing left behind, and lost answers are no failures."""

import asyncio
import gc
from contextlib import aclosing, suppress

import pytest
from gcs_support import collect, is_media, refusal, run, source
from servers.fault_proxy import answer

from stead.conformance.peak import Peak
from stead.errors import EnvironmentClosed, FileChanged, FileExists, StreamInterrupted, Unavailable
from stead_fsspec.errors import ChecksumMismatch
from stead_gcs import GcsEnvironment

_MIB = 1 << 20


def is_chunk(request):
    return request.method == "PUT"


def test_small_read_is_one_request(near, proxy):
    """Reading 1 KB costs one request; writing it two."""

    async def use(env):
        await env.write_file("a", b"x" * 1024)
        for call in (lambda: env.read_file("a"), lambda: collect(env.read_file_stream("a", offset=10, length=5))):
            proxy.requests.clear()
            await call()
            assert [request.method for request in proxy.requests] == ["GET"]
        proxy.requests.clear()
        await env.write_file("b", b"x")
        assert [request.method for request in proxy.requests] == ["GET", "POST"]

    run(near, use)


def test_two_hundred_abandoned_streams(near, proxy):
    """200 streams that are left after their first chunk leave no connection and no task, and the next one works."""

    async def use(env):
        await env.write_file("a", source(6))
        tasks = len(asyncio.all_tasks())
        for _ in range(200):
            async for _chunk in env.read_file_stream("a"):
                break
        gc.collect()
        for _ in range(20):
            await asyncio.sleep(0.05)
            if proxy.connections <= 2 and len(asyncio.all_tasks()) == tasks:
                break
        assert len(asyncio.all_tasks()) == tasks
        assert proxy.connections <= 2
        async with asyncio.timeout(20):
            assert len(await env.read_file("a")) == 6 * _MIB

    run(near, use)


def test_changed_while_cut(near, proxy, door):
    """If the object was replaced while the connection was cut, and the old one is gone, the stream is FileChanged."""
    old = b"old " * (4 * _MIB)

    async def use(env):
        await env.write_file("a", old)
        found = []
        with proxy.fault("reset", after=5_000_000, times=1, matches=is_media), pytest.raises(FileChanged):
            async with aclosing(env.read_file_stream("a")) as chunks:
                async for chunk in chunks:
                    if not found:
                        door.write("a", b"new " * (5 * _MIB))
                    found.append(chunk)
        assert old.startswith(b"".join(found))

    run(near, use)


def test_memory(place, scale):
    """A large object streams, and is written, in bounded memory."""
    # The server holds an upload in memory and copies it with every part: more than 64 MiB would measure that.
    mebibytes = 64

    async def use(env):
        await env.write_file("large", source(12))
        async with Peak()() as growth:
            await env.write_file("large", source(mebibytes))
        assert growth.bytes < 32 * _MIB
        await collect(env.read_file_stream("large", length=_MIB))
        async with Peak()() as growth, aclosing(env.read_file_stream("large")) as chunks:
            assert sum([len(chunk) async for chunk in chunks]) == mebibytes * _MIB
        assert growth.bytes < 16_000_000

    run(place, use)


def test_upload_in_parts(near, proxy):
    """Content of several parts arrives whole, also when it ends with a part; each part is sent once."""

    async def use(env):
        for mebibytes in (10, 12):
            proxy.requests.clear()
            info = await env.write_file("a", source(mebibytes, b"y"))
            assert info.size == mebibytes * _MIB
            assert await env.read_file("a") == b"y" * mebibytes * _MIB
            places = [request.headers["content-range"] for request in proxy.requests if is_chunk(request)]
            assert places[:2] == ["bytes 0-5242879/*", "bytes 5242880-10485759/*"]
            assert places[2:] == (["bytes */10485760"] if mebibytes == 10 else ["bytes 10485760-12582911/12582912"])

    run(near, use)


@pytest.mark.parametrize("action", ["lose", "reset"])
def test_lost_answer_of_a_part(near, proxy, action):
    """After a part whose answer was lost the service is asked how much it has, and gets the rest."""
    # The server takes that question for the end of the upload, so the service's answer to it comes from the proxy.
    has_it = b"HTTP/1.1 308 Resume Incomplete\r\nRange: bytes=0-5242879\r\nContent-Length: 0\r\n\r\n"

    def is_question(request):
        return is_chunk(request) and request.headers["content-range"] == "bytes */*"

    async def use(env):
        with proxy.fault("answer", response=has_it, matches=is_question) as asked:
            with proxy.fault(action, times=1, matches=is_chunk):
                info = await env.write_file("a", source(12, b"y"))
        assert asked.hits == 1
        assert info.size == 12 * _MIB
        assert await env.read_file("a") == b"y" * 12 * _MIB

    run(near, use)


def test_upload_that_came_out_wrong(near, proxy):
    """An object that is not what was sent is an error, although the service calls it a success."""
    wrong = b'{"name": "a", "size": "12582912", "generation": "1", "crc32c": "AAAAAA=="}'

    def is_last(request):
        return is_chunk(request) and request.headers["content-range"].endswith("/12582912")

    async def use(env):
        with proxy.fault("answer", response=answer(200, wrong), matches=is_last), pytest.raises(ChecksumMismatch):
            await env.write_file("a", source(12))

    run(near, use)


def test_part_that_arrived_in_part(near, proxy, door):
    """If the service says that it has only the first bytes of a part, the others are sent again."""
    head = b"HTTP/1.1 308 Resume Incomplete\r\nRange: bytes=0-1048575\r\nContent-Length: 0\r\n\r\n"

    async def use(env):
        sent = []

        def first(request):
            if is_chunk(request):
                sent.append(request.headers["content-range"])
            return is_chunk(request) and len(sent) == 1

        with proxy.fault("answer", response=head, matches=first), suppress(StreamInterrupted, Unavailable):
            # The server itself has nothing of it, and refuses the rest; what is asked of it is what matters.
            await env.write_file("a", source(12))
        assert sent[:2] == ["bytes 0-5242879/*", "bytes 1048576-5242879/*"]

    run(near, use)


def test_service_that_takes_nothing(near, proxy, quick_retries):
    """A service that never takes more is an error after bounded tries, and the session is ended."""
    head = b"HTTP/1.1 308 Resume Incomplete\r\nContent-Length: 0\r\n\r\n"

    async def use(env):
        with (
            proxy.fault("answer", response=head, matches=is_chunk) as fault,
            pytest.raises(Unavailable, match="no more"),
        ):
            await env.write_file("a", source(12))
        assert fault.hits == 5
        assert proxy.requests[-1].method == "DELETE"

    run(near, use)


@pytest.mark.parametrize("how", ["cancelled", "failing", "refused"])
def test_unfinished_upload_is_ended(near, proxy, how):
    """An upload that is cancelled, whose producer fails, or that is refused, ends its session; the old content stays."""

    async def failing():
        async for piece in source(12):
            yield piece
        raise ZeroDivisionError

    async def use(env):
        await env.write_file("a", "old")
        proxy.requests.clear()
        if how == "cancelled":
            task = asyncio.create_task(env.write_file("a", source(500)))
            while not any(map(is_chunk, proxy.requests)):
                await asyncio.sleep(0.01)
            task.cancel()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        elif how == "failing":
            with pytest.raises(ZeroDivisionError):
                await env.write_file("a", failing())
        else:
            with proxy.fault("answer", response=refusal(403, "no"), matches=is_chunk), pytest.raises(PermissionError):
                await env.write_file("a", source(12))
        last = proxy.requests[-1]
        assert last.method == "DELETE"
        assert "upload_id" in last.target
        assert await env.read_file("a") == b"old"

    run(near, use)


def test_closed_while_writing_ends_the_upload(near, proxy):
    """A write that is under way when the environment closes is EnvironmentClosed, and its session is ended."""

    async def main():
        env = GcsEnvironment(**near)
        await env.start()
        task = asyncio.create_task(env.write_file("a", source(500)))
        while not any(map(is_chunk, proxy.requests)):
            await asyncio.sleep(0.01)
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await task
        assert proxy.requests[-1].method == "DELETE"

    asyncio.run(main())


def test_lost_answer_of_a_create(near, proxy):
    """`if_absent` and `if_version` whose answer was lost have succeeded, although the repetition is refused."""

    async def use(env):
        with proxy.fault("lose", times=1, matches=lambda r: r.method == "POST") as fault:
            info = await env.write_file("a", "mine", if_absent=True)
        assert fault.hits == 1
        assert info.version == (await env.stat("a")).version
        with pytest.raises(FileExists):
            await env.write_file("a", "mine", if_absent=True)
        with proxy.fault("lose", times=1, matches=lambda r: r.method == "POST"):
            info = await env.write_file("a", "two", if_version=info.version)
        assert info.version == (await env.stat("a")).version
        assert await env.read_file("a") == b"two"

    run(near, use)


def test_lost_answer_of_a_finish(near, proxy):
    """So has an upload in parts whose last answer was lost, also if its session is gone then."""

    async def use(env):
        last = [0]

        def final(request):
            last[0] += is_chunk(request) and not request.headers["content-range"].endswith("/*")
            return is_chunk(request) and last[0] == 1 and not request.headers["content-range"].endswith("/*")

        with proxy.fault("lose", times=1, matches=final) as fault:
            with proxy.fault("answer", response=refusal(410, "gone"), matches=lambda r: is_chunk(r) and last[0] > 1):
                info = await env.write_file("a", source(12, b"z"))
        assert fault.hits == 1
        assert info.size == 12 * _MIB
        assert await env.read_file("a") == b"z" * 12 * _MIB

    run(near, use)


def test_parallel_ranges(near, proxy):
    """With `parallel` a large file comes in ranges of one generation, in order."""

    async def use(env):
        data = bytes(range(256)) * 80_000
        info = await env.write_file("a", data)
        proxy.requests.clear()
        assert await env.read_file("a") == data
        ranged = [request for request in proxy.requests if is_media(request)]
        assert len(ranged) == 3
        assert all(f"generation={info.version}" in request.target for request in ranged[1:])

    run({**near, "parallel": 3}, use)


def test_server_that_ignores_ranges(near, proxy):
    """A service that answers a range with all of it does not get its bytes taken for others."""
    data = bytes(range(256)) * 1000

    async def use(env):
        await env.write_file("a", data)
        whole = answer(200, data)
        with proxy.fault("answer", response=whole, matches=lambda r: is_media(r) and "range" in r.headers):
            assert await collect(env.read_file_stream("a", offset=1000, length=3000)) == data[1000:4000]

    run(near, use)
