"""More commands at once than the parent keeper can soon fork keepers for: the others wait, and miss nothing."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from commands_support import run, until

from stead.errors import EnvironmentClosed

MANY = 60


def parent_of(env):
    """The parent keeper of an environment."""
    return env._commands._pool._held.parents[0]


def waiting(env):
    """How many calls wait for their turn."""
    return len(env._commands._pool._turns._waiting)


async def begun(env, command):
    """Begins many commands, and returns their tasks once some of them wait."""
    await env.execute("true")
    tasks = [asyncio.create_task(env.execute(command)) for _ in range(MANY)]
    await asyncio.sleep(0)
    assert await until(lambda: waiting(env) > 0)
    return tasks


def test_short_commands_share_keepers(tmp_path):
    """All of many commands run, and those that waited take the keepers of those that have ended."""

    async def use(env):
        results = await asyncio.gather(*(env.execute(["echo", str(n)]) for n in range(200)))
        return [result.stdout for result in results], len(env._commands._pool._held.idle)

    outputs, keepers = run(tmp_path, use)
    assert outputs == [f"{n}\n" for n in range(200)]
    assert keepers < 128


def test_long_commands_all_run_at_once(tmp_path):
    """Waiting is for a fork, not for the end of another command: commands that wait for one another all run."""

    async def use(env):
        command = f"echo >> here; while [ $(wc -l < here) -lt {MANY} ]; do sleep 0.1; done; echo all"
        return await asyncio.gather(*(env.execute(command, timeout=60) for _ in range(MANY)))

    assert {result.stdout for result in run(tmp_path, use)} == {"all\n"}


def test_cancelled_while_it_waits(tmp_path):
    """Calls that are cancelled while they wait hold up no other."""

    async def use(env):
        tasks = await begun(env, "echo ran")
        for task in tasks[::2]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return answers, waiting(env)

    answers, left = run(tmp_path, use)
    assert [answer.stdout for answer in answers[1::2]] == ["ran\n"] * (MANY // 2)
    assert any(isinstance(answer, asyncio.CancelledError) for answer in answers)
    assert left == 0


def test_called_and_cancelled_at_once(tmp_path):
    """A call whose turn has come and which is cancelled before it can take it hands it on."""

    async def use(env):
        tasks = await begun(env, "echo ran")
        turns = env._commands._pool._turns
        first = turns._waiting[0]
        turns.call(1)
        assert first.done()
        tasks[MANY - waiting(env)].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return [answer for answer in answers if not isinstance(answer, asyncio.CancelledError)]

    assert [answer.stdout for answer in run(tmp_path, use)] == ["ran\n"] * (MANY - 1)


def test_closed_while_some_wait(tmp_path):
    """`close()` ends the calls that wait as it ends those that run."""

    async def use(env):
        tasks = await begun(env, "sleep 30")
        await env.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(answer) for answer in run(tmp_path, use)} == {EnvironmentClosed}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the parent keeper in /proc")
def test_parent_killed_while_some_wait(tmp_path):
    """When the parent keeper dies, a new one serves the calls that waited."""

    async def use(env):
        tasks = await begun(env, "echo ran")
        os.kill(parent_of(env)._process.pid, signal.SIGKILL)
        answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        return answers, waiting(env)

    answers, left = run(tmp_path, use)
    assert sum(getattr(answer, "stdout", "") == "ran\n" for answer in answers) >= MANY - 32
    assert left == 0
