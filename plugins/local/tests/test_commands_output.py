"""Output: nothing lost, nothing mixed, little in memory."""

import asyncio
import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

import pytest
from commands_support import below_reaper, execute, nothing_left, run, until

from stead import ExecutionResult, OutputChunk
from stead.command_output import CutStream, marker_line

SPILL = ".stead/spill"


def test_bytes_that_are_no_text(tmp_path):
    """Undecodable bytes are replaced, a character in two pieces arrives whole."""
    result = execute(tmp_path, r"printf '\377\376ok\n'; printf '\360' >&2; exit 4")
    assert (result.stdout, result.stderr, result.exit_code) == ("\ufffd\ufffdok\n", "\ufffd", 4)
    split = execute(tmp_path, r"printf '\342\202'; sleep 0.1; printf '\254\r\n'")
    assert (split.stdout, split.stdout_bytes) == ("€\r\n", 5)


def test_devices_of_the_streams(tmp_path):
    """Opening /dev/stdout and /dev/stderr again erases nothing, since the streams are pipes."""
    script = "echo one; echo two > /dev/stdout; echo three; echo e1 >&2; echo e2 > /dev/stderr; echo e3 >&2"
    result = execute(tmp_path, script)
    assert (result.stdout, result.stderr) == ("one\ntwo\nthree\n", "e1\ne2\ne3\n")


@pytest.mark.parametrize("size", [9_999, 10_000, 10_001, 16_384])
def test_the_limit_is_exact(tmp_path, size):
    """Output of exactly the limit is complete; one byte more is cut, visibly, and complete in the file."""
    script = f"import sys; sys.stdout.write(('0123456789' * 2000)[:{size}])"
    result = execute(tmp_path, [sys.executable, "-c", script], output_limit=10_000)
    whole = ("0123456789" * 2000)[:size]
    assert (result.exit_code, result.stdout_bytes, result.spill_error) == (0, size, None)
    if size <= 10_000:
        assert (result.stdout, result.stdout_path) == (whole, None)
        return
    head, marker, tail = result.stdout.split("\n")
    assert (head, tail) == (whole[:5000], whole[-5000:])
    assert marker == (
        f"[stead: {size - 10_000} of {size} bytes of stdout left out; all of it is in {result.stdout_path}]"
    )
    assert Path(result.stdout_path).read_text() == whole


def test_both_streams_are_cut_apart(tmp_path):
    """Each stream has its own limit, its own file and its own marker."""
    result = execute(tmp_path, "yes out | head -c 300000; yes err | head -c 200000 >&2", output_limit=1000)
    assert (result.stdout_bytes, result.stderr_bytes) == (300_000, 200_000)
    assert Path(result.stdout_path).read_bytes() == b"out\n" * 75_000
    assert Path(result.stderr_path).read_bytes() == b"err\n" * 50_000
    assert result.stderr_path == result.stdout_path.replace(".out", ".err")
    assert "[stead: 199000 of 200000 bytes of stderr left out" in result.stderr


def test_a_limit_of_zero(tmp_path):
    """A limit of 0 shows nothing and spills everything."""
    result = execute(tmp_path, "printf abc; printf de >&2", output_limit=0)
    assert (result.stdout, result.stderr, result.stdout_bytes, result.stderr_bytes) == ("", "", 3, 2)
    assert Path(result.stdout_path).read_bytes() == b"abc"
    nothing = execute(tmp_path, "true", output_limit=0)
    assert (nothing.stdout_path, nothing.stderr_path) == (None, None)


@pytest.mark.parametrize("limit", range(1, 14))
def test_the_cut_is_between_characters(tmp_path, limit):
    """Head and tail never hold half a character; what the marker counts is what is missing."""
    text = "ä€😀" * 3
    result = execute(tmp_path, ["printf", "%s", text], output_limit=limit)
    head, marker, tail = ("", *result.stdout.split("\n"))[-3:]
    assert text.startswith(head)
    assert text.endswith(tail)
    left_out = len(text.encode()) - len((head + tail).encode())
    assert marker.startswith(f"[stead: {left_out} of 27 bytes of stdout left out; ")
    assert len((head + tail).encode()) > limit - 7


