"""The fsspec backend: any filesystem, as far as it goes."""

import asyncio
import threading
import time
import uuid
import zipfile
from collections import Counter
from contextlib import aclosing

import pytest

import stead
from stead.errors import (
    AccessDenied,
    ConfigError,
    EnvironmentClosed,
    FileMissing,
    IsADirectory,
    SteadError,
    Unavailable,
    Unsupported,
)
from stead_fsspec import FsspecEnvironment
from stead_fsspec.errors import Throttled, translated


def run(env, use):
    async def main():
        async with env:
            return await use(env)

    return asyncio.run(main())


def test_by_name(tmp_path):
    """`create_environment` makes it by name, with the options that its class has."""
    env = stead.create_environment("fsspec", protocol="file", path=str(tmp_path))

    async def use(env):
        await env.write_file("d/a", "x")
        return await env.read_file("d/a")

    assert run(env, use) == b"x"
    assert (tmp_path / "d/a").read_bytes() == b"x"


def test_options_reach_the_filesystem(tmp_path):
    """`options` are what the filesystem's class takes."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("d/a.txt", "inside\n")
    env = FsspecEnvironment("zip", options={"fo": str(tmp_path / "a.zip")})
    assert not env.capabilities.range_read

    async def use(env):
        async with aclosing(env.list_files(".", recursive=True)) as entries:
            assert [(entry.path, entry.kind) async for entry in entries] == [("/d", "directory"), ("/d/a.txt", "file")]
        assert await env.read_file("d/a.txt") == b"inside\n"
        with pytest.raises(FileMissing):
            await env.read_file("d/b.txt")
        with pytest.raises(SteadError):
            await env.write_file("b", "x")

    run(env, use)


@pytest.mark.parametrize(
    ("protocol", "said"), [("no-such-thing", "no-such-thing"), ("a:b", "protocol"), ("", "protocol")]
)
def test_unknown_filesystem(protocol, said):
    """A filesystem that does not exist is a ConfigError, and so is what is no name of one."""
    with pytest.raises(ConfigError, match=said):
        run(FsspecEnvironment(protocol), lambda env: env.read_file("a"))


def test_options_are_not_shown():
    """Options of the filesystem, which may be secrets, stay unseen."""
    env = FsspecEnvironment("memory", "/x", options={"password": "my-secret"})
    assert "my-secret" not in repr(env) + repr(env._store._place)


def test_listings_are_of_now(tmp_path):
    """What another writer does is seen at once."""

    async def use(env):
        async with aclosing(env.list_files(".")) as entries:
            assert [entry.path async for entry in entries] == []
        (tmp_path / "new").write_text("x")
        async with aclosing(env.list_files(".")) as entries:
            assert [entry.path async for entry in entries] == ["/new"]
        assert await env.read_file("new") == b"x"

    run(FsspecEnvironment("file", str(tmp_path)), use)


def test_two_environments_share_nothing():
    """Each environment has a filesystem of its own, although fsspec would give both the same."""

    async def main():
        place = f"/{uuid.uuid4()}"
        async with FsspecEnvironment("memory", place) as first, FsspecEnvironment("memory", place) as second:
            assert first._store.filesystem is not second._store.filesystem
            await first.write_file("a", "x")
            assert await second.read_file("a") == b"x"

    asyncio.run(main())


def test_a_producer_is_closed_when_its_write_is_refused(tmp_path):
    """Also when the write is refused before its first piece."""

    class Producer:
        closed = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            pytest.fail("asked")

        async def aclose(self):
            self.closed += 1

    async def use(env):
        await env.write_file("folder/a", "x")
        producer = Producer()
        with pytest.raises(IsADirectory):
            await env.write_file("folder", producer)
        return producer.closed

    assert run(FsspecEnvironment("file", str(tmp_path / "root")), use) == 1


def test_failed_write_leaves_the_old_and_no_spool(tmp_path, monkeypatch):
    """A large write whose producer fails leaves the old content, and the spool file is gone."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))

    async def failing():
        for _ in range(12):
            yield bytes(1 << 20)
        assert list(spool.iterdir())
        raise ZeroDivisionError

    async def use(env):
        await env.write_file("a", "old")
        with pytest.raises(ZeroDivisionError):
            await env.write_file("a", failing())
        assert await env.read_file("a") == b"old"

    run(FsspecEnvironment("file", str(tmp_path / "root")), use)
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize("also_cancelled", [False, True])
def test_closing_ends_a_write(tmp_path, monkeypatch, also_cancelled):
    """A write under way is EnvironmentClosed and leaves no spool; one that was cancelled itself stays cancelled."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    later = []

    async def write(env, sent):
        async def endless():
            yield bytes(12 << 20)
            sent.set()
            await asyncio.Event().wait()

        try:
            await env.write_file("a", endless())
        finally:
            later.append(asyncio.current_task().cancelling())

    async def main():
        sent = asyncio.Event()
        env = FsspecEnvironment("memory", f"/{uuid.uuid4()}")
        task = asyncio.create_task(write(env, sent))
        await sent.wait()
        closing = asyncio.create_task(env.close())
        if also_cancelled:
            await asyncio.sleep(0)
            task.cancel()
        await closing
        with pytest.raises(asyncio.CancelledError if also_cancelled else EnvironmentClosed):
            await task

    asyncio.run(main())
    assert (later, list(tmp_path.iterdir())) == ([int(also_cancelled)], [])


def test_versions_are_the_same_however_they_are_asked_for():
    """`list_files`, `stat` and `write_file` give an unchanged file one version."""

    async def use(env):
        written = await env.write_file("a", "x")
        async with aclosing(env.list_files(".")) as entries:
            return {written.version, (await env.stat("a")).version, *[entry.version async for entry in entries]}

    assert len(run(FsspecEnvironment("memory", f"/{uuid.uuid4()}"), use)) == 1


def test_cancelled_call_waits_for_its_thread():
    """A call that is cancelled ends when the filesystem has answered: nothing goes on behind the caller's back."""
    going, may_go = threading.Event(), threading.Event()

    async def use(env):
        def slow(path, data):
            going.set()
            may_go.wait(10)

        env._store.filesystem.pipe_file = slow
        task = asyncio.create_task(env.write_file("a", "x"))
        await asyncio.to_thread(going.wait, 10)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        may_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(FsspecEnvironment("memory", f"/{uuid.uuid4()}"), use)


