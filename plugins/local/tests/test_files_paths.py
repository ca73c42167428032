"""Nothing outside the root is touched, and every name inside it can be used."""

import os
import subprocess
import sys
import textwrap
import time
from contextlib import aclosing
from pathlib import Path

import pytest
from files_support import run, tree

from stead.errors import FileExists, FileMissing, InvalidPath, IsADirectory, NotADirectory, PathOutsideRoot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("SECRET")
    (tmp_path / "work-sibling").mkdir()
    return folder


async def attempt(env, path):
    """The errors of the four ways to touch a file, in order: read, stream, write, delete."""
    found = []

    async def stream():
        async with aclosing(env.read_file_stream(path)) as chunks:
            async for _ in chunks:
                pass

    for call in (
        lambda: env.read_file(path),
        stream,
        lambda: env.write_file(path, "new"),
        lambda: env.delete_file(path),
    ):
        try:
            await call()
        except Exception as error:
            assert "SECRET" not in str(error)
            found.append(type(error))
        else:
            found.append(None)
    return found


ESCAPES = [
    "../x",
    "a/../../x",
    "/etc/passwd",
    "{tmp}/x",
    "../work-sibling/x",
    "a/b/../../../outside/secret",
    "/",
    "../../../../../../../etc/passwd",
    "{root}/../outside/secret",
    "{root}-sibling/x",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_escapes_are_refused_and_make_nothing(root, path):
    """B046: a path that leaves the root raises in every method and creates nothing, inside or outside."""
    path = path.format(tmp=root.parent, root=root)
    before = tree(root.parent)

    assert run(root, lambda env: attempt(env, path)) == [PathOutsideRoot] * 4
    assert tree(root.parent) == before


def test_links_that_lead_out_are_refused(root):
    """B048, B049: file links, directory links and dangling links to the outside give nothing away and make nothing."""
    (root / "leak").symlink_to("/etc/passwd")
    (root / "d").symlink_to("/etc")
    (root / "up").symlink_to("..")
    (root / "dang").symlink_to(root.parent / "outside" / "new.txt")
    (root / "ln").symlink_to(root.parent / "outside")

    async def use(env):
        paths = ("d/passwd", "d/new", "up/outside/secret", "ln/sub/n.txt", "ln/secret")
        for path in paths:
            assert await attempt(env, path) == [PathOutsideRoot] * 4, path
        for path in ("leak", "dang"):
            assert (await attempt(env, path))[:3] == [PathOutsideRoot] * 3, path

    run(root, use)
    assert tree(root.parent / "outside") == ["secret"]
    assert not (root / "leak").is_symlink()  # deleting a link removes the link


def test_links_inside_the_root_are_followed(root):
    """Relative, absolute, chained and climbing links that stay inside work for reading and writing."""
    (root / "a").mkdir()
    (root / "a" / "real").write_text("old")
    (root / "rel").symlink_to("a/real")
    (root / "abs").symlink_to(root / "a")
    (root / "chain").symlink_to("abs/real")
    (root / "climb").symlink_to("../work/a/real")
    (root / "a" / "up").symlink_to("../rel")
    (root / "dangling").symlink_to("a/made")

    async def use(env):
        found = [await env.read_file(p) for p in ("rel", "abs/real", "chain", "climb", "a/up")]
        await env.write_file("chain", "new")
        await env.write_file("dangling", "made")
        return found

    assert run(root, use) == [b"old"] * 5
    assert (root / "a" / "real").read_text() == "new"
    assert (root / "a" / "made").read_text() == "made"
    assert all((root / link).is_symlink() for link in ("rel", "chain", "dangling"))


def test_loops_of_links_end(root):
    """A loop is an error, not a hang, also below a directory."""
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "self").symlink_to("self/x")

    async def use(env):
        return [await attempt(env, path) for path in ("a/x", "self/y")]

    assert run(root, use) == [[InvalidPath] * 4] * 2


