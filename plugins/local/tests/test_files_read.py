"""Reads are of one version, bounded in memory, and release what they hold."""

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from files_support import open_descriptors, run, run_as_nobody

from stead.errors import EnvironmentClosed, FileChanged
from stead.results import LineRange
from stead.tools import toolset
from stead_local import LocalEnvironment
from stead_local.files import file_info


async def collect(stream) -> bytes:
    async with aclosing(stream) as chunks:
        return b"".join([chunk async for chunk in chunks])


@pytest.mark.parametrize(
    "offset, length", [(0, None), (0, 0), (1, 5), (1 << 20, None), (3_000_000, None), (5_000_000, 3), (2_999_999, 10)]
)
def test_ranges(tmp_path, offset, length):
    """offset and length are exact across chunk borders; past the end there is nothing."""
    data = os.urandom(3_000_000)
    (tmp_path / "f").write_bytes(data)

    expected = data[offset:] if length is None else data[offset : offset + length]
    assert run(tmp_path, lambda env: collect(env.read_file_stream("f", offset=offset, length=length))) == expected


@pytest.mark.parametrize(
    "bad, error",
    [
        ({"offset": -1}, ValueError),
        ({"length": -1}, ValueError),
        ({"offset": True}, TypeError),
        ({"length": 1.5}, TypeError),
    ],
)
def test_impossible_ranges(tmp_path, bad, error):
    """A range that cannot be meant is refused at the first step."""
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(error):
        run(tmp_path, lambda env: collect(env.read_file_stream("f", **bad)))


def change(path, how):
    if how == "append":
        with open(path, "ab") as file:
            file.write(b"more")
    elif how == "rename":
        other = path.with_suffix(".new")
        other.write_bytes(b"other")
        other.rename(path)
    elif how == "shrink":
        os.truncate(path, 1_500_000)
    elif how == "rewrite":
        with open(path, "r+b") as file:
            file.write(b"z" * 10)
    elif how == "truncate and regrow":
        with open(path, "wb") as file:
            file.write(b"z" * 4_000_000)


@pytest.mark.parametrize("how", ["append", "rename"])
def test_stream_of_a_file_that_grows_or_is_renamed_over_is_its_old_content(tmp_path, how):
    """Growth is no change, and a file renamed over is read to its old end."""
    file = tmp_path / "f"
    data = os.urandom(3_000_000)
    file.write_bytes(data)

    async def use(env):
        async with aclosing(env.read_file_stream("f")) as chunks:
            got = [await anext(chunks)]
            change(file, how)
            return b"".join(got + [chunk async for chunk in chunks])

    assert run(tmp_path, use) == data


@pytest.mark.parametrize("how", ["shrink", "rewrite", "truncate and regrow"])
def test_stream_of_a_file_that_is_rewritten_raises(tmp_path, how):
    """B005 of streams: never silently short, never a mix."""
    file = tmp_path / "f"
    file.write_bytes(b"a" * 3_000_000)

    async def use(env):
        async with aclosing(env.read_file_stream("f")) as chunks:
            await anext(chunks)
            change(file, how)
            with pytest.raises(FileChanged):
                async for _ in chunks:
                    pass

    run(tmp_path, use)


