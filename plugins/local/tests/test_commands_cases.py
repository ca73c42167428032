"""Faults of other projects in running commands, each as it was reported, on the local environment."""

import asyncio
import time

import pytest
from commands_support import below_reaper, execute, run, serial, survivors, until

from stead.errors import FileMissing


def test_b030_a_timeout_ends_the_whole_pipeline(tmp_path):
    """B030: a wrapper shell that dies leaves no pipeline that holds the pipes."""
    mark = serial()
    script = f"mkfifo p; (while :; do echo child; sleep 0.2; done) > p & cat p; sleep {mark}"
    start = time.monotonic()
    result = execute(tmp_path, script, timeout=1)
    assert time.monotonic() - start < 4
    assert (result.timed_out, "child" in result.stdout, survivors(mark)) == (True, True, [])


@pytest.mark.parametrize("timeout", [None, 10])
def test_b031_a_background_child_that_holds_the_pipes(tmp_path, timeout):
    """B031: the shell's end is the end of the command."""
    start = time.monotonic()
    result = execute(tmp_path, "sleep 30 & echo hi", timeout=timeout)
    assert time.monotonic() - start < 3
    assert (result.stdout, result.exit_code, result.timed_out) == ("hi\n", 0, False)


def test_b033_a_detached_server_stays_until_close(tmp_path):
    """B033: a normal return kills nothing, `close()` all."""
    mark = serial()

    async def use(env):
        start = time.monotonic()
        script = f"nohup sh -c 'sleep 0.5; echo done > f.out; sleep {mark}' >/dev/null 2>&1 & echo started"
        result = await env.execute(script)
        assert (result.stdout, time.monotonic() - start < 1.5) == ("started\n", True)
        return await until((tmp_path / "f.out").exists)

    assert run(tmp_path, use) is True
    assert survivors(mark) == []


def test_b035_a_cancelled_caller(tmp_path):
    """B035: cancelled after a while, at once, or by `wait_for`, a call leaves no process, task or noise."""
    mark = serial()
    report = below_reaper(
        tmp_path,
        f"""
        async def main():
            env = LocalEnvironment(root)
            for pause in (0.5, 0):
                task = asyncio.create_task(env.execute("sleep {mark}; echo x > late"))
                await asyncio.sleep(pause)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            try:
                await asyncio.wait_for(env.execute("sleep {mark} & wait"), 0.5)
            except TimeoutError:
                print("timeout")
            print(len(asyncio.all_tasks()))
        asyncio.run(main())
        """,
    )
    assert (report["output"], report["left"], report["errors"]) == ("timeout\n1", 0, "")
    assert not (tmp_path / "late").exists()


def test_b036_endless_output_is_bounded(tmp_path):
    """B036: the limit applies while reading, and the pipe is drained all the same."""
    result = execute(tmp_path, "yes", timeout=1)
    assert (result.timed_out, len(result.stdout) < 1_100_000, result.duration < 2) == (True, True, True)
    assert "left out" in result.stdout
    complete = execute(tmp_path, "yes | head -c 30000000")
    assert (complete.exit_code, complete.stdout_bytes, "left out" in complete.stdout) == (0, 30_000_000, True)


def test_b038_death_by_signal_is_not_success(tmp_path):
    """B038: a command that a signal ended has 128 + n."""
    results = [execute(tmp_path, f"kill -{name} $$") for name in ("9", "TERM")]
    assert [(r.exit_code, r.timed_out) for r in results] == [(137, False), (143, False)]


def test_b039_commands_that_read_stdin(tmp_path):
    """B039: stdin is at its end, so nothing waits for input."""
    start = time.monotonic()
    assert execute(tmp_path, "cat", timeout=5).stdout == ""
    assert execute(tmp_path, 'read x; echo "[$x]"', timeout=5).stdout == "[]\n"
    python = execute(tmp_path, "python3 -c 'input()'", timeout=5)
    assert (python.exit_code, "EOFError" in python.stderr) == (1, True)
    assert time.monotonic() - start < 5


def test_b040_output_that_is_no_utf8(tmp_path):
    """B040: bad bytes are replaced, a character that comes in two pieces is whole."""
    first = execute(tmp_path, r"printf '\377\376ok\n'")
    second = execute(tmp_path, r"printf '\360' >&2; exit 4")
    third = execute(tmp_path, r"printf '\344\270'; sleep 0.1; printf '\255'")
    assert (first.stdout, first.exit_code) == ("\ufffd\ufffdok\n", 0)
    assert (second.stderr, second.exit_code, third.stdout) == ("\ufffd", 4, "中")


def test_b043_the_working_directory_holds_for_the_whole_command(tmp_path):
    """B043: every part of a command list runs in the working directory, and none if that is gone."""
    root = tmp_path / "ws"

    async def use(env):
        said = [(await env.execute(c)).stdout for c in ("true; pwd", "true & wait; pwd", "false || pwd")]
        root.rename(tmp_path / "gone")
        with pytest.raises(FileMissing):
            await env.execute(f"true; echo x > {tmp_path}/marker")
        return said

    assert run(root, use) == [f"{root}\n"] * 3
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(("size", "cut"), [(9_999, False), (10_000, False), (10_001, True), (16_384, True)])
def test_b044_cut_output_says_so(tmp_path, size, cut):
    """B044: exactly at the limit output is whole, one byte later it is visibly cut."""
    result = execute(tmp_path, f"printf '%0{size}d' 0", output_limit=10_000)
    assert (result.exit_code, result.stdout_path is not None, "[stead: " in result.stdout) == (0, cut, cut)
    assert cut or result.stdout == "0" * size


def test_b045_a_failing_command_is_a_result(tmp_path):
    """B045: an exit code raises nothing and hides no output."""
    result = execute(tmp_path, "printf report; exit 1")
    assert (result.exit_code, result.stdout, result.timed_out) == (1, "report", False)


def test_ten_calls_at_once_time_out_apart(tmp_path):
    """Ten trees that time out at the same moment are each ended, and each keeps its own output."""
    mark = serial()

    async def use(env):
        start = time.monotonic()
        script = "echo {n}; (env -i setsid sleep {mark} &); setsid sleep {mark} & sleep {mark}"
        calls = (env.execute(script.format(n=n, mark=mark), timeout=0.5) for n in range(10))
        results = await asyncio.gather(*calls)
        return [(r.stdout, r.timed_out) for r in results], survivors(mark), time.monotonic() - start

    said, left, seconds = run(tmp_path, use)
    assert (said, left) == ([(f"{n}\n", True) for n in range(10)], [])
    assert seconds < 2.5
