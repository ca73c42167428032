"""Keys are literal, a prefix is a boundary, and nothing that was seen once is taken for what is there."""

import asyncio
from contextlib import aclosing
from urllib.parse import unquote

import pytest
from s3_support import BOTH, BucketDoor, run

from stead.errors import ConfigError, FileMissing, InvalidPath, NotADirectory, PathOutsideRoot
from stead_s3 import S3Environment
from stead_s3.files import S3Store


async def listed(env, path=".", *, recursive=False):
    async with aclosing(env.list_files(path, recursive=recursive)) as entries:
        return [(entry.path, entry.kind) async for entry in entries]


@BOTH
def test_keys_are_literal(place, door):
    """What looks like a version, a query, an escape or a pattern is part of the name."""
    names = [
        "v?versionId=abc",
        "a%20b",
        "a b",
        "a+b",
        "a#b",
        "a&b=c",
        "%2e%2e",
        "*",
        "{x}",
        "\u754c/\u00e9",
        "~",
        ":",
        "@",
    ]

    async def use(env):
        for name in names:
            await env.write_file(name, name)
        await env.write_file("v", "another")
        for name in names:
            assert await env.read_file(name) == name.encode()
            assert (await env.stat(name)).size == len(name.encode())
        assert await env.read_file("v") == b"another"
        await env.delete_file("v?versionId=abc")
        assert await env.read_file("v") == b"another"

    run(place, use)
    assert door.read("a%20b") == b"a%20b"


@BOTH
def test_no_request_leaves_the_prefix(near, proxy, server):
    """`..` is refused without a request, an absolute path is below the prefix, and every key sent begins with it."""
    neighbour = BucketDoor(server, "tenant2")
    neighbour.write("x", b"theirs")

    async def use(env):
        proxy.requests.clear()
        for path in ("../tenant2/x", "a/../../tenant2/x", "/../tenant2/x"):
            for call in (env.read_file(path), env.write_file(path, "1"), env.delete_file(path), env.stat(path)):
                with pytest.raises(PathOutsideRoot):
                    await call
        assert proxy.requests == []
        with pytest.raises(FileMissing):
            await env.read_file("/tenant2/x")
        await env.write_file("/tenant2/x", "mine")
        await env.write_file("a//b", "1")
        assert await env.read_file("a/b") == b"1"
        await env.write_file("./c", "2")
        assert await env.read_file("c") == b"2"
        await listed(env, recursive=True)
        assert proxy.requests
        for request in proxy.requests:
            path, _, query = unquote(request.target).partition("?")
            sent = query.partition("prefix=")[2].partition("&")[0] if "prefix=" in query else path
            assert sent.removeprefix("/test-bucket/").startswith("tenant1/"), request.target

    run({**near, "prefix": "tenant1/"}, use)
    assert neighbour.read("x") == b"theirs"
    neighbour.close()


@pytest.mark.parametrize("prefix", ["", "/", "p", "p/", "/p/", "p//q/", "p/./q"])
def test_prefix_with_and_without_slashes(place, prefix):
    """A prefix means the same directory however many slashes are around and in it."""

    async def use(env):
        await env.write_file("only-here/a", "x")
        assert await listed(env, "only-here") == [("/only-here/a", "file")]
        assert (await env.stat("only-here/a")).path == "/only-here/a"
        await env.delete_file("only-here/a")

    run({**place, "prefix": prefix}, use)


@BOTH
def test_sibling_prefix_is_never_touched(server, place):
    """An environment on `p` does not see, list or change what is in `p-2` or `pp`."""
    prefix = place["prefix"]
    doors = [BucketDoor(server, f"{prefix}{tail}") for tail in ("-2", "p", "")]
    for door in doors:
        door.write("d/a", b"x")

    async def use(env):
        assert await listed(env, recursive=True) == [("/d", "directory"), ("/d/a", "file")]
        assert await listed(env, "d") == [("/d/a", "file")]
        await env.delete_file("d/a")
        # SeaweedFS keeps an empty folder for a while.
        assert [path for path, kind in await listed(env, recursive=True) if kind == "file"] == []

    run(place, use)
    assert [door.read("d/a") for door in doors[:2]] == [b"x", b"x"]
    for door in doors:
        door.close()