def test_early_ends_release_the_descriptor(tmp_path):
    """B072: break, cancel, a raising consumer, a generator never started: nothing stays open after 200 rounds."""
    (tmp_path / "f").write_bytes(b"x" * 2_500_000)

    async def use(env):
        before = open_descriptors()
        for _ in range(50):
            env.read_file_stream("f")
            async with aclosing(env.read_file_stream("f")) as chunks:
                async for _ in chunks:
                    break
            with pytest.raises(ZeroDivisionError):
                async with aclosing(env.read_file_stream("f")) as chunks:
                    async for _ in chunks:
                        raise ZeroDivisionError
            task = asyncio.create_task(collect(env.read_file_stream("f")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return open_descriptors() - before

    assert run(tmp_path, use) == 0


def test_close_ends_open_streams(tmp_path):
    """The next step of a stream raises after close, and its descriptor is gone."""
    (tmp_path / "f").write_bytes(b"x" * 2_500_000)

    async def main():
        env = LocalEnvironment(tmp_path)
        stream = env.read_file_stream("f")
        await anext(stream)
        before = open_descriptors()
        await env.close()
        assert open_descriptors() == before - 1
        with pytest.raises(EnvironmentClosed):
            await anext(stream)

    asyncio.run(main())


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the system has no /proc")
def test_pseudo_files_are_read_and_bounded():
    """Files of size 0 with content, as in /proc, give their content; nothing there hangs."""

    async def use():
        async with LocalEnvironment("/proc/self") as env:
            whole = await env.read_file("status")
            streamed = await collect(env.read_file_stream("status", offset=2, length=3))
            page = await env.read_lines("status", LineRange(end=1))
            return whole[:5], streamed, page.lines.split(":")[0]

    assert asyncio.run(use()) == (b"Name:", b"me:", "Name")


def test_fifo_never_blocks_the_interpreter_exit(tmp_path):
    """B014: after refused reads of a FIFO the process ends by itself."""
    os.mkfifo(tmp_path / "pipe")
    program = """
        import asyncio, sys
        from stead_local import LocalEnvironment
        from stead.results import LineRange
        async def main():
            async with LocalEnvironment(sys.argv[1]) as env:
                for call in (env.read_file("pipe"), env.read_lines("pipe", LineRange()), anext(env.read_file_stream("pipe"))):
                    try:
                        await call
                    except NotImplementedError as error:
                        print(type(error).__name__)
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], capture_output=True, text=True, timeout=20
    )

    assert done.stdout.split() == ["Unsupported"] * 3


def test_pages_of_a_growing_log_give_every_line_once(tmp_path):
    """A log that is appended to all the time is paged to its end; terminated lines come once, in order."""
    log = tmp_path / "log"
    log.write_bytes(b"")
    stop = threading.Event()
    last = []

    def append():
        n = 0
        with open(log, "ab", buffering=0) as file:
            while not stop.is_set():
                for part in (b"%d" % n, b" of\n"):  # half a line is visible now and then
                    file.write(part)
                n += 1
        last.append(n)

    async def use(env):
        writer = threading.Thread(target=append)
        writer.start()
        lines, start = [], 1
        try:
            while len(lines) < 20_000:
                page = await env.read_lines("log", LineRange(start=start, end=start + 500))
                got = page.lines.split("\n") if page.last_line >= start else []
                if got and not page.last_line_complete:
                    got.pop()
                lines += got
                start += len(got)
        finally:
            stop.set()
            writer.join()
        return lines

    lines = run(tmp_path, use)
    assert lines == [f"{n} of" for n in range(len(lines))]


def test_a_rewritten_file_is_never_paged_from_a_stale_index(tmp_path):
    """Same size rewritten in place, replaced, truncated, and rewritten with its old time: each page is of the new file."""
    log = tmp_path / "f"
    old, new = b"".join(b"old %06d\n" % n for n in range(50_000)), b"".join(b"ne\nw%06d\n" % n for n in range(50_000))
    assert len(old) == len(new)

    async def use(env):
        for how in ("in place", "rename", "truncate", "same time"):
            log.write_bytes(old)
            assert (await env.read_lines("f", LineRange(start=40_000, end=40_000))).total_lines == 50_000
            times = os.stat(log)
            if how == "rename":
                (tmp_path / "g").write_bytes(new)
                (tmp_path / "g").rename(log)
            elif how == "truncate":
                log.write_bytes(new[: len(new) // 2])
            else:
                with open(log, "r+b") as file:
                    file.write(new)
            if how == "same time":
                os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
            page = await env.read_lines("f", LineRange(start=40_000, end=40_001))
            expected = log.read_bytes().split(b"\n")
            assert page.total_lines == len(expected) - 1, how
            assert page.lines.encode() == b"\n".join(expected[39_999:40_001]), how

    run(tmp_path, use)


def test_a_rewritten_middle_with_its_old_time_is_seen(tmp_path):
    """The time of change cannot be set back, however old the time of modification says the file is."""
    log = tmp_path / "f"
    old = b"abcdefg\n" * 10_000
    log.write_bytes(old)
    os.utime(log, (1e9, 1e9))

    async def use(env):
        assert (await env.read_lines("f", LineRange(end=1))).total_lines == 10_000
        time.sleep(0.02)  # the file system's clock has steps
        log.write_bytes(old[:8000] + b"\n" * 8000 + old[16_000:])
        os.utime(log, (1e9, 1e9))
        return (await env.read_lines("f", LineRange(end=1))).total_lines

    assert run(tmp_path, use) == 9_000 + 8_000


def test_a_grown_file_is_counted_on_from_its_old_end(tmp_path, monkeypatch):
    """After growth only the new part is scanned."""
    log = tmp_path / "f"
    log.write_bytes(b"0123456789\n" * 500_000)
    read = []
    real = os.preadv

    def counting(descriptor, buffers, offset):
        size = real(descriptor, buffers, offset)
        read.append(size)
        return size

    async def use(env):
        await env.read_lines("f", LineRange(start=499_999))
        with open(log, "ab") as file:
            file.write(b"more\n" * 10)
        monkeypatch.setattr(os, "preadv", counting)
        return await env.read_lines("f", LineRange(start=500_001, end=500_002))

    page = run(tmp_path, use)
    assert (page.lines, page.total_lines) == ("more\nmore", 500_010)
    assert sum(read) < 1 << 20


def test_reading_lines_stops_when_cancelled(tmp_path):
    """Cancelling a long scan ends it within a block, and the environment works on."""
    with open(tmp_path / "big", "wb") as file:
        file.truncate(400 << 20)

    async def use(env):
        task = asyncio.create_task(env.read_lines("big", LineRange()))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await env.read_lines("big", LineRange(max_chars=5, count_total=False))).lines

    assert run(tmp_path, use) == "\0" * 5
    (tmp_path / "big").unlink()


def test_listing_is_sorted_by_path_and_never_walks_links(tmp_path):
    """Entries come in the order of their paths as text, directories too; links show what they lead to."""
    for name in ("a/x", "a/b/y", "a-b", "a.txt", "b/z"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "to-a").symlink_to("a")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / ".stead-tmp-0123").write_text("ours")
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff", os.O_CREAT))

    async def use(env):
        return [info async for info in env.list_files(".", recursive=True)], [
            i.path async for i in env.list_files("a/")
        ]

    found, inside = run(tmp_path, use)
    shown = [(info.path.removeprefix(f"{tmp_path}/"), info.kind) for info in found]
    assert shown == [
        ("a", "directory"),
        ("a-b", "file"),
        ("a.txt", "file"),
        ("a/b", "directory"),
        ("a/b/y", "file"),
        ("a/x", "file"),
        ("b", "directory"),
        ("b/z", "file"),
        ("bad\ufffd", "other"),
        ("out", "other"),
        ("to-a", "directory"),
    ]
    assert inside == [f"{tmp_path}/a/b", f"{tmp_path}/a/x"]
    assert all(one.path < other.path for one, other in pairwise(found[:8]))


def test_a_closed_directory_does_not_end_a_listing():
    """What may not be listed or looked at is shown, and the rest too; only the directory that was asked for is an error."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("a.py", "m/closed/x.py", "z/b.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("found\n")
        (root / "link").symlink_to("m/closed/x.py")
        (root / "m/closed").chmod(0)
        root.chmod(0o777)

        async def use(env):
            listed = [info.path.removeprefix(f"{folder}/") async for info in env.list_files(recursive=True)]
            tools = toolset(env)
            closed = await tools["ListFiles"](path="m/closed")
            return listed, await tools["Grep"](pattern="found"), await tools["Glob"](pattern="**/*.py"), closed

        listed, grep, glob, closed = run_as_nobody(root, use)
        (root / "m/closed").chmod(0o755)
    assert listed == ["a.py", "link", "m", "m/closed", "z", "z/b.py"]
    assert [match["path"] for match in grep["matches"]] == ["a.py", "z/b.py"]
    assert [skipped["path"] for skipped in grep["skipped"]] == ["m/closed"]
    assert glob["paths"] == ["a.py", "z/b.py"]
    assert closed["error"].startswith("Permission denied")


@pytest.mark.parametrize("seconds", [1e12, -1e11])
def test_a_time_beyond_the_calendar_is_not_told(seconds):
    """Such a file, which some file systems can hold, does not break the listing of its directory."""
    info = SimpleNamespace(st_mode=0o100644, st_mtime=seconds, st_mtime_ns=int(seconds) * 10**9, st_size=3, st_ino=1)
    told = file_info(PurePosixPath("/r"), ("f",), info)
    assert (told.path, told.kind, told.size, told.modified) == ("/r/f", "file", 3, None)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*/*.py", ["d/x.py"]),
        ("z*/*.py", []),
        ("zl/*.py", ["d/x.py"]),
        ("*/*/*/f", []),
        ("*/**", ["d/x.py"]),
        ("z*", ["zl/"]),
    ],
)
def test_glob_walks_no_links_but_those_it_names(tmp_path, pattern, paths):
    """A wildcard leads to each file once, by its own path, and links to a parent do not multiply it."""
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    (tmp_path / "d/x.py").touch()
    for name, target in (("self", "."), ("self2", "."), ("zl", "d")):
        (tmp_path / name).symlink_to(target)
    answer = run(tmp_path, lambda env: toolset(env)["Glob"](pattern=pattern))
    assert (answer["paths"], answer["count"]) == (paths, len(paths))
