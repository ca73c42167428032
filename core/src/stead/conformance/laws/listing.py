"""Laws about listing, stat and delete."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from stead.conformance.doors import RawDoor
from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import sh
from stead.environment import Environment
from stead.errors import FileMissing, IsADirectory, NotADirectory, PathOutsideRoot
from stead.results import FileInfo

__all__ = ["ListingLaws"]


class ListingLaws(LawSettings):
    """Group H: listing, stat, delete."""

    @law("H1", needs="list_files")
    async def test_list_one_level(self, env: Environment, here: Folder) -> None:
        """A listing has files and directories of that level alone, each with its kind and size."""
        await _three_files(env, here)
        entries = [(entry.path, entry.kind, entry.size) for entry in await _listed(env, here / "d")]
        absolute = here.absolute(env, "d")
        assert entries == [(f"{absolute}/a", "file", 3), (f"{absolute}/sub", "directory", 0)]

    @law("H1", needs="list_files")
    async def test_list_paths_usable(self, env: Environment, here: Folder) -> None:
        """The path of each listed file can be given back to every method."""
        await _three_files(env, here)
        files = [entry for entry in await _listed(env, here.path, recursive=True) if entry.kind == "file"]
        assert [await env.read_file(entry.path) for entry in files] == [b"one", b"two", b"three"]

    @law("H2", needs="list_files")
    async def test_list_missing(self, env: Environment, here: Folder) -> None:
        """A missing directory is FileMissing at the first step, not an empty listing."""
        await here.make(env)
        with pytest.raises(FileMissing):
            await _listed(env, here / "no-such-folder")

    @law("H2", needs=("list_files", "execute"))
    async def test_list_empty(self, env: Environment, here: Folder) -> None:
        """An empty directory yields nothing."""
        await here.make(env)
        await sh(env, "mkdir empty", here)
        assert await _listed(env, here / "empty") == []

    @law("H3", needs="list_files")
    async def test_list_file(self, env: Environment, here: Folder) -> None:
        """Listing a file is NotADirectory."""
        await env.write_file(here / "a", "x")
        with pytest.raises(NotADirectory):
            await _listed(env, here / "a")

    @law("H4", needs="list_files")
    async def test_list_many(self, env: Environment, here: Folder) -> None:
        """More than a thousand entries are all there, once each."""
        names = [f"{n:04d}" for n in range(1_100)]
        for start in range(0, len(names), 50):
            await asyncio.gather(*(env.write_file(here / name, b"") for name in names[start : start + 50]))
        found = [entry.path.rpartition("/")[2] for entry in await _listed(env, here.path)]
        assert found == names

    @law("H5", needs="list_files")
    async def test_list_sorted(self, env: Environment, here: Folder) -> None:
        """A listing is sorted by path, the recursive one too."""
        for name in ("b", "a", "B", "a-b/x", "a/z", "\u754c", "10", "9"):
            await env.write_file(here / f"f/{name}" if name != "a" else here / "f/a.txt", "x")
        for recursive in (False, True):
            paths = [entry.path for entry in await _listed(env, here / "f", recursive=recursive)]
            assert paths == sorted(paths)

    @law("H6", needs="list_files")
    async def test_list_sibling_prefix(self, env: Environment, here: Folder) -> None:
        """A listing never includes a sibling whose name starts with the same letters."""
        for path in ("d/a", "d-2/b", "dd/c", "d.txt"):
            await env.write_file(here / path, "x")
        found = await _listed(env, here / "d", recursive=True)
        assert [entry.path for entry in found] == [here.absolute(env, "d/a")]

    @law("H7", needs="list_files")
    async def test_list_recursive(self, env: Environment, here: Folder) -> None:
        """A recursive listing has all that is below, directories too, with and without a trailing slash."""
        await _three_files(env, here)
        for path in (here / "d", here / "d/"):
            found = [(entry.path, entry.kind) for entry in await _listed(env, path, recursive=True)]
            below = here.absolute(env, "d")
            names = [("a", "file"), ("sub", "directory"), ("sub/b", "file"), ("sub/c", "file")]
            assert found == [(f"{below}/{name}", kind) for name, kind in names]

    @law("H8", needs="stat")
    async def test_stat_file(self, env: Environment, here: Folder) -> None:
        """A file has its size, its absolute path and, where there is one, a time in UTC that is now."""
        await env.write_file(here / "a", b"12345")
        info = await env.stat(here / "a")
        assert (info.kind, info.size, info.path) == ("file", 5, here.absolute(env, "a"))
        if info.modified is not None:
            assert info.modified.utcoffset() == timedelta(0)
            assert abs(info.modified - datetime.now(UTC)) < timedelta(minutes=5)

    @law("H8", needs="stat")
    async def test_stat_directory(self, env: Environment, here: Folder) -> None:
        """A directory is one, with size 0, with and without a trailing slash; so is the working directory."""
        await env.write_file(here / "d/a", "x")
        for path in (here / "d", here / "d/", ".", str(env.working_dir)):
            info = await env.stat(path)
            assert (info.kind, info.size) == ("directory", 0)

    @law("H8", needs="stat")
    async def test_stat_missing(self, env: Environment, here: Folder) -> None:
        """What is missing is FileMissing; what lies below a file is NotADirectory."""
        await env.write_file(here / "a", "x")
        with pytest.raises(FileMissing):
            await env.stat(here / "no-such-file")
        with pytest.raises(NotADirectory):
            await env.stat(here / "a/b")

    @law("H8", needs="stat")
    async def test_stat_version(self, env: Environment, here: Folder) -> None:
        """A version, where there is one, changes whenever the content does, and not otherwise."""
        await env.write_file(here / "a", "one")
        first = (await env.stat(here / "a")).version
        assert (await env.stat(here / "a")).version == first
        await env.write_file(here / "a", "two")
        assert first is None or (await env.stat(here / "a")).version != first

    @law("H9", needs=("list_files", "stat"))
    async def test_list_folder_from_behind(self, env: Environment, here: Folder, raw: RawDoor) -> None:
        """A folder that was made behind the environment is a directory, and no marker of it is shown."""
        await raw.write(here / "d/a", b"x")
        found = [(entry.path, entry.kind) for entry in await _listed(env, here.path, recursive=True)]
        assert found == [(here.absolute(env, "d"), "directory"), (here.absolute(env, "d/a"), "file")]

    @law("H10", needs="delete_file")
    async def test_delete_file(self, env: Environment, here: Folder) -> None:
        """A deleted file is missing, and its neighbours stay."""
        await env.write_file(here / "a", "x")
        await env.write_file(here / "b", "y")
        await env.delete_file(here / "a")
        with pytest.raises(FileMissing):
            await env.read_file(here / "a")
        assert await env.read_file(here / "b") == b"y"

    @law("H10", needs="delete_file")
    async def test_delete_missing(self, env: Environment, here: Folder) -> None:
        """Deleting what is missing is FileMissing, the second time too."""
        await env.write_file(here / "a", "x")
        await env.delete_file(here / "a")
        for name in ("a", "never"):
            with pytest.raises(FileMissing):
                await env.delete_file(here / name)

    @law("H10", needs="delete_file")
    async def test_delete_directory(self, env: Environment, here: Folder) -> None:
        """Deleting a directory is IsADirectory, and what is in it stays."""
        await env.write_file(here / "d/a", "x")
        with pytest.raises(IsADirectory):
            await env.delete_file(here / "d")
        assert await env.read_file(here / "d/a") == b"x"

    @law("H10", needs="delete_file")
    async def test_delete_root(self, env: Environment, here: Folder) -> None:
        """The working directory is never deleted, nor what is above it."""
        await env.write_file(here / "a", "x")
        for path in (".", "./", str(env.working_dir), ".."):
            with pytest.raises((IsADirectory, PathOutsideRoot)):
                await env.delete_file(path)
        assert await env.read_file(here / "a") == b"x"

    @law("H10", needs="delete_file")
    async def test_delete_many(self, env: Environment, here: Folder) -> None:
        """A hundred files can be deleted at once."""
        names = [here / f"{n}" for n in range(100)]
        await asyncio.gather(*(env.write_file(name, b"") for name in names))
        await asyncio.gather(*(env.delete_file(name) for name in names))
        for name in names[::10]:
            with pytest.raises(FileMissing):
                await env.read_file(name)

    @law("H10", needs=("delete_file", "execute", "symlinks"))
    async def test_delete_link(self, env: Environment, here: Folder) -> None:
        """Deleting a link removes the link, never its target, also when it dangles or leads out."""
        await env.write_file(here / "target", "x")
        await sh(env, "ln -s target in; ln -s nothing dangling; ln -s /etc/passwd out", here)
        for name in ("in", "dangling", "out"):
            await env.delete_file(here / name)
        assert await sh(env, "ls", here) == "target\n"
        assert await env.read_file(here / "target") == b"x"

    @law("H14", needs=("list_files", "execute", "symlinks"))
    async def test_list_link_loop(self, env: Environment, here: Folder) -> None:
        """Linked directories are listed as what they lead to and never walked, so that a loop ends."""
        await env.write_file(here / "d/a", "x")
        await sh(env, "ln -s ../d d/again; ln -s nothing dangling", here)
        found = [(entry.path, entry.kind) for entry in await _listed(env, here.path, recursive=True)]
        names = [("d", "directory"), ("d/a", "file"), ("d/again", "directory"), ("dangling", "other")]
        assert found == [(here.absolute(env, name), kind) for name, kind in names]


async def _listed(env: Environment, path: str, *, recursive: bool = False) -> list[FileInfo]:
    async with aclosing(env.list_files(path, recursive=recursive)) as entries:
        return [entry async for entry in entries]


async def _three_files(env: Environment, here: Folder) -> None:
    for path, text in (("d/sub/c", "three"), ("d/a", "one"), ("d/sub/b", "two")):
        await env.write_file(here / path, text)