def test_one_line_of_marker(tmp_path):
    """The marker stands on a line of its own, wherever the cut is."""
    after_newline = execute(tmp_path, "printf 'ab\\ncdefgh'", output_limit=6).stdout
    assert after_newline.startswith("ab\n[stead: 3 of 9 bytes")
    assert after_newline.endswith("]\nfgh")
    not_kept = CutStream(name="stdout", total=9, head=b"", error="disk full")
    assert marker_line(not_kept, 3) == "[stead: 3 of 9 bytes of stdout left out; and not kept: disk full]"


def test_a_spill_has_a_record(tmp_path):
    """A spill is readable through the environment, has a record that names no command, and ignores itself in git."""

    async def use(env):
        result = await env.execute("yes | head -c 5000 # canary", output_limit=10)
        return result, await env.read_file(result.stdout_path)

    result, data = run(tmp_path, use)
    record_text = Path(result.stdout_path + ".json").read_text()
    record = json.loads(record_text)
    created = datetime.fromisoformat(record.pop("created"))
    assert abs((datetime.now(created.tzinfo) - created).total_seconds()) < 60
    assert data == b"y\n" * 2500
    assert record == {
        "kind": "spill",
        "id": Path(result.stdout_path).stem,
        "stream": "stdout",
        "path": result.stdout_path,
        "size": 5000,
        "complete": True,
    }
    assert "canary" not in record_text
    assert (tmp_path / ".stead" / ".gitignore").read_text() == "*\n"
    assert Path(result.stdout_path).parent == tmp_path / SPILL
    assert Path(result.stdout_path).stat().st_mode & 0o777 == 0o600


def test_the_record_of_an_odd_path(tmp_path):
    """A record is JSON whatever the root is called."""
    root = tmp_path / 'a "b"\\c\n\té'
    result = execute(root, "echo 12345", output_limit=2)
    record = json.loads(Path(result.stdout_path + ".json").read_text())
    assert record["path"] == result.stdout_path == str(root / SPILL / (record["id"] + ".out"))


def test_another_state_dir(tmp_path):
    """`state_dir` moves the spills; a `.gitignore` that is there stays."""
    (tmp_path / "var" / "state").mkdir(parents=True)
    (tmp_path / "var" / "state" / ".gitignore").write_text("mine\n")
    result = execute(tmp_path, "echo 12345", output_limit=2, options={"state_dir": "var/state"})
    assert Path(result.stdout_path).parent == tmp_path / "var" / "state" / "spill"
    assert (tmp_path / "var" / "state" / ".gitignore").read_text() == "mine\n"
    assert not (tmp_path / "var" / ".gitignore").exists()


