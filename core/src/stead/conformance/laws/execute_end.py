"""Laws about commands that do not simply end: timeouts, cancellation, children, the background, a lost machine.

Survivors are found by their heartbeat: a child appends to a file while it lives. That works wherever the command runs,
and no child beats for more than some seconds, so that even a broken environment leaves nothing for ever.
"""

import asyncio
from contextlib import suppress

import pytest

from stead.conformance.doors import Faults
from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import need_program, sh
from stead.environment import Environment
from stead.errors import EnvironmentClosed, EnvironmentLost, FileMissing, Unavailable
from stead.results import ExecutionResult

__all__ = ["EndLaws"]

_BEAT = "i=0; while [ $i -lt 80 ]; do echo x >> beat; sleep 0.1; i=$((i+1)); done"


class EndLaws(LawSettings):
    """Group G, continued."""

    @law("G15", needs="execute")
    async def test_execute_timeout(self, env: Environment) -> None:
        """A timeout ends the command in time, says so, and keeps the output so far."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await env.execute("echo before; echo error >&2; sleep 30; echo after", timeout=0.5)
        assert loop.time() - started < 0.5 + self.margin
        assert (result.timed_out, result.exit_code) == (True, 124)
        assert result.stdout == "before\n"
        assert result.stderr.startswith("error\n")

    @law("G18", needs="execute")
    async def test_execute_no_false_timeout(self, env: Environment) -> None:
        """A command that ends by itself in time, even by 124 or by TERM, is not reported as timed out."""
        for command, code in (("sleep 0.3", 0), ("exit 124", 124), ("kill -TERM $$", 143)):
            result = await env.execute(command, timeout=2 + self.margin)
            assert (result.exit_code, result.timed_out) == (code, False)

    @law("G17", needs="execute")
    async def test_execute_timeout_kills_children(self, env: Environment, here: Folder) -> None:
        """A timeout kills the command's children and grandchildren."""
        await self._dies(env, here, f"({_BEAT}) & sh -c 'sh -c \"sleep 30\"'")

    @law("G17", needs="execute")
    async def test_execute_timeout_kills_stubborn(self, env: Environment, here: Folder) -> None:
        """A timeout kills a child that ignores TERM, INT and HUP."""
        await self._dies(env, here, f"(trap '' TERM INT HUP; {_BEAT}) & wait")

    @law("G17", needs="execute")
    async def test_execute_timeout_kills_escaped(self, env: Environment, here: Folder) -> None:
        """A timeout kills a child that left the process group and the session."""
        await need_program(env, "setsid")
        await self._dies(env, here, f"setsid sh -c '{_BEAT}' & sleep 30")

    @law("G17", needs="execute")
    async def test_execute_timeout_kills_orphans(self, env: Environment, here: Folder) -> None:
        """A timeout kills an orphan of an orphan, in a session of its own and without its variables."""
        await need_program(env, "setsid")
        inner = f'trap "" TERM; {_BEAT}'
        await self._dies(
            env, here, f"(env -i PATH=\"$PATH\" setsid sh -c 'setsid sh -c '\\''{inner}'\\'' &' &) ; sleep 30"
        )

    @law("G17", needs="execute")
    async def test_execute_timeout_pipeline(self, env: Environment, here: Folder) -> None:
        """A pipeline whose children hold the pipes ends at the timeout too."""
        await need_program(env, "mkfifo")
        await here.make(env)
        command = "mkfifo p; (while :; do echo child; sleep 0.2; done) > p & cat p; sleep 30"
        result = await env.execute(command, timeout=1, cwd=here.path)
        assert result.timed_out
        assert "child" in result.stdout

    @law("G19", needs="execute")
    async def test_execute_cancel(self, env: Environment, here: Folder) -> None:
        """Cancelling the caller kills the whole tree, rises as cancelled, and the environment works after."""
        await here.make(env)
        task = asyncio.create_task(env.execute(f"({_BEAT}) & sleep 30; echo late > late", cwd=here.path))
        await self._appears(env, here / "beat")
        await self._cancelled(task)
        await self._silent(env, here)
        assert (await env.execute("echo works")).stdout == "works\n"

    @law("G19", needs="execute")
    async def test_execute_cancel_at_once(self, env: Environment, here: Folder) -> None:
        """Cancelling a command that has hardly begun leaves nothing running either."""
        await here.make(env)
        for ticks in range(6):
            task = asyncio.create_task(env.execute("sleep 0.6; echo late > late", cwd=here.path))
            for _ in range(ticks):
                await asyncio.sleep(0)
            await self._cancelled(task)
        await asyncio.sleep(1)
        with pytest.raises(FileMissing):
            await env.read_file(here / "late")

    @law("G20", needs="execute")
    async def test_execute_background_returns(self, env: Environment) -> None:
        """A child left in the background, with the pipes in its hands, does not hold the call."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await env.execute("sleep 8 & echo hi", timeout=7)
        assert loop.time() - started < 1 + self.margin
        assert (result.stdout, result.exit_code, result.timed_out) == ("hi\n", 0, False)

    @law("G20", needs="execute")
    async def test_execute_background_lives(self, env: Environment, here: Folder) -> None:
        """A normal return kills nothing: what was left in the background goes on, and can still print."""
        await here.make(env)
        await sh(env, "(sleep 0.5; echo late; echo done > done; mv done ended) & echo started", here)
        await self._appears(env, here / "ended")
        assert await env.read_file(here / "ended") == b"done\n"

    @law("G20", needs="execute")
    async def test_execute_background_not_mixed(self, env: Environment, here: Folder) -> None:
        """What a background child prints later never appears in another result."""
        await here.make(env)
        await sh(env, "(sleep 0.4; echo late; echo late >&2) & echo first", here)
        result = await env.execute("sleep 0.9; echo second")
        assert (result.stdout, result.stderr) == ("second\n", "")

    @law("G20", needs="execute")
    async def test_execute_background_ends_at_close(self, env: Environment, here: Folder, second: Environment) -> None:
        """`close()` ends what was left in the background."""
        await here.make(env)
        await sh(env, f"({_BEAT}) > /dev/null 2>&1 &", here)
        async with second:
            await self._appears(second, here / "beat")
            await env.close()
            with suppress(EnvironmentLost):  # a machine that ended with its environment holds nothing that beats
                await self._silent(second, here)

    @law("G19", needs="execute")
    async def test_execute_close_ends_it(self, env: Environment) -> None:
        """A command that runs when its environment closes ends with EnvironmentClosed."""
        task = asyncio.create_task(env.execute("sleep 30"))
        await asyncio.sleep(0.5)
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await task

    @law("G28", needs="execute")
    async def test_execute_lost(self, faulty: Faults) -> None:
        """A machine that is destroyed during a command is EnvironmentLost or Unavailable, not a result and not a hang."""
        async with faulty("lost") as broken:
            with pytest.raises((EnvironmentLost, Unavailable)):
                await broken.execute("sleep 5")

    @law("G29", needs="execute")
    async def test_execute_silent(self, faulty: Faults) -> None:
        """A machine that never answers does not outlive the command's timeout: the deadline is kept on this side too."""
        async with faulty("silent") as broken:
            try:
                result: ExecutionResult | None = await broken.execute("echo hi", timeout=1)
            except (EnvironmentLost, Unavailable):
                result = None
        assert result is None or result.timed_out

    async def _dies(self, env: Environment, here: Folder, command: str) -> None:
        await here.make(env)
        result = await env.execute(command, timeout=0.8, cwd=here.path)
        assert result.timed_out
        assert await env.read_file(here / "beat")
        await self._silent(env, here)

    async def _appears(self, env: Environment, path: str) -> None:
        for _ in range(100):
            try:
                await env.read_file(path)
            except FileMissing:
                await asyncio.sleep(0.05)
            else:
                return
        pytest.fail(f"the command did not write {path} within 5 s")

    async def _silent(self, env: Environment, here: Folder) -> None:
        # A beat that was under way when its process died may still land: count from a little later on.
        await asyncio.sleep(0.2)
        beats = len(await env.read_file(here / "beat"))
        await asyncio.sleep(0.5)
        assert len(await env.read_file(here / "beat")) == beats, "a process of the command is still alive"

    async def _cancelled(self, task: asyncio.Task[ExecutionResult]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert loop.time() - started < 1.2 + self.margin
