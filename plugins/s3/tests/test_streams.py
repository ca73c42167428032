"""Streams: one version, one request, nothing left behind, whatever happens to them."""

import asyncio
import gc
import os
from contextlib import aclosing

import pytest
from s3_support import BOTH, collect, is_media, run, source

from stead.conformance.peak import Peak
from stead.errors import EnvironmentClosed, FileChanged, Unavailable
from stead_fsspec.stream import RANGE

_MIB = 1 << 20


def open_sockets():
    return sum(
        os.path.islink(p) and "socket" in os.readlink(p)
        for p in map("/proc/self/fd/{}".format, os.listdir("/proc/self/fd"))
    )


@BOTH
def test_small_read_is_one_request(near, proxy):
    """Reading 1 KB costs one request, by each way of reading."""

    async def use(env):
        await env.write_file("a", b"x" * 1024)
        for call in (
            lambda: env.read_file("a"),
            lambda: collect(env.read_file_stream("a")),
            lambda: collect(env.read_file_stream("a", offset=10, length=5)),
        ):
            proxy.requests.clear()
            await call()
            assert [request.method for request in proxy.requests] == ["GET"]

    run(near, use)


@pytest.mark.parametrize("parallel", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_two_hundred_abandoned_streams(near, proxy, parallel):
    """200 streams that are left after their first chunk leave no connection and no task, and the next one works."""

    async def use(env):
        await env.write_file("a", source(3))
        await env.read_file("a")
        tasks = len(asyncio.all_tasks())
        for turn in range(200):
            stream = env.read_file_stream("a")
            async for _ in stream:
                break
            if turn % 2:
                await stream.aclose()
            del stream
        gc.collect()
        for _ in range(20):
            await asyncio.sleep(0.05)
            if proxy.connections <= 2 and len(asyncio.all_tasks()) == tasks:
                break
        assert len(asyncio.all_tasks()) == tasks
        assert proxy.connections <= 2
        async with asyncio.timeout(20):
            assert len(await env.read_file("a")) == 3 * _MIB

    run({**near, "parallel": parallel}, use)


@pytest.mark.soak
def test_more_streams_than_connections(place):
    """A hundred streams at once, all held open, do not hang: those that get no connection say so in the end."""

    async def use(env):
        await env.write_file("a", source(3))
        streams = [env.read_file_stream("a") for _ in range(70)]
        firsts = await asyncio.gather(*(anext(stream) for stream in streams), return_exceptions=True)
        for stream in streams:
            await stream.aclose()
        got = [first for first in firsts if isinstance(first, bytes)]
        assert len(got) >= 60
        assert all(isinstance(first, (bytes, Unavailable)) for first in firsts)
        assert await env.read_file("a") == b"x" * 3 * _MIB

    from stead_s3 import client

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stead_s3.files._POOL_SECONDS", 0.5)
        patch.setattr("stead_fsspec.retry._FIRST_PAUSE", 0.01)
        assert client._CONNECTIONS == 64
        run({**place, "timeout": 1.0}, use)


def test_close_ends_open_streams(near, proxy):
    """Closing the environment ends its streams: EnvironmentClosed at the next step, no connection left."""

    async def use(env):
        await env.write_file("a", source(32))
        stream = env.read_file_stream("a")
        await anext(stream)
        waiting = env.read_file_stream("a")
        await anext(waiting)
        await env.close()
        for each in (stream, waiting):
            with pytest.raises(EnvironmentClosed):
                while True:
                    await anext(each)

    run(near, use)
    for _ in range(20):
        if not proxy.connections:
            break
        asyncio.run(asyncio.sleep(0.05))
    assert proxy.connections == 0


def test_replaced_while_read(place, door):
    """A stream that goes on after its object was replaced has the old content, in full."""
    old, new = b"old " * (4 * _MIB), b"new " * (5 * _MIB)

    async def use(env):
        await env.write_file("a", old)
        async with aclosing(env.read_file_stream("a")) as chunks:
            found = [await anext(chunks)]
            door.write("a", new)
            found += [chunk async for chunk in chunks]
        assert b"".join(found) == old
        assert await env.read_file("a") == new

    run(place, use)


@BOTH
@pytest.mark.parametrize("change", ["replaced", "shrunk", "same-size", "deleted"])
def test_changed_while_cut(near, proxy, door, change):
    """If the object changed while the connection was cut, the stream is FileChanged: no mix, no NULs, no short file."""
    old = b"old " * (4 * _MIB)
    new = {"replaced": b"new " * (5 * _MIB), "shrunk": b"new ", "same-size": b"new " * (4 * _MIB)}.get(change)

    async def use(env):
        await env.write_file("a", old)
        found = []
        with proxy.fault("reset", after=5_000_000, times=1, matches=is_media):
            with pytest.raises(FileChanged):
                async with aclosing(env.read_file_stream("a")) as chunks:
                    async for chunk in chunks:
                        if not found:
                            await env.delete_file("a") if new is None else door.write("a", new)
                        found.append(chunk)
        assert old.startswith(b"".join(found))

    run(near, use)


def test_changed_before_the_first_byte(near, proxy, door, quick_retries):
    """If it changed before anything was delivered, the new version is read: a file that is always there is never missing."""

    async def use(env):
        await env.write_file("a", b"old" * 1000)

        def change(request):
            if is_media(request) and not request.headers.get("range"):
                door.write("a", b"new" * 2000)
                return True
            return False

        with proxy.fault("reset", after=0, times=1, matches=change):
            assert await env.read_file("a") == b"new" * 2000

    run(near, use)


def test_versioned_bucket_reads_the_old_version_on(server, proxy):
    """In a bucket that keeps versions, a stream goes on with its own version although it was cut and replaced."""
    old = b"old " * (4 * _MIB)
    client = server.client()
    client.create_bucket(Bucket="versioned")
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})

    async def use(env):
        await env.write_file("a", old)
        found = []
        with proxy.fault("reset", after=5_000_000, times=1, matches=is_media):
            async with aclosing(env.read_file_stream("a")) as chunks:
                async for chunk in chunks:
                    if not found:
                        client.put_object(Bucket="versioned", Key="a", Body=b"new")
                    found.append(chunk)
        assert b"".join(found) == old
        assert await env.read_file("a") == b"new"

    run(server.options(bucket="versioned", endpoint_url=proxy.url), use)
    client.close()


