"""Laws about paths: one rule, nothing leaves the root, and every name is literal."""

from collections.abc import Awaitable
from contextlib import aclosing
from pathlib import PurePosixPath
from typing import Any

import pytest

from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import sh
from stead.conformance.streams import collect
from stead.environment import Environment
from stead.errors import FileMissing, InvalidPath, PathOutsideRoot

__all__ = ["PathLaws"]

_ODD_NAMES = (
    "with space", "'single'", '"double"', "$HOME", "${x}", "`id`", "a;b", "a&b", "a|b", "new\nline", "-dash", "--",
    "*", "?", "[a]", "{a,b}", "!", "#hash", "%41", "a?b", "a+b", "~", "~root", "back\\slash", "tab\there", "(x)", "\u754c",
)  # fmt: skip


class PathLaws(LawSettings):
    """Group F: paths."""

    @law("F1")
    async def test_path_relative(self, env: Environment, here: Folder) -> None:
        """A relative path starts at the working directory, and means the absolute path in it."""
        await env.write_file(here / "a", "x")
        assert await env.read_file(here.absolute(env, "a")) == b"x"

    @law("F2")
    async def test_path_absolute(self, env: Environment, here: Folder) -> None:
        """An absolute path inside the root is accepted by reading, streaming and writing."""
        path = here.absolute(env, "a")
        info = await env.write_file(path, "x")
        assert info.path == path
        assert await env.read_file(path) == await collect(env.read_file_stream(path)) == b"x"

    @law("F3")
    async def test_path_dotdot_escape(self, env: Environment) -> None:
        """`..` out of the root is PathOutsideRoot for every method."""
        for path in ("../stead-outside", "a/../../stead-outside", "../" * 40 + "etc/hostname"):
            await _all_refuse(env, path)

    @law("F3")
    async def test_path_absolute_escape(self, env: Environment) -> None:
        """An absolute path outside the root is PathOutsideRoot for every method."""
        root = self.root_below(env)
        for path in (str(root.parent / "stead-outside"), "/stead-outside", f"{root}/../stead-outside"):
            await _all_refuse(env, path)

    @law("F4")
    async def test_path_dotdot_inside(self, env: Environment, here: Folder) -> None:
        """`..` that stays inside, or leaves and comes back, is accepted."""
        await env.write_file(here / "d/a", "x")
        await env.write_file(here / "b", "y")
        assert await env.read_file(here / "d/../b") == b"y"
        assert await env.read_file(here / "../" + here.path.rpartition("/")[2] + "/d/a") == b"x"

    @law("F5")
    async def test_path_two_dots_in_name(self, env: Environment, here: Folder) -> None:
        """A name that merely contains two dots is a name."""
        for name in ("a..b", "..a", "a..", "...", "..d/b.."):
            await env.write_file(here / name, name)
            assert await env.read_file(here / name) == name.encode()

    @law("F6")
    async def test_path_sibling_outside(self, env: Environment) -> None:
        """A sibling of the root that shares its prefix is outside."""
        root = self.root_below(env)
        await _all_refuse(env, f"{root}-sibling/a")
        await _all_refuse(env, f"../{root.name}-sibling/a")

    @law("F7", needs=("execute", "symlinks"))
    async def test_path_link_out(self, env: Environment, here: Folder) -> None:
        """A link that leads out of the root is PathOutsideRoot for reading and writing, also a dangling one."""
        root = self.root_below(env)
        await here.make(env)
        await sh(env, f"ln -s /etc/passwd out; ln -s '{root.parent}/stead-nothing-here' dangling", here)
        for name in ("out", "dangling"):
            for call in (env.read_file(here / name), env.write_file(here / name, "x")):
                await _outside(call)
        assert (await env.execute(["test", "-e", f"{root.parent}/stead-nothing-here"])).exit_code == 1

    @law("F8", needs=("execute", "symlinks"))
    async def test_path_parent_link_out(self, env: Environment, here: Folder) -> None:
        """A path through a linked directory that leads out is PathOutsideRoot."""
        self.root_below(env)
        await here.make(env)
        await sh(env, "ln -s /etc out; ln -s / top", here)
        for path in (here / "out/passwd", here / "top/etc/passwd", here / "out/../etc/passwd"):
            for call in (env.read_file(path), env.write_file(path, "x")):
                await _outside(call)

    @law("F8", needs=("execute", "symlinks"))
    async def test_path_link_inside(self, env: Environment, here: Folder) -> None:
        """A link that stays inside is followed, be it relative or absolute, to a file or through a directory."""
        await env.write_file(here / "d/a", "x")
        await sh(env, f"ln -s d rel; ln -s '{here.absolute(env, 'd')}' abs; ln -s rel/a file", here)
        for path in ("rel/a", "abs/a", "file"):
            assert await env.read_file(here / path) == b"x"

    @law("F9")
    async def test_path_nul(self, env: Environment, here: Folder) -> None:
        """NUL in a path, or a lone surrogate, is InvalidPath."""
        for path in (here / "a\0b", "\0", here / "a\ud83d"):
            for call in (env.read_file(path), env.write_file(path, "x")):
                with pytest.raises(InvalidPath):
                    await call

    @law("F10")
    async def test_path_odd_names(self, env: Environment, here: Folder) -> None:
        """Spaces, quotes, shell, glob and URL characters, newlines and leading dashes are literal in names."""
        for number, name in enumerate(_ODD_NAMES):
            await env.write_file(here / name, f"{number}")
        found = [await env.read_file(here / name) for name in _ODD_NAMES]
        assert found == [f"{number}".encode() for number in range(len(_ODD_NAMES))]

    @law("F10", needs="list_files")
    async def test_path_odd_names_listed(self, env: Environment, here: Folder) -> None:
        """Odd names are listed as they were written."""
        for name in _ODD_NAMES:
            await env.write_file(here / name, "x")
        async with aclosing(env.list_files(here.path)) as entries:
            found = {entry.path.removeprefix(here.absolute(env) + "/") async for entry in entries}
        assert found == set(_ODD_NAMES)

    @law("F11")
    async def test_path_runs_nothing(self, env: Environment, here: Folder) -> None:
        """A crafted name never runs as a command."""
        for name in ("$(touch pwned)", "`touch pwned`", "; touch pwned;", "x' ; touch pwned ; '", "\ntouch pwned\n"):
            await env.write_file(here / name, "x")
            assert await env.read_file(here / name) == b"x"
        for path in (here / "pwned", "pwned"):
            with pytest.raises(FileMissing):
                await env.read_file(path)

    @law("F12")
    async def test_path_unicode(self, env: Environment, here: Folder) -> None:
        """Composed and decomposed names each reach what was written under them last."""
        for name in ("caf\u00e9", "cafe\u0301", "\u754c\u9762", "\U0001f600"):
            await env.write_file(here / name, name)
            assert await env.read_file(here / name) == name.encode()

    @law("F13")
    async def test_path_glob_literal(self, env: Environment, here: Folder) -> None:
        """Glob characters match nothing but themselves."""
        await env.write_file(here / "a.txt", "x")
        for name in ("*.txt", "?.txt", "[a].txt", "**/a.txt", "{a,b}.txt"):
            with pytest.raises(FileMissing):
                await env.read_file(here / name)

    @law("F14")
    async def test_path_redundant_parts(self, env: Environment, here: Folder) -> None:
        """Double slashes and `.` components mean nothing."""
        await env.write_file(here / "d//./a", "x")
        for path in (here / "d/a", "./" + here / "d/a", here / "./d///a", here / "d/./a"):
            assert await env.read_file(path) == b"x"

    @law("F15")
    async def test_path_long_name(self, env: Environment, here: Folder) -> None:
        """A name of 255 bytes works, one of 256 is InvalidPath."""
        for name in ("n" * 255, "\u754c" * 85):
            await env.write_file(here / name, "x")
            assert await env.read_file(here / name) == b"x"
        for name in ("n" * 256, "\u754c" * 86):
            with pytest.raises(InvalidPath):
                await env.write_file(here / name, "x")

    @law("F16")
    async def test_path_case(self, env: Environment, here: Folder) -> None:
        """`A` and `a` are two files if `case_sensitive` is declared, and one if it is not."""
        await env.write_file(here / "a", "lower")
        await env.write_file(here / "A", "upper")
        expected = b"lower" if env.capabilities.case_sensitive else b"upper"
        assert await env.read_file(here / "a") == expected

    @law("F17")
    async def test_path_url_characters(self, env: Environment, here: Folder) -> None:
        """Percent signs are not decoded, and `?` and `#` end nothing."""
        await env.write_file(here / "A", "plain")
        for name in ("%41", "A?x=1", "A#x", "A%00", "%2e%2e", "A%2Fb", "a+b", "a b"):
            await env.write_file(here / name, name)
            assert await env.read_file(here / name) == name.encode()
        assert await env.read_file(here / "A") == b"plain"

    @law("F18")
    async def test_path_backslash(self, env: Environment, here: Folder) -> None:
        """A backslash is a character of a name, not a separator."""
        await env.write_file(here / "d\\a", "backslash")
        await env.write_file(here / "d/a", "slash")
        assert await env.read_file(here / "d\\a") == b"backslash"

    @law("F19")
    async def test_path_tilde(self, env: Environment, here: Folder) -> None:
        """A tilde is a character of a name, not a home directory."""
        await env.write_file(here / "~", "tilde")
        assert await env.read_file(here / "~") == b"tilde"
        with pytest.raises(FileMissing):
            await env.read_file(f"~/{here.path}/~")

    @law("F20")
    async def test_path_objects(self, env: Environment, here: Folder) -> None:
        """A path object means the same as its text."""
        await env.write_file(PurePosixPath(here / "a"), "x")
        assert await env.read_file(here / "a") == await env.read_file(PurePosixPath(here / "a")) == b"x"

    @law("F20")
    async def test_path_wrong_type(self, env: Environment) -> None:
        """A path of another type is a TypeError."""
        wrong: Any
        for wrong in (b"a", 1, None):
            with pytest.raises(TypeError):
                await env.read_file(wrong)

    @law("F21")
    async def test_path_sibling_folder(self, env: Environment, here: Folder) -> None:
        """What happens in a folder never touches one whose name starts with the same letters."""
        await env.write_file(here / "d-2/a", "sibling")
        await env.write_file(here / "d/a", "x")
        if env.capabilities.delete_file:
            await env.delete_file(here / "d/a")
        assert await env.read_file(here / "d-2/a") == b"sibling"


async def _outside(call: Awaitable[Any]) -> None:
    with pytest.raises(PathOutsideRoot):
        await call


async def _all_refuse(env: Environment, path: str) -> None:
    await _outside(env.read_file(path))
    await _outside(collect(env.read_file_stream(path)))
    await _outside(env.write_file(path, "x"))
    if env.capabilities.stat:
        await _outside(env.stat(path))
    if env.capabilities.delete_file:
        await _outside(env.delete_file(path))
    if env.capabilities.list_files:
        async with aclosing(env.list_files(path)) as entries:
            await _outside(anext(entries))
