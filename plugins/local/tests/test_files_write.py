"""Writes replace a file in one step: old or new in full, and nothing else left behind."""

import asyncio
import errno
import inspect
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
from files_support import open_descriptors, run, run_as_nobody, tree

from stead.errors import FileChanged, FileExists, SteadError, Unsupported
from stead_local import LocalEnvironment


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_modes_are_kept_and_new_files_follow_the_umask(tmp_path):
    """B017: permission bits of an existing file stay; a new one gets 0666 less the umask; setuid is not kept."""
    for name, bits in (("s.sh", 0o755), ("p", 0o640), ("r", 0o600), ("suid", 0o4755)):
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(bits)
    old = os.umask(0o022)
    try:

        async def use(env):
            for name in ("s.sh", "p", "r", "suid", "new", "x/y"):
                await env.write_file(name, "new")

        run(tmp_path, use)
    finally:
        os.umask(old)

    assert {n: mode(tmp_path / n) for n in ("s.sh", "p", "r", "suid", "new", "x/y", "x")} == {
        "s.sh": 0o755,
        "p": 0o640,
        "r": 0o600,
        "suid": 0o755,
        "new": 0o644,
        "x/y": 0o644,
        "x": 0o755,
    }


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="the system has no extended attributes")
def test_attributes_are_kept(tmp_path):
    """User attributes of an existing file survive its replacement."""
    file = tmp_path / "f"
    file.write_text("old")
    try:
        os.setxattr(file, "user.tag", b"1")
    except OSError as reason:
        assert reason.errno == errno.ENOTSUP
        return
    run(tmp_path, lambda env: env.write_file("f", "new"))

    assert (file.read_text(), os.getxattr(file, "user.tag")) == ("new", b"1")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """B019: a write that fails half-way raises, keeps the old content and leaves no temporary file."""
    (tmp_path / "k.txt").write_text("old")
    real = os.write
    written = []

    def full(descriptor, data):
        if threading.current_thread() is threading.main_thread() or len(data) < 1000:
            return real(descriptor, data)
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(real(descriptor, data[:10]))
        return written[0]

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SteadError, match="No space left") as caught:
        run(tmp_path, lambda env: env.write_file("k.txt", "A" * 1_000_000))

    assert (written, caught.value.__cause__.errno) == ([10], errno.ENOSPC)
    assert ((tmp_path / "k.txt").read_text(), tree(tmp_path)) == ("old", ["k.txt"])