def test_server_that_ignores_ranges(near, proxy):
    """A store that answers a range with all of it does not get its bytes taken for others."""
    data = bytes(range(256)) * 30_000

    async def use(env):
        info = await env.write_file("a", data)
        head = f'HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\nETag: "{info.version}"\r\n\r\n'.encode()
        with proxy.fault("answer", response=head + data, matches=lambda r: is_media(r) and "range" in r.headers):
            found = await collect(env.read_file_stream("a", offset=1000, length=300_000))
            assert found == data[1000:301_000]
            assert await collect(env.read_file_stream("a", offset=len(data) + 5)) == b""
            with proxy.fault("reset", after=5_000_000, times=1, matches=is_media):
                assert await env.read_file("a") == data

    run(near, use)


@pytest.mark.parametrize("parallel", [2, 5])
def test_parallel_ranges(near, proxy, parallel):
    """With `parallel` a large file comes in ranges of one version, in order, and a small one still in one request."""
    size = 3 * RANGE + 12_345

    async def use(env):
        await env.write_file("a", source(size // _MIB))
        data = os.urandom(_MIB) * (size // _MIB) + b"tail"
        info = await env.write_file("a", data)
        proxy.requests.clear()
        assert await env.read_file("a") == data
        ranged = [request for request in proxy.requests if is_media(request)]
        assert len(ranged) == 4
        assert all(request.headers["if-match"] == f'"{info.version}"' for request in ranged[1:])
        assert await collect(env.read_file_stream("a", offset=5, length=RANGE + 7)) == data[5 : RANGE + 12]
        await env.write_file("small", b"x")
        proxy.requests.clear()
        assert await env.read_file("small") == b"x"
        assert len(proxy.requests) == 1
        await env.write_file("empty", b"")
        assert await env.read_file("empty") == b""

    run({**near, "parallel": parallel}, use)


def test_parallel_ranges_are_one_version(near, door):
    """Ranges of an object that is replaced while they are fetched are never put together: FileChanged."""
    old, new = b"old " * (8 * _MIB), b"new " * (8 * _MIB)

    async def use(env):
        await env.write_file("a", old)
        found = []
        with pytest.raises(FileChanged):
            async with aclosing(env.read_file_stream("a")) as chunks:
                async for chunk in chunks:
                    if not found:
                        door.write("a", new)
                    found.append(chunk)
        assert old.startswith(b"".join(found))

    run({**near, "parallel": 2}, use)


def test_streaming_needs_little_memory(seaweed, scale):
    """A large object streams in less than 16 MB above what the environment needs, by the kernel's count."""
    mebibytes = int(512 * scale)

    async def use(env):
        await env.write_file("large", source(mebibytes))
        await collect(env.read_file_stream("large", length=_MIB))
        seen = 0
        async with Peak()() as growth, aclosing(env.read_file_stream("large")) as chunks:
            async for chunk in chunks:
                seen += len(chunk)
        assert seen == mebibytes * _MIB
        assert growth.bytes < 16_000_000
        await env.delete_file("large")

    run(seaweed.options(prefix="memory"), use)


def test_whole_read_needs_the_file_once(seaweed):
    """`read_file` holds its content little more than once."""

    async def use(env):
        await env.write_file("large", source(64))
        await env.read_file("large")
        async with Peak()() as growth:
            data = await env.read_file("large")
        assert len(data) == 64 * _MIB
        assert growth.bytes < 1.4 * len(data)

    run(seaweed.options(prefix="memory"), use)