NAMES = [
    "[...slug]/page.tsx",
    "report..final.md",
    "..hidden",
    "a..b/c",
    "...",
    "~/x",
    "-n",
    "a b\nc",
    "a'; touch pwned; '",
    "$(touch pwned)",
    "`touch pwned`",
    "100%",
    "q?a#b",
    "back\\slash",
    "*",
    "é",
    "e\u0301",
    "日本",
    "x" * 255,
    "CON",
    "a:b",
    "tab\t",
    "*?[x]",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_literal(root, name):
    """B051, B052: every name that a file can have round-trips and runs nothing."""

    async def use(env):
        info = await env.write_file(name, name)
        return await env.read_file(name), await env.read_file(Path(name)), await env.read_file(info.path)

    assert run(root, use) == (name.encode(),) * 3
    assert (root / name).read_text() == name
    assert not (root / "pwned").exists()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", InvalidPath),
        ("a\0b", InvalidPath),
        ("x" * 256, InvalidPath),
        ("\ud800", InvalidPath),
        (b"a", TypeError),
        (1, TypeError),
        (None, TypeError),
    ],
)
def test_impossible_paths(root, path, error):
    """What no file can be called is refused before anything is touched."""
    assert run(root, lambda env: attempt(env, path)) == [error] * 4


def test_ways_that_name_the_same_file(root):
    """Dots, double slashes, coming back, the absolute path and both spellings of a linked root lead to one file."""
    link = root.parent / "alias"
    link.symlink_to(root)

    async def use(env):
        await env.write_file("a/f", "1")
        paths = (
            "a/f",
            "./a//f",
            "a/../a/f",
            f"../{env.working_dir.name}/a/f",
            f"{link}/a/f",
            f"{root}/a/f",
            f"/../{root}/./a/f",
            "a/./f",
        )
        if env.working_dir.name == "alias":
            paths = tuple(p for p in paths if not p.startswith("../"))  # above the root counts the real directory
        return {await env.read_file(path) for path in paths}

    assert run(link, use) == {b"1"}
    with pytest.raises(PathOutsideRoot):
        run(root, lambda env: env.read_file(f"{link}/a/f"))


def test_what_stands_in_the_way(root):
    """Missing, directory, file as parent and trailing slashes each have their error; '..' after a link is physical."""
    (root / "d" / "sub").mkdir(parents=True)
    (root / "f").write_text("x")
    (root / "to").symlink_to("d/sub")
    (root / "d" / "x").write_text("physical")

    async def use(env):
        assert await attempt(env, "none") == [FileMissing, FileMissing, None, None]
        with pytest.raises(FileMissing):
            await env.read_file("none/../f")
        assert await attempt(env, "d") == [IsADirectory] * 4
        assert await attempt(env, ".") == [IsADirectory] * 4
        assert await attempt(env, "f/x") == [NotADirectory] * 4
        assert await attempt(env, "f/") == [NotADirectory, NotADirectory, IsADirectory, NotADirectory]
        assert await attempt(env, "new/") == [FileMissing, FileMissing, IsADirectory, FileMissing]
        return await env.read_file("to/../x")

    assert run(root, use) == b"physical"


SWAPPER = """
    import os, shutil, sys, time
    os.chdir(sys.argv[1])
    print("ready", flush=True)
    while True:
        for target in ("../outside", "inside"):
            os.symlink(target, "swap.new")
            try:
                os.rename("swap.new", "swap")
            except IsADirectoryError:
                os.unlink("swap.new")
            time.sleep(0.0002)
        if os.path.islink("swap"):
            os.unlink("swap")
            try:
                os.mkdir("swap")
            except FileExistsError:
                pass
        shutil.rmtree("swap", ignore_errors=True)
"""


@pytest.mark.slow
def test_a_process_that_swaps_links_gets_nothing_out(root):
    """While another process swaps a directory for links in and out, no read shows the outside and no write lands there."""
    (root / "inside").mkdir()
    (root / "inside" / "secret").write_text("inside")
    swapper = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SWAPPER), str(root)], stdout=subprocess.PIPE)
    outcomes = {"inside": 0, "refused": 0}

    async def use(env):
        end = time.monotonic() + float(os.environ.get("STEAD_RACE_SECONDS", "3"))
        while time.monotonic() < end:
            try:
                assert await env.read_file("swap/secret") == b"inside"
                await env.write_file("swap/written", "x", if_absent=False)
                outcomes["inside"] += 1
            except (PathOutsideRoot, FileMissing, FileExists, NotADirectory, IsADirectory) as error:
                assert "SECRET" not in str(error)
                outcomes["refused"] += 1
            except Exception as error:
                assert type(error).__name__ == "FileChanged"

    try:
        assert swapper.stdout.readline() == b"ready\n"
        run(root, use)
    finally:
        swapper.kill()
        swapper.communicate()
    assert tree(root.parent / "outside") == ["secret"]
    assert (root.parent / "outside" / "secret").read_text() == "SECRET"
    assert min(outcomes.values()) > 10
