"""Adapters translate: errors by kind, commands into shell text, listings into entries; and they repair nothing."""

import asyncio
import errno
import json
import stat
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace

import pytest

from stead.conformance.adapters import AdkEnvironment, DeepAgentsEnvironment, FsspecEnvironment, PydanticAIEnvironment
from stead.errors import (
    AccessDenied,
    EnvironmentClosed,
    FileMissing,
    InvalidPath,
    IsADirectory,
    PathOutsideRoot,
    SteadError,
    Unsupported,
)


def run(coroutine):
    """Runs one coroutine."""
    return asyncio.run(coroutine)


class Adk:
    """As Google ADK's BaseEnvironment."""

    def __init__(self, error=None):
        self.error, self.calls = error, []

    async def initialize(self):
        self.calls.append("initialize")

    async def close(self):
        self.calls.append("close")

    async def read_file(self, path):
        if self.error:
            raise self.error
        return path.encode()

    async def write_file(self, path, content):
        self.calls.append((path, content))

    async def execute(self, command, *, timeout=None):
        self.calls.append((command, timeout))
        return SimpleNamespace(exit_code=3, stdout="o\n", stderr="h\u00e9", timed_out=False)


def test_adk_life_and_files():
    """It is initialised once and closed, paths go through as they are, and text stays text."""
    theirs = Adk()

    async def use():
        async with AdkEnvironment(theirs, "/work") as env:
            info = await env.write_file("../a.txt", "t\u00e9xt")
            assert (info.path, info.size) == ("/work/../a.txt", 5)
            assert await env.read_file("b") == b"b"
        with pytest.raises(EnvironmentClosed):
            await env.read_file("b")

    run(use())
    assert theirs.calls == ["initialize", ("../a.txt", "t\u00e9xt"), "close"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (FileNotFoundError("x"), FileMissing),
        (IsADirectoryError("x"), IsADirectory),
        (PermissionError("x"), AccessDenied),
        (OSError(errno.ENAMETOOLONG, "File name too long"), InvalidPath),
        (OSError("not a regular file: 'pipe'"), Unsupported),
        (ValueError("Path escapes working directory"), PathOutsideRoot),
        (ValueError("embedded null byte"), InvalidPath),
        (NotImplementedError("x"), Unsupported),
    ],
)
def test_errors_by_kind(theirs, ours):
    """An error of theirs becomes ours, with the path, and stays its cause."""

    async def use():
        async with AdkEnvironment(Adk(theirs), "/work") as env:
            with pytest.raises(ours) as caught:
                await env.read_file("a.txt")
        return caught.value

    error = run(use())
    assert (error.path, error.__cause__) == ("a.txt", theirs)


def test_other_errors_pass():
    """What has no counterpart passes as it is."""

    async def use():
        async with AdkEnvironment(Adk(ValueError("odd")), "/work") as env:
            with pytest.raises(ValueError, match="odd") as caught:
                await env.read_file("a.txt")
            assert not isinstance(caught.value, SteadError)

    run(use())


def test_commands_become_shell_text():
    """`cwd`, `env` and argv are spelled for the shell; what the other side has no way to take is refused."""
    theirs = Adk()

    async def use():
        async with AdkEnvironment(theirs, "/work") as env:
            result = await env.execute(["echo", "a b"], cwd="d e", env={"X": "1 2"}, timeout=5)
            for option in ({"stdin": "x"}, {"output_limit": 1}):
                with pytest.raises(Unsupported):
                    await env.execute("cat", **option)
        return result

    result = run(use())
    assert theirs.calls[1] == ("cd 'd e' || exit\nexport X='1 2'\necho 'a b'", 5)
    assert (result.exit_code, result.stdout_bytes, result.stderr_bytes) == (3, 2, 3)


class Backend:
    """As a sandbox backend of deepagents."""

    async def adownload_files(self, paths):
        words = {"gone": "file_not_found", "d": "is_directory", "~": "invalid_path", "odd": "disk on fire"}
        return [SimpleNamespace(content=b"x", error=words.get(paths[0]))]

    async def als(self, path):
        below = {"/": [{"path": "/d/", "is_dir": True}, {"path": "/a", "size": 3}], "/d": [{"path": "/d/b", "size": 1}]}
        return SimpleNamespace(error=None, entries=below[path])

    async def aexecute(self, command, *, timeout=None):
        return SimpleNamespace(output="Error: Command timed out", exit_code=124)

    execute = aexecute