def test_writes_of_one_file_wait_for_each_other():
    """Most filesystems write in place: two writes of one file at once do not overlap, those of two files may."""
    at_once, most = Counter(), Counter()

    async def use(env):
        def slow(path, data):
            name = path.rpartition("/")[2]
            at_once[name] += 1
            most[name] = max(most[name], at_once[name])
            time.sleep(0.02)
            at_once[name] -= 1

        await env.write_file("a", "x")
        await env.write_file("b", "x")
        env._store.filesystem.pipe_file = slow
        await asyncio.gather(*(env.write_file(name, "y") for name in "ab" * 4))

    run(FsspecEnvironment("memory", f"/{uuid.uuid4()}"), use)
    assert most == {"a": 1, "b": 1}


class _WithStatus(Exception):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (FileNotFoundError("x"), FileMissing),
        (PermissionError("x"), AccessDenied),
        (OSError("Forbidden: a\nb"), AccessDenied),
        (OSError(13, "x"), AccessDenied),
        (OSError(16, "x"), Throttled),
        (ConnectionResetError(), Unavailable),
        (TimeoutError(), Unavailable),
        (_WithStatus(401), AccessDenied),
        (_WithStatus(429), Throttled),
        (_WithStatus(502), Unavailable),
        (NotImplementedError(), Unsupported),
        (OSError("anything"), SteadError),
        (ValueError("x"), SteadError),
        (KeyError("x"), SteadError),
    ],
)
def test_errors_of_filesystems(raised, kind):
    """What filesystems raise has one meaning each; what has none is never taken for a missing file."""
    with pytest.raises(SteadError) as caught, translated("reading", "a"):
        raise raised
    assert type(caught.value) is kind
    assert caught.value.__cause__ is raised
