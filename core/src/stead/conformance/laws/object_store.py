"""Laws about what is far away: written in parts, refused, throttled, cut and damaged on its way."""

import asyncio
import string
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from functools import cache

import pytest

from stead.conformance.doors import Faults, RawDoor
from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.conformance.streams import collect
from stead.environment import Environment
from stead.errors import AccessDenied, FileChanged, FileExists, FileMissing, SteadError, StreamInterrupted, Unavailable
from stead.results import LineRange

__all__ = ["ObjectStoreLaws"]

_MIB = 1 << 20
_PRINTABLE = "".join(c for c in string.printable if c.isprintable() and c not in "/.")


@cache
def _data() -> bytes:
    """8 MiB of numbered lines, made when the first law wants them."""
    return b"".join(b"%07d\n" % n for n in range(_MIB))


class ObjectStoreLaws(LawSettings):
    """Group I: object stores, and whatever else is behind a network."""

    @law("I1", needs=("list_files", "delete_file"))
    async def test_object_listed_at_once(self, env: Environment, here: Folder) -> None:
        """A file is listed as soon as it is written, and not listed as soon as it is deleted."""
        await here.make(env)
        for name in ("a", "b"):
            await env.write_file(here / name, "x")
            assert name in await _names(env, here)
            await env.delete_file(here / name)
            assert name not in await _names(env, here)

    @law("I2", needs="streaming_write")
    async def test_object_parts_removed(self, env: Environment, here: Folder, raw: RawDoor) -> None:
        """A large write that fails, or is cancelled, leaves no parts behind."""
        with pytest.raises(ZeroDivisionError):
            await env.write_file(here / "a", _source(20, fails=True))
        for seconds in (0.01, 0.1, 0.3):
            task = asyncio.create_task(env.write_file(here / "b", _source(64)))
            await asyncio.sleep(seconds)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert await raw.unfinished(here.path) == []

    @law("I2", needs=("streaming_write", "create_only"))
    async def test_object_parts_create_only(self, env: Environment, here: Folder) -> None:
        """`if_absent` holds for a write in parts too, and the old content stays."""
        await env.write_file(here / "a", "old")
        with pytest.raises(FileExists):
            await env.write_file(here / "a", _source(20), if_absent=True)
        assert await env.read_file(here / "a") == b"old"
        assert (await env.write_file(here / "b", _source(20), if_absent=True)).size == 20 * _MIB

    @law("I3")
    async def test_object_throttled(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A service that asks twice to come back later is asked again: nothing is lost and nothing fails."""
        await env.write_file(here / "a", "x")
        async with faulty("throttled") as slow:
            assert await slow.read_file(here / "a") == b"x"
            await slow.write_file(here / "b", "y")
        assert await env.read_file(here / "b") == b"y"

    @law("I4")
    async def test_object_expired(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """Credentials that have expired are AccessDenied, and the message says so."""
        await env.write_file(here / "a", "x")
        broken = faulty("expired")
        with pytest.raises(AccessDenied, match="expired"):
            await broken.read_file(here / "a")
        await broken.close()

    @law("I5", started=False)
    async def test_object_no_store(self, faulty: Faults) -> None:
        """A bucket that does not exist is an error at start: neither a missing file nor a refusal."""
        broken = faulty("no-store")
        with pytest.raises(SteadError) as caught:
            await broken.start()
        await broken.close()
        assert not isinstance(caught.value, (FileMissing, AccessDenied))

    @law("I6")
    async def test_object_printable_names(self, env: Environment, here: Folder) -> None:
        """A name may have every printable character but the slash, alone and all together."""
        names = [_PRINTABLE, *(f"{c}{c}" for c in _PRINTABLE)]
        await asyncio.gather(*(env.write_file(here / name, name) for name in names))
        found = await asyncio.gather(*(env.read_file(here / name) for name in names))
        assert [data.decode() for data in found] == names

    @law("I7", needs="list_files")
    async def test_object_slashes(self, env: Environment, here: Folder) -> None:
        """A folder is the same with and without a slash at its end; so is the root."""
        await env.write_file(here / "d/a", "x")
        assert await _paths(env, here / "d") == await _paths(env, here / "d/") == [here.absolute(env, "d/a")]
        assert await _paths(env, ".") == await _paths(env, str(env.working_dir))

    @law("I8", needs=("streaming_write", "conditional_write"))
    async def test_object_parts_if_version(self, env: Environment, here: Folder) -> None:
        """`if_version` holds for a write in parts too: another version stays as it is."""
        first = await env.write_file(here / "a", "one")
        second = await env.write_file(here / "a", "two")
        with pytest.raises(FileChanged):
            await env.write_file(here / "a", _source(20), if_version=first.version)
        assert await env.read_file(here / "a") == b"two"
        assert (await env.write_file(here / "a", _source(20), if_version=second.version)).size == 20 * _MIB

    @law("I9")
    async def test_object_cut_lines(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A body that ends early never makes a file seem to have fewer lines."""
        await env.write_file(here / "a", _data())
        async with faulty("cut") as broken:
            with suppress(StreamInterrupted, Unavailable):
                assert (await broken.read_lines(here / "a", LineRange(end=1))).total_lines == _MIB

    @law("I10")
    async def test_object_corrupt(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """Bytes that were damaged on their way are an error at the latest at the end of the file."""
        await env.write_file(here / "a", _data())
        async with faulty("corrupt") as broken:
            with suppress(StreamInterrupted, Unavailable):
                assert await broken.read_file(here / "a") == _data()

    @law("I11", needs="range_read")
    async def test_object_range_reset(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A connection that breaks in the middle of a range is resumed at the right byte, or is an error."""
        await env.write_file(here / "a", _data())
        async with faulty("reset") as broken:
            with suppress(StreamInterrupted, Unavailable):
                found = await collect(broken.read_file_stream(here / "a", offset=3, length=7 * _MIB))
                assert found == _data()[3 : 3 + 7 * _MIB]


async def _source(mebibytes: int, *, fails: bool = False) -> AsyncIterator[bytes]:
    for _ in range(mebibytes):
        yield bytes(_MIB)
        await asyncio.sleep(0)
    if fails:
        raise ZeroDivisionError


async def _paths(env: Environment, path: str) -> list[str]:
    async with aclosing(env.list_files(path)) as entries:
        return [entry.path async for entry in entries]


async def _names(env: Environment, here: Folder) -> list[str]:
    return [path.rpartition("/")[2] for path in await _paths(env, here.path)]
