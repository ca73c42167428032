"""Laws about replacing a file: old or new in full, whoever writes, fails or looks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from stead.conformance.doors import Faults, RawDoor
from stead.conformance.folder import Folder
from stead.conformance.law import Locked, law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import names_in, sh
from stead.environment import Environment
from stead.errors import AccessDenied, FileChanged, FileExists, FileMissing, SteadError

__all__ = ["ReplaceLaws"]

_MIB = 1 << 20


class ReplaceLaws(LawSettings):
    """Group B, continued: replacing, conditions, permissions."""

    @law("B21")
    async def test_write_failed_keeps_old(self, env: Environment, here: Folder) -> None:
        """When the producer of a write fails, its error passes unchanged and the old content is intact."""
        await env.write_file(here / "a", "old content")
        with pytest.raises(ZeroDivisionError):
            await env.write_file(here / "a", _failing(b"new " * _MIB))
        assert await env.read_file(here / "a") == b"old content"

    @law("B21")
    async def test_write_failed_makes_nothing(self, env: Environment, here: Folder) -> None:
        """When the producer of a first write fails, there is no file."""
        await here.make(env)
        with pytest.raises(ZeroDivisionError):
            await env.write_file(here / "a", _failing(b"new " * _MIB))
        with pytest.raises(FileMissing):
            await env.read_file(here / "a")

    @law("B22")
    async def test_write_cancelled(self, env: Environment, here: Folder) -> None:
        """A cancelled write leaves the old or the new content, never a mix and never nothing."""
        new = b"n" * (4 * _MIB)
        for ticks in range(12):
            await env.write_file(here / "a", b"old")
            task = asyncio.create_task(env.write_file(here / "a", new))
            await asyncio.sleep(ticks / 2000)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert await env.read_file(here / "a") in (b"old", new)

    @law("B23")
    async def test_write_one_path_at_once(self, env: Environment, here: Folder) -> None:
        """Concurrent writes of one path leave one of the inputs in full."""
        inputs = [bytes([65 + n]) * (_MIB + n) for n in range(8)]
        await asyncio.gather(*(env.write_file(here / "a", content) for content in inputs))
        assert await env.read_file(here / "a") in inputs

    @law("B25", needs="atomic_write")
    async def test_write_atomic(self, env: Environment, here: Folder) -> None:
        """A reader during an overwrite sees the old or the new content in full."""
        versions = (b"a" * (3 * _MIB), b"b" * (2 * _MIB))
        await env.write_file(here / "a", versions[0])

        async def rewrite() -> None:
            for turn in range(1, 21):
                await env.write_file(here / "a", versions[turn % 2])

        writer = asyncio.create_task(rewrite())
        while not writer.done():
            assert await env.read_file(here / "a") in versions
            await asyncio.sleep(0)
        await writer

    @law("B26")
    async def test_write_seen_by_second(self, env: Environment, here: Folder, second: Environment) -> None:
        """What was written is visible at once to a second instance, also when it has read the old content."""
        async with second:
            for text in (b"first", b"second"):
                await env.write_file(here / "a", text)
                assert await second.read_file(here / "a") == text

    @law("B2")
    async def test_write_seen_behind(self, env: Environment, here: Folder, raw: RawDoor) -> None:
        """What was written is what lies behind the environment, byte for byte."""
        await env.write_file(here / "a", bytes(range(256)))
        assert await raw.read(here / "a") == bytes(range(256))

    @law("B27", needs="create_only")
    async def test_write_create_only(self, env: Environment, here: Folder) -> None:
        """`if_absent` makes a new file, and refuses an existing one with FileExists and no change."""
        await env.write_file(here / "a", "mine", if_absent=True)
        with pytest.raises(FileExists):
            await env.write_file(here / "a", "other", if_absent=True)
        assert await env.read_file(here / "a") == b"mine"

    @law("B27", needs="create_only")
    async def test_write_create_only_one_winner(self, env: Environment, here: Folder) -> None:
        """Of ten concurrent `if_absent` writes of one path, one succeeds, and its content is there."""
        writes = (env.write_file(here / "a", f"writer {n}", if_absent=True) for n in range(10))
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        winners = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, FileExists)]
        assert len(winners) == 1, outcomes
        assert await env.read_file(here / "a") == f"writer {winners[0]}".encode()

    @law("B28", needs="conditional_write")
    async def test_write_if_version(self, env: Environment, here: Folder) -> None:
        """`if_version` replaces that version, and refuses any other with FileChanged and no change."""
        first = await env.write_file(here / "a", "one")
        await env.write_file(here / "a", "two", if_version=first.version)
        with pytest.raises(FileChanged):
            await env.write_file(here / "a", "three", if_version=first.version)
        assert await env.read_file(here / "a") == b"two"

    @law("B28", needs="conditional_write")
    async def test_write_if_version_of_missing(self, env: Environment, here: Folder) -> None:
        """`if_version` of a file that is not there is FileChanged, and makes nothing."""
        await here.make(env)
        with pytest.raises(FileChanged):
            await env.write_file(here / "a", "x", if_version="1")
        with pytest.raises(FileMissing):
            await env.read_file(here / "a")

    @law("B28", needs=("conditional_write", "stat"))
    async def test_write_version_is_stat_version(self, env: Environment, here: Folder) -> None:
        """The version that a write returns is that of the next `stat`."""
        info = await env.write_file(here / "a", "x")
        assert info.version is not None
        assert info.version == (await env.stat(here / "a")).version

    @law("B28", needs=("conditional_write", "create_only"))
    async def test_write_one_condition(self, env: Environment, here: Folder) -> None:
        """`if_absent` and `if_version` together are a ValueError."""
        with pytest.raises(ValueError, match="if_"):
            await env.write_file(here / "a", "x", if_absent=True, if_version="1")

    @law("B29", needs=("execute", "modes"), permissions=True)
    async def test_write_read_only_file(self, env: Environment, here: Folder) -> None:
        """A file without write permission is refused with AccessDenied, although it could be replaced."""
        await env.write_file(here / "a", "old")
        await sh(env, "chmod 444 a", here)
        if (await env.execute("echo x >> a", cwd=here.path)).exit_code == 0:
            raise Locked("commands run as root, whom the system refuses nothing")
        with pytest.raises(AccessDenied):
            await env.write_file(here / "a", "new")
        assert await env.read_file(here / "a") == b"old"

    @law("B29", needs=("execute", "modes"), permissions=True)
    async def test_write_read_only_folder(self, env: Environment, here: Folder) -> None:
        """A folder without write permission is AccessDenied, and nothing is made in it."""
        await env.write_file(here / "d/a", "old")
        await sh(env, "chmod 555 d", here)
        try:
            if (await env.execute("echo x > d/probe", cwd=here.path)).exit_code == 0:
                raise Locked("commands run as root, whom the system refuses nothing")
            with pytest.raises(AccessDenied):
                await env.write_file(here / "d/b", "new")
            assert await names_in(env, here / "d") == ["a"]
        finally:
            await sh(env, "chmod 755 d", here)

    @law("B30", needs=("execute", "modes"))
    async def test_write_keeps_mode(self, env: Environment, here: Folder) -> None:
        """Permission bits of an existing file are kept when it is replaced."""
        for bits, shown in (("755", "-rwxr-xr-x"), ("640", "-rw-r-----")):
            await env.write_file(here / "a", "old")
            await sh(env, f"chmod {bits} a", here)
            await env.write_file(here / "a", "new")
            assert (await sh(env, "ls -l a", here)).startswith(shown)

    @law("B30", needs=("execute", "modes"))
    async def test_write_new_mode(self, env: Environment, here: Folder) -> None:
        """A new file has the permission bits of a file that a command makes."""
        await env.write_file(here / "a", "x")
        await sh(env, "(umask 022; echo x > b)", here)
        listed = (await sh(env, "ls -l a b", here)).splitlines()
        assert listed[0].split()[0].rstrip(".+@") == listed[1].split()[0].rstrip(".+@") == "-rw-r--r--"

    @law("B30", needs=("execute", "modes"))
    async def test_write_keeps_owner(self, env: Environment, here: Folder) -> None:
        """The owner of an existing file is kept when it is replaced."""
        await env.write_file(here / "a", "old")
        if (await env.execute("chown 12345:12345 a", cwd=here.path)).exit_code != 0:
            raise Locked("not running as root, so no file can be given to another owner")
        await env.write_file(here / "a", "new")
        assert (await sh(env, "ls -ln a", here)).split()[2:4] == ["12345", "12345"]

    @law("B31", needs="list_files")
    async def test_write_leaves_no_temporaries(self, env: Environment, here: Folder) -> None:
        """After a write that succeeded, one that failed and one that was cancelled, only the file is there."""
        await _three_writes(env, here)
        assert await names_in(env, here.path) == ["a"]

    @law("B31")
    async def test_write_leaves_no_temporaries_behind(self, env: Environment, here: Folder, raw: RawDoor) -> None:
        """Behind the environment no temporary file is left either."""
        await _three_writes(env, here)
        assert await raw.names(here.path) == ["a"]

    @law("B32", needs=("execute", "symlinks"))
    async def test_write_through_link(self, env: Environment, here: Folder) -> None:
        """Writing through a link inside the root changes its target and keeps the link."""
        await env.write_file(here / "d/target", "old")
        await sh(env, "ln -s d/target link", here)
        await env.write_file(here / "link", "new")
        assert await env.read_file(here / "d/target") == b"new"
        assert (await env.execute("test -L link", cwd=here.path)).exit_code == 0

    @law("B33")
    async def test_write_full_store(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A write for which there is no room fails, and the old content is intact."""
        await env.write_file(here / "a", "old")
        async with faulty("full") as full:
            with pytest.raises((SteadError, OSError)) as caught:
                await full.write_file(here / "a", b"n" * _MIB)
        assert not isinstance(caught.value, FileMissing)
        assert await env.read_file(here / "a") == b"old"


async def _failing(first: bytes) -> AsyncIterator[bytes]:
    yield first
    raise ZeroDivisionError


async def _three_writes(env: Environment, here: Folder) -> None:
    await env.write_file(here / "a", "one")
    with pytest.raises(ZeroDivisionError):
        await env.write_file(here / "a", _failing(b"two"))
    task = asyncio.create_task(env.write_file(here / "a", b"three" * _MIB))
    await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.wait([task])