def test_deepagents():
    """Its words for errors become errors, its listing is walked, and its timeout is found."""

    async def use():
        async with DeepAgentsEnvironment(Backend()) as env:
            for path, error in (("gone", FileMissing), ("d", IsADirectory), ("~", InvalidPath), ("odd", SteadError)):
                with pytest.raises(error):
                    await env.read_file(path)
            async with aclosing(env.list_files("/", recursive=True)) as entries:
                listed = [(entry.path, entry.kind, entry.size) async for entry in entries]
            return listed, await env.execute("sleep 9", timeout=1)

    listed, result = run(use())
    assert listed == [("/a", "file", 3), ("/d", "directory", 0), ("/d/b", "file", 1)]
    assert (result.timed_out, result.stdout) == (True, "Error: Command timed out")


def test_deepagents_without_commands():
    """A backend that only has files declares no commands."""
    env = DeepAgentsEnvironment(SimpleNamespace())

    assert (env.capabilities.execute, env.capabilities.list_files) == (False, True)


class Workspace:
    """As a workspace backend of Pydantic AI."""

    async def read_bytes(self, path):
        return path.encode()

    async def run(self, command, *, shell, env, timeout):
        if timeout:
            error = TimeoutError("late")
            error.stdout, error.stderr = "so far", ""
            raise error
        return SimpleNamespace(exit_code=0, stdout=f"{command} {shell} {env}", stderr="")


def test_pydantic_ai():
    """Paths are made absolute, argv stays argv, and a timeout is a result with the output so far."""

    async def use():
        async with PydanticAIEnvironment(Workspace(), "/work") as env:
            assert await env.read_file("a") == b"/work/a"
            direct = await env.execute(["ls", "-l"], env={"A": "1"})
            in_folder = await env.execute(["ls"], cwd="d")
            return direct, in_folder, await env.execute("x", timeout=1)

    direct, in_folder, late = run(use())
    assert direct.stdout == "['ls', '-l'] False {'A': '1'}"
    assert in_folder.stdout == "cd d || exit\nls True None"
    assert (late.timed_out, late.exit_code, late.stdout) == (True, 124, "so far")


class Files:
    """As fsspec's filesystem of this machine."""

    def makedirs(self, path, exist_ok):
        Path(path).mkdir(parents=True, exist_ok=exist_ok)

    def pipe_file(self, path, data):
        Path(path).write_bytes(data)

    def open(self, path, mode):
        return Path(path).open(mode)

    def info(self, path):
        found = Path(path).stat()
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
        return {"name": str(path), "type": kind, "size": found.st_size, "mtime": found.st_mtime}

    def ls(self, path, detail):
        return [self.info(entry) for entry in Path(path).iterdir()]


def test_fsspec(tmp_path):
    """Ranges are read by seeking, listings have absolute paths and times in UTC."""

    async def use():
        async with FsspecEnvironment(Files(), tmp_path / "new") as env:
            await env.write_file("d/a", b"0123456789")
            async with aclosing(env.read_file_stream("d/a", offset=3, length=4)) as chunks:
                part = b"".join([chunk async for chunk in chunks])
            async with aclosing(env.list_files(".", recursive=True)) as entries:
                return part, [entry async for entry in entries]

    part, entries = run(use())
    assert part == b"3456"
    assert [(e.path, e.kind, e.size) for e in entries] == [
        (f"{tmp_path}/new/d", "directory", 0),
        (f"{tmp_path}/new/d/a", "file", 10),
    ]
    assert entries[1].modified.utcoffset().total_seconds() == 0


def test_adapters_import_no_pytest():
    """They can be used where pytest is not installed."""
    code = "import sys, stead.conformance.adapters; print('pytest' in sys.modules, 'fsspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"


FSSPEC_MEMORY = """
import fsspec
from stead.conformance.adapters import FsspecEnvironment

def make():
    return FsspecEnvironment(fsspec.filesystem("memory"), "/laws")
"""


def test_laws_on_a_real_filesystem(tmp_path):
    """The laws run on fsspec's own memory filesystem, and find that its open streams share one position."""
    (tmp_path / "theirs.py").write_text(FSSPEC_MEMORY)
    expected = {
        "write-text": "held",
        "write-makes-parents": "held",
        "read-missing": "held",
        "stream-equals-read": "held",
        "stream-two-at-once": "failed",
        "list-one-level": "held",
        "path-dotdot-escape": "failed",
        "execute-exit-codes": "unsupported",
    }
    words = [word for law in expected for word in ("--law", law)]
    done = subprocess.run(
        [sys.executable, "-c", "from stead.cli import main; main()", "conformance", "theirs:make", *words, "--report", "json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert {v["law"]: v["outcome"] for v in json.loads(done.stdout)["verdicts"]} == expected
