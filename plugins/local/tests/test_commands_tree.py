"""Nothing that a command started is left: after a timeout, a cancellation, an early close, `close()`, or our own death."""

import asyncio
import signal
import time
from contextlib import aclosing

import commands_shapes as shapes
import pytest
from commands_support import below_reaper, nothing_left, run, serial, survivors, until

from stead import OutputChunk
from stead.errors import EnvironmentClosed, EnvironmentLost

EACH_SHAPE = pytest.mark.parametrize("shape", shapes.SHAPES)


@EACH_SHAPE
def test_timeout_ends_the_tree(tmp_path, shape):
    """A timeout ends every process, keeps the output so far, and is back a second later at most."""
    shapes.prepare(tmp_path)
    mark = serial()

    async def use(env):
        start = time.monotonic()
        result = await env.execute(shapes.script(shape, mark), timeout=0.5, output_limit=1000)
        return result, time.monotonic() - start, nothing_left(env), survivors(mark)

    result, seconds, proved, left = run(tmp_path, use)
    assert (result.timed_out, result.exit_code) == (True, 124)
    assert result.stdout.startswith("begin\n")
    assert (proved, left) == (True, [])
    assert seconds < 1.5


@EACH_SHAPE
def test_cancel_ends_the_tree(tmp_path, shape):
    """A cancelled call raises CancelledError when its processes have ended, and the environment goes on."""
    shapes.prepare(tmp_path)
    mark = serial()

    async def use(env):
        task = asyncio.create_task(env.execute(shapes.script(shape, mark)))
        await asyncio.sleep(0.3)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seconds = time.monotonic() - start
        return seconds, nothing_left(env), survivors(mark), (await env.execute("echo on")).stdout

    seconds, proved, left, after = run(tmp_path, use)
    assert (proved, left, after) == (True, [], "on\n")
    assert seconds < 1.2 + 1  # the grace and a second, and room for a busy machine


@EACH_SHAPE
def test_early_close_ends_the_tree(tmp_path, shape):
    """Leaving `execute_stream` after its first piece ends every process before `aclose()` returns."""
    shapes.prepare(tmp_path)
    mark = serial()

    async def use(env):
        async with aclosing(env.execute_stream(shapes.script(shape, mark))) as items:
            first = await anext(items)
        return first, nothing_left(env), survivors(mark)

    first, proved, left = run(tmp_path, use)
    assert first.data.startswith(b"begin\n")
    assert (proved, left) == (True, [])


def test_close_ends_all_at_once(tmp_path):
    """`close()` ends calls that run, streams that wait for their reader, and what earlier calls left behind."""
    mark = serial()
    roots = []
    for shape in shapes.SHAPES:
        roots.append(tmp_path / shape)
        roots[-1].mkdir()
        shapes.prepare(roots[-1])

    async def use(env):
        for shape in ("new session", "double fork", "ignores TERM"):
            left_behind = f"({shapes.script(shape, mark)}) > /dev/null 2>&1 & echo left"
            assert (await env.execute(left_behind)).stdout == "left\n"
        stream = env.execute_stream(f"yes & sleep {mark}")
        assert isinstance(await anext(stream), OutputChunk)
        calls = [
            asyncio.create_task(env.execute(shapes.script(shape, mark), cwd=shape, output_limit=1000))
            for shape in shapes.SHAPES
        ]
        await asyncio.sleep(1)
        start = time.monotonic()
        await env.close()
        seconds = time.monotonic() - start
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(EnvironmentClosed):
            await anext(stream)
        return outcomes, seconds

    outcomes, seconds = run(tmp_path, use)
    assert [type(outcome) for outcome in outcomes] == [EnvironmentClosed] * len(shapes.SHAPES)
    assert survivors(mark) == []
    assert list(tmp_path.glob("**/.stead/spill/*")) == []
    assert seconds < 5