def test_prefix_that_goes_up():
    """A prefix with `..` is refused when the environment is made."""
    with pytest.raises(ConfigError, match="goes up"):
        S3Environment("bucket", prefix="a/../../b")


def test_long_keys(place):
    """A key of 1,024 bytes works, a longer one is InvalidPath before any request."""
    room = 1024 - len(place["prefix"]) - 1
    path = "/".join(["n" * 200] * 5)[:room]

    async def use(env):
        await env.write_file(path, "x")
        assert await env.read_file(path) == b"x"
        with pytest.raises(InvalidPath, match="1024"):
            await env.write_file(path + "n" * (room + 1 - len(path)), "x")

    run(place, use)


@BOTH
def test_nothing_is_cached(place, door):
    """What another writer puts, replaces and deletes is seen at once, after a listing, a read and a miss of it."""

    async def use(env):
        door.write("d/one", b"1")
        assert await listed(env, "d") == [("/d/one", "file")]
        assert await env.read_file("d/one") == b"1"
        with pytest.raises(FileMissing):
            await env.read_file("d/three")
        door.write("d/two", b"2")
        door.write("d/one", b"one")
        door.write("d/three", b"3")
        assert [await env.read_file(f"d/{name}") for name in ("one", "two", "three")] == [b"one", b"2", b"3"]
        assert (await env.stat("d/one")).size == 3
        assert len(await listed(env, "d")) == 3

    run(place, use)


@pytest.mark.parametrize("server", ["moto_server"], indirect=True)
def test_keys_that_no_path_reaches(place, door):
    """Keys with empty or dot segments are listed as such, and directory markers only as directories."""
    for key in ("d/a", "d//b", "d/./c", "marked/", "trail/"):
        door.write(key, b"" if key == "marked/" else b"x")

    async def use(env):
        assert await listed(env) == [
            ("/d", "directory"),
            ("/marked", "directory"),
            ("/trail", "directory"),
        ]
        assert await listed(env, "d") == [("/d/./", "other"), ("/d//", "other"), ("/d/a", "file")]
        assert await listed(env, "marked") == []
        assert await listed(env, "trail") == [("/trail/", "other")]
        everything = await listed(env, recursive=True)
        assert ("/d//b", "other") in everything
        assert ("/d/./c", "other") in everything
        assert ("/trail/", "other") in everything
        assert (await env.stat("marked")).kind == "directory"

    run(place, use)


@BOTH
def test_file_beside_directory(place, door):
    """A store may have both `d` and `d/x`: both can be read, and both are listed."""
    door.write("d/x", b"below")

    async def use(env):
        door.write("d", b"file")
        assert await env.read_file("d") == b"file"
        assert await env.read_file("d/x") == b"below"
        assert (await env.stat("d")).kind == "file"
        assert await listed(env, "d") == [("/d/x", "file")]

    run(place, use)


@BOTH
def test_listing_is_paged(near, proxy, monkeypatch):
    """More entries than a page holds are all there, once each and sorted, with one request a page."""
    names = [f"{n:02}" for n in range(25)]
    call = S3Store.call

    async def small_pages(self, method, request, doing):
        more = {"MaxKeys": 10} if method == "list_objects_v2" else {}
        return await call(self, method, {**request, **more}, doing)

    async def use(env):
        await asyncio.gather(*(env.write_file(f"d/{name}", b"") for name in names))
        monkeypatch.setattr(S3Store, "call", small_pages)
        for recursive in (False, True):
            proxy.requests.clear()
            found = await listed(env, "d", recursive=recursive)
            assert found == [(f"/d/{name}", "file") for name in names]
            assert len(proxy.requests) == 3

    run(near, use)


@BOTH
def test_listing_of_files_and_nothing(place):
    """Listing a file is NotADirectory, of nothing FileMissing, of an empty root nothing."""

    async def use(env):
        assert await listed(env) == []
        await env.write_file("a", "x")
        with pytest.raises(NotADirectory):
            await listed(env, "a")
        with pytest.raises(FileMissing):
            await listed(env, "b")

    run(place, use)