@pytest.mark.parametrize("obstacle", ["file", "link", "loop"])
def test_a_spill_that_cannot_be_made(tmp_path, obstacle):
    """Where no file can be made the command goes on: head, tail and counts come back with the reason."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    if obstacle == "file":
        (root / ".stead").write_text("")
    else:
        (root / ".stead").symlink_to(outside if obstacle == "link" else ".stead")
    result = execute(root, "yes | head -c 1000000; echo end; exit 3", output_limit=10)
    assert (result.exit_code, result.stdout_bytes, result.stdout_path) == (3, 1_000_004, None)
    assert result.spill_error == f"stdout: {os.strerror(errno.ENOTDIR)}"
    assert result.stdout.startswith("y\ny\ny\n[stead: 999994 of 1000004 bytes of stdout left out; and not kept: ")
    assert result.stdout.endswith("]\n\nend\n")
    assert list(outside.iterdir()) == []


def test_the_spill_limit(tmp_path, monkeypatch):
    """A spill ends at its limit, the command does not: bytes are counted on, the tail is right, the result says so."""
    from stead_local.command_options import CommandOptions

    async def use(env):
        options = CommandOptions(output_limit=10, spill_limit=4096)
        monkeypatch.setattr(env._commands, "_options", options)
        return await env.execute("yes | head -c 1000000; echo end")

    result = run(tmp_path, use)
    assert (result.exit_code, result.stdout_bytes) == (0, 1_000_004)
    assert result.spill_error == "stdout: the limit of 4096 bytes for a spill file was reached"
    assert Path(result.stdout_path).read_bytes() == b"y\n" * 2048
    assert json.loads(Path(result.stdout_path + ".json").read_text())["complete"] is False
    assert result.stdout.endswith("]\n\nend\n")
    assert f"see {result.stdout_path}, which is not complete: " in result.stdout


def test_a_full_disk(tmp_path):
    """A disk that fills while spilling ends the file, not the command, and holds nothing up."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", tmp_path], check=False)
    if mounted.returncode:
        pytest.skip("no permission to mount a small file system here")
    try:
        result = execute(tmp_path, "yes | head -c 3000000; echo end; exit 5", output_limit=100, timeout=30)
        assert (result.exit_code, result.stdout_bytes, result.timed_out) == (5, 3_000_004, False)
        assert result.spill_error.startswith(f"stdout: {os.strerror(errno.ENOSPC)}")
        size = Path(result.stdout_path).stat().st_size
        record = json.loads(Path(result.stdout_path + ".json").read_text())
        assert (record["size"], record["complete"], 0 < size < 256 << 10) == (size, False, True)
        assert result.stdout.endswith("end\n")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_write_that_fails_midway(tmp_path):
    """Where the system refuses to let the file grow (here by a limit of the host), the command goes on too."""
    report = below_reaper(
        tmp_path,
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        async def main():
            async with LocalEnvironment(root) as env:
                result = await env.execute("yes | head -c 3000000; echo end; exit 5", output_limit=100, timeout=30)
            print(result.exit_code, result.stdout_bytes, os.path.getsize(result.stdout_path), result.spill_error)
            print(result.stdout.endswith("end\\n"))
        asyncio.run(main())
        """,
    )
    assert report["output"] == f"5 3000004 100000 stdout: {os.strerror(errno.EFBIG)}\nTrue", report["errors"]


REMOVALS = ["rm -rf .stead", "mv .stead elsewhere", "rm .stead/spill/*.out", "rm .stead/spill/*.json"]


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_spill_that_the_command_removes(tmp_path, removal):
    """A command may remove what is ignored while it is spilled, as `git clean -fdx` does: the file is there again."""
    wait = "until [ -s .stead/spill/*.out ]; do sleep 0.01; done"
    result = execute(tmp_path, f"yes | head -c 100000; {wait}; {removal}; yes | head -c 100000", output_limit=10)
    assert (result.exit_code, result.stdout_bytes, result.spill_error) == (0, 200_000, None)
    assert Path(result.stdout_path).read_bytes() == b"y\n" * 100_000
    record = json.loads(Path(result.stdout_path + ".json").read_text())
    assert (record["path"], record["size"], record["complete"]) == (result.stdout_path, 200_000, True)


def test_a_spill_that_cannot_be_put_back(tmp_path):
    """Where the command put something else in its place, the result says so and names no file."""
    wait = "until [ -s .stead/spill/*.out ]; do sleep 0.01; done"
    result = execute(tmp_path, f"yes | head -c 100000; {wait}; rm -rf .stead; echo mine > .stead", output_limit=10)
    assert (result.stdout_bytes, result.stdout_path) == (100_000, None)
    assert "the command removed the spill file" in result.spill_error
    assert (tmp_path / ".stead").read_text() == "mine\n"


def test_both_streams_full_at_once(tmp_path):
    """Two streams of megabytes do not wait for each other."""
    result = execute(tmp_path, "head -c 9000000 /dev/zero & head -c 9000000 /dev/zero >&2; wait", timeout=60)
    assert (result.stdout_bytes, result.stderr_bytes, result.timed_out) == (9_000_000, 9_000_000, False)


def test_endless_output(tmp_path):
    """`yes` is stopped by its timeout; this process stays small and its loop goes on meanwhile."""
    report = below_reaper(
        tmp_path,
        """
        import resource, time
        async def main():
            gap, last = 0, time.monotonic()
            async def tick():
                nonlocal gap, last
                while True:
                    await asyncio.sleep(0.05)
                    gap, last = max(gap, time.monotonic() - last), time.monotonic()
            ticking = asyncio.create_task(tick())
            async with LocalEnvironment(root) as env:
                first = await env.execute("yes", timeout=1)
                second = await env.execute("yes | head -c 300000000")
            assert first.timed_out and first.duration < 2, first.duration
            assert (second.exit_code, second.timed_out, second.stdout_bytes) == (0, False, 300_000_000)
            assert len(second.stdout) < 1_100_000 and "bytes of stdout left out" in second.stdout
            assert os.path.getsize(second.stdout_path) == 300_000_000
            print(gap, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            for path in (first.stdout_path, second.stdout_path):
                os.unlink(path)
        asyncio.run(main())
        """,
    )
    assert (report["status"], report["left"]) == (0, 0), report["errors"]
    gap, peak = report["output"].split()
    assert float(gap) < 1
    assert int(peak) < 200 << 10


def peak_kb(pid: int) -> int:
    """The peak resident size of a process since it was last reset."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0])


def test_much_output_takes_little_memory(tmp_path):
    """200 MB of output: this process and the keepers grow by less than 24 MB, and every byte is in the file."""

    async def use(env):
        keeper = int((await env.execute("echo $PPID")).stdout)
        pids = [os.getpid(), keeper]
        for pid in pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        before = sum(map(peak_kb, pids))
        result = await env.execute("head -c 200000000 /dev/zero")
        grown = sum(map(peak_kb, pids)) - before
        assert (result.stdout_bytes, Path(result.stdout_path).stat().st_size) == (200_000_000, 200_000_000)
        Path(result.stdout_path).unlink()
        return grown, (await env.execute("echo $PPID")).stdout == f"{keeper}\n"

    grown, same = run(tmp_path, use)
    assert (grown < 24 << 10, same) == (True, True)


def test_a_background_child_does_not_hold_the_call(tmp_path):
    """A child that keeps the pipes open does not keep the call waiting, and is not killed by its return."""

    async def use(env):
        start = time.monotonic()
        results = [await env.execute("sleep 30 & echo hi", timeout=timeout) for timeout in (None, 10)]
        seconds = time.monotonic() - start
        alive = (await env.execute("pgrep -x sleep -s 0 || pgrep -x sleep | wc -l")).stdout
        return [(r.stdout, r.exit_code, r.timed_out) for r in results], seconds, int(alive) >= 2

    assert run(tmp_path, use)[::2] == ([("hi\n", 0, False)] * 2, True)


def test_a_background_process_goes_on(tmp_path):
    """What a command leaves in the background lives after its return, and ends with `close()`."""

    async def use(env):
        start = time.monotonic()
        result = await env.execute(
            "nohup sh -c 'sleep 0.6; echo done > f.out; sleep 60' >/dev/null 2>&1 & echo started"
        )
        assert (result.stdout, time.monotonic() - start < 1.5) == ("started\n", True)
        return await until((tmp_path / "f.out").exists)

    assert run(tmp_path, use) is True


def test_later_output_goes_nowhere(tmp_path):
    """A background writer gets no SIGPIPE, and nothing of it is in a later result."""
    writer = (
        "(i=0; while [ $i -lt 30 ]; do echo noise || exit 1; i=$((i+1)); sleep 0.02; done; echo done > f) & echo on"
    )

    async def use(env):
        first = await env.execute(writer)
        later = [(await env.execute("echo quiet; sleep 0.05")).stdout for _ in range(5)]
        return first.stdout, later, await until((tmp_path / "f").exists), await until(lambda: settled(env))

    def settled(env) -> bool:
        for keeper in list(env._commands._pool._held.looking_after):
            if keeper.ended():
                env._commands._pool.drop(keeper)
        return nothing_left(env)

    first, later, done, ended = run(tmp_path, use)
    assert first.startswith(("on\n", "noise\n"))
    assert (later, done, ended) == (["quiet\n"] * 5, True, True)


def test_a_timeout_spares_earlier_background_processes(tmp_path):
    """A timeout kills what its own command started, nothing of an earlier one, and nothing of one beside it."""

    async def use(env):
        await env.execute("(env -i setsid sh -c 'sleep 0.8; echo > earlier' &) ; true")
        beside = asyncio.create_task(env.execute("(env -i setsid sh -c 'sleep 0.8; echo > beside' &); sleep 1"))
        result = await env.execute("setsid sleep 60 & sleep 60", timeout=0.3)
        await beside
        return result.timed_out, await until(lambda: all((tmp_path / n).exists() for n in ("earlier", "beside")))

    assert run(tmp_path, use) == (True, True)


def test_output_that_is_in_the_pipe_at_the_end(tmp_path):
    """The last output of the foreground command is taken, also when a background child holds the pipes."""
    for _ in range(10):
        result = execute(tmp_path, "sleep 5 & head -c 60000 /dev/zero; echo end")
        assert (result.stdout_bytes, result.stdout[-4:]) == (60_004, "end\n")


def test_process_substitution(tmp_path):
    """The last lines of a process substitution, written after the shell's own end, are in the result."""
    script = "echo a > >(cat; echo b); echo c"
    for _ in range(5):
        result = execute(tmp_path, ["bash", "-c", script])
        assert sorted(result.stdout.split()) == ["a", "b", "c"]


# ---- execute_stream ----------------------------------------------------------------------------------------------------


def collect(root, command, **arguments):
    """All items of a stream: what each stream said, and the result."""

    async def use(env):
        said = {"stdout": b"", "stderr": b""}
        async with aclosing(env.execute_stream(command, **arguments)) as items:
            async for item in items:
                if isinstance(item, ExecutionResult):
                    result = item
                else:
                    assert item.data
                    said[item.stream] += item.data
        return said, result

    return run(root, use)


def test_a_stream(tmp_path):
    """Pieces in order, then one result that says all of it again."""
    said, result = collect(tmp_path, "for i in 1 2 3; do echo $i; echo e$i >&2; done; exit 2")
    assert said == {"stdout": b"1\n2\n3\n", "stderr": b"e1\ne2\ne3\n"}
    assert (result.stdout, result.stderr, result.exit_code) == ("1\n2\n3\n", "e1\ne2\ne3\n", 2)
    missing, result = collect(tmp_path, ["no-such"])
    assert (missing["stderr"], result.exit_code) == (b"no-such: not found\n", 127)


def test_a_stream_is_live(tmp_path):
    """A piece arrives long before the command ends, within 50 ms of being written on an idle machine."""

    async def use(env):
        script = "import time\nfor _ in range(9): print(time.time(), flush=True); time.sleep(0.1)"
        async with aclosing(env.execute_stream([sys.executable, "-c", script])) as items:
            return sorted([time.time() - float(item.data) async for item in items if isinstance(item, OutputChunk)])

    delays = run(tmp_path, use)
    assert len(delays) == 9
    assert delays[4] < 0.05


def test_a_stream_is_never_cut(tmp_path):
    """`output_limit` cuts what the result repeats, never the pieces."""
    said, result = collect(tmp_path, "yes | head -c 3000000", output_limit=100)
    assert said["stdout"] == b"y\n" * 1_500_000
    assert (len(result.stdout) < 300, Path(result.stdout_path).stat().st_size) == (True, 3_000_000)


def test_a_slow_reader_slows_the_command(tmp_path):
    """Back-pressure: a command waits for a slow reader, memory stays bounded and nothing is lost."""

    async def use(env):
        digest = hashlib.sha256()
        async with aclosing(env.execute_stream("head -c 20000000 /dev/zero", output_limit=0)) as items:
            digest.update((await anext(items)).data)
            await asyncio.sleep(0.5)
            (keeper,) = env._commands._pool._held.busy
            held = len(keeper._channel._partial) + sum(len(payload) for _, payload in keeper._channel.inbox)
            async for item in items:
                if isinstance(item, ExecutionResult):
                    return digest.hexdigest(), held, item.stdout_bytes
                digest.update(item.data)
        return None

    digest, held, total = run(tmp_path, use)
    assert (digest, total) == (hashlib.sha256(bytes(20_000_000)).hexdigest(), 20_000_000)
    assert held < 1 << 20


def test_a_reader_that_stops_does_not_stop_the_deadline(tmp_path):
    """A timeout ends the command also while its reader does not read; what was written still arrives."""

    async def use(env):
        async with aclosing(env.execute_stream("echo first; yes", timeout=0.5)) as items:
            first = await anext(items)
            await asyncio.sleep(1.5)
            rest = [item async for item in items]
        return first.data, sum(len(item.data) for item in rest[:-1]) + len(first.data), rest[-1]

    first, size, result = run(tmp_path, use)
    assert first.startswith(b"first\n")
    assert (result.timed_out, result.stdout_bytes) == (True, size)
    assert result.duration < 1.5


def test_a_stream_that_is_never_started(tmp_path):
    """A generator that nobody iterates starts nothing."""

    async def use(env):
        stream = env.execute_stream("touch started")
        await stream.aclose()

    run(tmp_path, use)
    assert not (tmp_path / "started").exists()


def test_the_loop_runs_while_stdin_is_handed_over(tmp_path):
    """Handing over a lot of stdin leaves the loop and its thread alone."""

    async def use(env):
        turns = 0

        async def turn():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        before = threading.active_count()
        result = await env.execute("wc -c", stdin=bytes(30_000_000))
        turning.cancel()
        return result.stdout.strip(), turns > 20, threading.active_count() - before

    assert run(tmp_path, use) == ("30000000", True, 0)