TEN_AT_ONCE = """
    import commands_shapes as shapes
    shapes.prepare(root)

    async def main():
        env = LocalEnvironment(root)
        await env.execute("setsid sleep {mark} > /dev/null 2>&1 & (env -i setsid sleep {mark} &)")
        calls = [asyncio.create_task(env.execute(shapes.script(shape, {mark}))) for shape in shapes.SHAPES]
        await asyncio.sleep(1)
        {end}

    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os.kill(os.getpid(), 9)", signal.SIGKILL),
        ("os._exit(3)", 3 << 8),
        ("os.kill(os.getpid(), 15)", signal.SIGTERM),
        ("await env.close(); os._exit(0)", 0),
    ],
    ids=["SIGKILL", "_exit", "SIGTERM", "close"],
)
def test_death_of_the_process_ends_all(tmp_path, end, how):
    """When this process dies, even by SIGKILL, every tree of every shape ends, and the keepers too."""
    mark = serial()
    report = below_reaper(tmp_path, TEN_AT_ONCE.format(mark=mark, end=end))
    assert (report["left"], report["status"]) == (0, how)
    assert survivors(mark) == []
    assert report["seconds"] < 3


def test_an_unhandled_exit_ends_all(tmp_path):
    """An interpreter that ends without `close()` leaves nothing, and says nothing odd on its way out."""
    mark = serial()
    report = below_reaper(
        tmp_path,
        f"""
        env = LocalEnvironment(root)
        async def main():
            await env.execute("sleep {mark} > /dev/null 2>&1 &")
            asyncio.create_task(env.execute("sleep {mark}"))
            await asyncio.sleep(0.3)
        asyncio.run(main())
        """,
    )
    assert (report["left"], report["status"], report["errors"]) == (0, 0, "")
    assert survivors(mark) == []


def test_cancel_during_the_start(tmp_path):
    """A call that is cancelled before its command has begun leaves nothing, at whatever loop turn."""
    mark = serial()

    async def use(env):
        for turns in range(12):
            task = asyncio.create_task(env.execute(f"sleep {mark}; echo > late"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return nothing_left(env), survivors(mark)

    assert run(tmp_path, use) == (True, [])
    assert not (tmp_path / "late").exists()


def test_a_second_cancel_does_not_abort_the_kill(tmp_path):
    """Cancelled again and again while it waits for the end, a call still waits for it."""
    mark = serial()

    async def use(env):
        task = asyncio.create_task(env.execute(f"trap '' TERM; while :; do sleep {mark}; done"))
        await asyncio.sleep(0.2)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.02)
        return task.cancelled(), nothing_left(env), survivors(mark)

    assert run(tmp_path, use) == (True, True, [])


def test_a_cancelled_command_leaves_no_spill(tmp_path):
    """The spill file of a call that was cancelled is removed: nobody has learned its name."""

    async def use(env):
        task = asyncio.create_task(env.execute("yes", output_limit=10))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.wait([task])
        return list((tmp_path / ".stead" / "spill").iterdir())

    assert run(tmp_path, use) == []


def test_terminated_children_are_not_reported(tmp_path):
    """No shell writes `Terminated` or `Killed` into the output of a command that timed out."""
    script = "(sleep 50; echo no) & bash -c 'sleep 51; echo no'; echo no"

    async def use(env):
        return await env.execute(script, timeout=0.3)

    result = run(tmp_path, use)
    assert (result.stdout, result.stderr) == ("", "")


def test_term_comes_before_kill(tmp_path):
    """A command may clean up when it times out: SIGTERM first, and its last output is kept."""
    script = "trap 'echo cleaned; exit 3' TERM; echo begin; while :; do sleep 0.02; done"

    async def use(env):
        return await env.execute(script, timeout=0.3)

    result = run(tmp_path, use)
    assert (result.stdout, result.exit_code, result.timed_out) == ("begin\ncleaned\n", 124, True)


def test_a_killed_keeper_leaves_nothing(tmp_path):
    """A command that kills its keeper gets EnvironmentLost, its tree ends, and the environment goes on."""
    mark = serial()

    async def use(env):
        with pytest.raises(EnvironmentLost, match="may have run"):
            await env.execute(f"setsid sleep {mark} & kill -9 $PPID; sleep {mark}")
        return await until(lambda: not survivors(mark)), (await env.execute("echo on")).stdout

    assert run(tmp_path, use) == (True, "on\n")


@pytest.mark.slow
def test_a_stopped_keeper_holds_nobody_up_for_ever(tmp_path):
    """A command that stops its keeper can still be cancelled, and ends with `close()`."""
    mark = serial()

    async def use(env):
        task = asyncio.create_task(env.execute(f"kill -STOP $PPID; sleep {mark}"))
        await asyncio.sleep(0.3)
        start = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        return time.monotonic() - start, (await env.execute("echo on")).stdout

    seconds, after = run(tmp_path, use)
    assert (survivors(mark), after) == ([], "on\n")
    assert seconds < 3


def test_close_ends_what_a_stopped_keeper_does_not(tmp_path):
    """A command that stopped its keeper has ended, with a child in a session of its own, when `close()` returns."""
    mark = serial()

    async def use(env):
        task = asyncio.create_task(env.execute(f"setsid sleep {mark} & kill -STOP $PPID; sleep {mark}"))
        await asyncio.sleep(0.5)
        start = time.monotonic()
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await task
        return time.monotonic() - start, survivors(mark)

    seconds, left = run(tmp_path, use)
    assert left == []
    assert seconds < 8