@pytest.mark.parametrize("ticks", range(12))
def test_cancellation_leaves_old_or_new_and_nothing_else(tmp_path, ticks):
    """B019: cancelled at any point, a write has happened in full or not at all."""
    (tmp_path / "k.txt").write_text("old")

    async def pieces():
        for _ in range(6):
            yield b"A" * 700_000

    async def use(env):
        for content in ("A" * 4_200_000, pieces()):
            task = asyncio.create_task(env.write_file("k.txt", content))
            for _ in range(ticks):
                await asyncio.sleep(0.0005 if ticks > 4 else 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (tmp_path / "k.txt").read_bytes() in (b"old", b"A" * 4_200_000)
            assert tree(tmp_path) == ["k.txt"]

    before = open_descriptors()
    run(tmp_path, use)
    assert open_descriptors() == before


def test_bad_content_leaves_the_old_file(tmp_path):
    """B021 and wrong types: refused before anything is touched; a failing producer passes its own error on."""
    (tmp_path / "s.txt").write_text("old")

    async def text():
        yield b"fine"
        yield "not bytes"

    async def failing():
        yield b"x" * 3_000_000
        raise ZeroDivisionError

    async def use(env):
        for content, error in (
            (lambda: "A" * 60000 + "\ud83d", UnicodeEncodeError),
            (lambda: 1, TypeError),
            (lambda: None, TypeError),
            (lambda: ["a"], TypeError),
            (text, TypeError),
            (failing, ZeroDivisionError),
        ):
            with pytest.raises(error):
                await env.write_file("s.txt", content())
            with pytest.raises(error):
                await env.write_file("never/made.txt", content())

    run(tmp_path, use)
    assert (tmp_path / "s.txt").read_text() == "old"
    assert [name for name in tree(tmp_path) if name != "never"] == ["s.txt"]


@pytest.mark.parametrize("path", ["folder", "s.txt/below", "new"])
def test_a_producer_is_closed_when_its_write_fails(tmp_path, path):
    """Whether the write is refused before its first piece or fails after it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "s.txt").touch()

    class Producer:
        pieces = iter([b"x" * 3_000_000, 1])
        closed = 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            return next(self.pieces)

        async def aclose(self):
            self.closed += 1

    async def use(env):
        producer = Producer()
        with pytest.raises((SteadError, TypeError)):
            await env.write_file(path, producer)
        return producer.closed

    assert run(tmp_path, use) == 1


def test_bytes_like_content_is_copied_first(tmp_path):
    """bytearray and memoryview are taken, as they were at the call."""

    async def use(env):
        buffer = bytearray(b"abc")
        task = asyncio.create_task(env.write_file("f", buffer))
        await asyncio.sleep(0)
        buffer[:] = b"xyz"
        await task
        await env.write_file("g", memoryview(b"12345")[1:3])
        return await env.read_file("f"), await env.read_file("g")

    assert run(tmp_path, use) == (b"abc", b"23")


def test_streamed_write_is_exact_and_bounded(tmp_path):
    """An async iterator of 64 MB is written as it comes; empty pieces and an empty iterator are fine."""

    async def pieces(n):
        for i in range(n):
            yield bytes([i % 256]) * 100_000
            yield b""

    async def use(env):
        info = await env.write_file("big", pieces(640))
        empty = await env.write_file("empty", pieces(0))
        return info.size, empty.size, info == await env.stat("big")

    assert run(tmp_path, use) == (64_000_000, 0, True)
    assert (tmp_path / "big").read_bytes() == b"".join(bytes([i % 256]) * 100_000 for i in range(640))
    (tmp_path / "big").unlink()


def test_create_only_has_one_winner(tmp_path):
    """Of many that make one file with if_absent, one succeeds; a dangling link counts as something there."""
    (tmp_path / "dangling").symlink_to("nothing")

    async def use(env):
        wins = 0
        for i in range(30):
            results = await asyncio.gather(
                *(env.write_file(f"f{i}", str(n), if_absent=True) for n in range(4)), return_exceptions=True
            )
            assert [type(r) for r in results].count(FileExists) == 3
            wins += sum(not isinstance(r, Exception) for r in results)
        with pytest.raises(FileExistsError):
            await env.write_file("dangling", "x", if_absent=True)
        return wins

    assert run(tmp_path, use) == 30
    assert not (tmp_path / "nothing").exists()


def test_conditional_write_refuses_another_version(tmp_path):
    """if_version replaces only that version; the same bytes written again are another one."""

    async def use(env):
        first = await env.write_file("f", "1")
        second = await env.write_file("f", "1")
        assert first.version != second.version
        with pytest.raises(FileChanged):
            await env.write_file("f", "lost", if_version=first.version)
        third = await env.write_file("f", "3", if_version=second.version)
        assert third == await env.stat("f")
        with pytest.raises(FileChanged):
            await env.write_file("missing", "x", if_version=third.version)
        with pytest.raises(ValueError, match="give one"):
            await env.write_file("f", "x", if_absent=True, if_version=third.version)
        return await env.read_file("f")

    assert run(tmp_path, use) == b"3"


def _increment(root: str, times: int) -> None:
    async def main():
        async with LocalEnvironment(root) as env:
            done = 0
            while done < times:
                version = (await env.stat("n")).version
                value = int(await env.read_file("n"))
                try:
                    await env.write_file("n", str(value + 1), if_version=version)
                    done += 1
                except FileChanged:
                    await asyncio.sleep(0)

    asyncio.run(main())


def test_conditional_writes_of_several_processes_lose_no_update(tmp_path):
    """Between stead processes, check and replacement are one step."""
    (tmp_path / "n").write_text("0")
    script = (
        "import asyncio\nfrom stead.errors import FileChanged\nfrom stead_local import LocalEnvironment\n"
        f"{inspect.getsource(_increment)}\n_increment({str(tmp_path)!r}, 40)"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]

    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "n").read_text() == "120"


def test_a_reader_sees_old_or_new_in_full(tmp_path):
    """While one task overwrites, another never reads a mix; a stream that is open keeps the old content."""
    texts = [bytes([65 + i]) * 300_000 for i in range(2)]

    async def use(env):
        await env.write_file("f", texts[0])
        stream = env.read_file_stream("f")
        first = await anext(stream)

        async def write():
            for i in range(40):
                await env.write_file("f", texts[i % 2])

        async def read():
            for _ in range(80):
                assert await env.read_file("f") in texts

        await asyncio.gather(write(), read())
        rest = b"".join([chunk async for chunk in stream])
        await stream.aclose()
        return first + rest

    assert run(tmp_path, use) == texts[0]


def test_special_files_are_refused(tmp_path):
    """A FIFO is never opened, so nothing waits for its other end."""
    os.mkfifo(tmp_path / "pipe")

    async def use(env):
        for call in (env.read_file("pipe"), env.write_file("pipe", "x"), anext(env.read_file_stream("pipe"))):
            with pytest.raises(Unsupported, match="FIFO"):
                await asyncio.wait_for(call, 3)
        return (await env.stat("pipe")).kind

    assert run(tmp_path, use) == "other"


async def _attempts(env: LocalEnvironment) -> list[str]:
    found = []
    for call in (
        env.read_file("secret"),
        anext(env.read_file_stream("secret")),
        env.write_file("readonly", "x"),
        env.write_file("closed/new", "x"),
        env.write_file("closed/f", "x"),
        env.delete_file("closed/f"),
    ):
        try:
            await call
        except Exception as error:
            found.append(f"{type(error).__name__} {isinstance(error, PermissionError)} {str(error).split(':')[0]}")
        else:
            found.append("allowed")
    return found


def test_permissions_hold_as_another_user():
    """B016: what a user may not read or write is AccessDenied, never missing; a file without write permission stays."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "closed").mkdir()
        for name in ("secret", "readonly", "closed/f"):
            (root / name).write_text("old")
        for name, bits in (("secret", 0), ("readonly", 0o444), ("closed", 0o555), (".", 0o777)):
            (root / name).chmod(bits)
        assert run_as_nobody(root, _attempts) == ["AccessDenied True permission denied"] * 6
        assert (root / "readonly").read_text() == "old"


def test_a_killed_writer_leaves_nothing(tmp_path):
    """SIGKILL in the middle of a write leaves the old file and no temporary one (unnamed files, Linux)."""
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("the system has no unnamed files; the docs say what may be left there")
    (tmp_path / "f").write_text("old")
    program = """
        import asyncio, os, signal, sys
        from stead_local import LocalEnvironment
        async def pieces():
            yield b"x" * 3_000_000
            os.kill(os.getpid(), signal.SIGKILL)
        async def main():
            async with LocalEnvironment(sys.argv[1]) as env:
                await env.write_file("f", pieces())
        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], timeout=60)

    assert done.returncode == -9
    assert ((tmp_path / "f").read_text(), tree(tmp_path)) == ("old", ["f"])


def test_running_programs_can_be_replaced(tmp_path):
    """A file that is being executed (ETXTBSY) is replaced, as a package manager does."""
    program = tmp_path / "p"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "30"]) as running:
        run(tmp_path, lambda env: env.write_file("p", "new"))
        running.kill()

    assert (program.read_text(), mode(program)) == ("new", 0o755)
