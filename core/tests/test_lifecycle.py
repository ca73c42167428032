"""Start once, close once, whoever asks."""

import asyncio
import gc
import warnings
from pathlib import PurePosixPath

import pytest

from stead import Environment
from stead.environments import MemoryEnvironment
from stead.errors import EnvironmentClosed, SteadError, Unsupported
from stead.results import FileInfo, LineRange


class Slow(Environment):
    """Counts its starts and closes; four members and two hooks, no super().__init__()."""

    working_dir = PurePosixPath("/")

    def __init__(self, fail: int = 0, seconds: float = 0.01) -> None:
        self.log: list[str] = []
        self.seconds = seconds
        self.fail = fail

    async def _start(self) -> None:
        self.log.append("start")
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.log.append("undone")
            raise
        if self.fail:
            self.fail -= 1
            raise OSError("no")

    async def _close(self) -> None:
        self.log.append("close")
        await asyncio.sleep(0.01)
        self.log.append("closed")

    async def read_file(self, path):
        await self._ready()
        return b"line 1\nline 2"

    async def write_file(self, path, content, *, if_absent=False, if_version=None):
        await self._ready()
        return FileInfo(path="/f", kind="file")


def test_ten_first_uses_start_once():
    """A7: concurrent first uses share one start."""

    async def main():
        env = Slow()
        await asyncio.gather(*(env.read_file("f") for _ in range(10)), env.start())
        await asyncio.gather(env.close(), env.close())
        await env.close()
        return env.log

    assert asyncio.run(main()) == ["start", "close", "closed"]


def test_one_cancelled_caller_leaves_the_others_waiting():
    """Cancelling one of two first uses does not disturb the other; cancelling the last undoes the start."""

    async def main():
        env, alone = Slow(seconds=0.5), Slow(seconds=0.5)
        one, two, last = (asyncio.create_task(e.read_file("f")) for e in (env, env, alone))
        await asyncio.sleep(0.002)
        one.cancel()
        last.cancel()
        results = await asyncio.gather(one, two, last, return_exceptions=True)
        await env.close()
        again = await alone.read_file("f")
        await alone.close()
        return [type(r) for r in results], env.log, alone.log, again

    kinds, log, alone, again = asyncio.run(main())
    assert kinds == [asyncio.CancelledError, bytes, asyncio.CancelledError]
    assert (log, alone, again[:6]) == (
        ["start", "close", "closed"],
        ["start", "undone", "start", "close", "closed"],
        b"line 1",
    )


def test_a_failed_start_can_be_tried_again_and_closed():
    """A4: every waiting caller gets the error; the next use starts anew; close after a failure is fine."""

    async def main():
        env = Slow(fail=1)
        failed = await asyncio.gather(env.start(), env.start(), return_exceptions=True)
        assert [str(e) for e in failed] == ["no", "no"]
        await env.read_file("f")
        await env.close()
        other = Slow(fail=1)
        with pytest.raises(OSError, match="no"):
            async with other:
                pass
        await other.close()
        return env.log, other.log

    assert asyncio.run(main()) == (["start", "start", "close", "closed"], ["start"])


def test_use_after_close_is_refused_everywhere():
    """A5: each method raises EnvironmentClosed, streams and listings at their first step."""

    async def main():
        env = MemoryEnvironment()
        await env.write_file("f", "x")
        await env.close()
        calls = [
            env.start, lambda: env.read_file("f"), lambda: env.write_file("f", "y"), lambda: env.stat("f"),
            lambda: env.delete_file("f"), lambda: env.read_lines("f", LineRange()), lambda: anext(env.read_file_stream("f")),
            lambda: anext(env.list_files()), env.__aenter__,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(EnvironmentClosed, match="after close"):
                await call()

    asyncio.run(main())


def test_close_waits_for_a_start_and_ends_it():
    """Closing while a first use is still starting cancels the start; the caller learns that it was closed."""

    async def main():
        env = Slow(seconds=30)
        task = asyncio.create_task(env.read_file("f"))
        await asyncio.sleep(0.002)
        await env.close()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return type(result), env.log

    assert asyncio.run(main()) == (EnvironmentClosed, ["start", "undone", "close", "closed"])


def test_close_finishes_although_cancelled():
    """A cancelled close is still a whole close."""

    async def main():
        env = Slow()
        await env.start()
        task = asyncio.create_task(env.close())
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return env.log, task.cancelled()

    assert asyncio.run(main()) == (["start", "close", "closed"], True)


def test_another_loop_is_refused():
    """A10: an environment belongs to the loop that started it, and says so."""
    env = MemoryEnvironment()
    asyncio.run(env.write_file("f", "x"))

    with pytest.raises(SteadError, match="another event loop"):
        asyncio.run(env.read_file("f"))
    env._lifecycle.state = type(env._lifecycle.state).CLOSED  # nothing is left to release: no warning below


def test_a_leaked_environment_warns():
    """Started and dropped without close: ResourceWarning; never started or closed: silence."""

    async def leak():
        await MemoryEnvironment().start()
        MemoryEnvironment()
        async with MemoryEnvironment():
            pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(leak())
        gc.collect()

    assert [(w.category, str(w.message)) for w in caught] == [
        (ResourceWarning, "MemoryEnvironment was started and never closed; use `async with`")
    ]


def test_four_members_make_an_environment():
    """What is optional is filled in by the base, or raises Unsupported naming the operation."""

    async def main():
        async with Slow() as env:
            assert [chunk async for chunk in env.read_file_stream("f", offset=2, length=3)] == [b"ne "]
            assert [chunk async for chunk in env.read_file_stream("f", offset=99)] == []
            assert (await env.read_lines("f", LineRange(start=2))).lines == "line 2"
            for call in (lambda: env.stat("f"), lambda: env.delete_file("f"), lambda: env.execute("ls")):
                with pytest.raises(Unsupported) as caught:
                    await call()
                assert caught.value.operation in ("stat", "delete_file", "execute")
            for call in (env.list_files, lambda: env.execute_stream("ls")):
                with pytest.raises(NotImplementedError):
                    call()

    asyncio.run(main())
