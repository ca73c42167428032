"""The folder for temporary files on the machine: what holds when a command removes it, what is left in it, who sees it."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest
from leftovers import nobody_left_in
from local_machine import LocalPosix
from test_scripts import shell_env

from stead.errors import EnvironmentClosed, Unavailable
from stead.results import ExecutionResult, OutputChunk

__all__ = ["shell_env"]


def scratch_files(home: Path) -> list[str]:
    """What lies in the folder for temporary files."""
    return sorted(str(path.relative_to(home / "tmp")) for path in (home / "tmp").glob("stead-*/*"))


def test_command_that_removes_temporary_files(shell_env, tmp_path):
    """`rm -rf /tmp/*` costs a command nothing: its code, its output before and after, its spill and its stream come whole."""
    clean = f"echo before; echo err >&2; rm -rf {tmp_path}/tmp/*"

    async def use() -> None:
        async with shell_env as env:
            result = await env.execute(f"{clean}; echo after; exit 3")
            assert (result.stdout, result.stderr, result.exit_code) == ("before\nafter\n", "err\n", 3)
            slow = await env.execute(f"{clean}; sleep 1.5; rm -rf {tmp_path}/tmp/*; seq 1 20000", output_limit=100)
            assert (slow.stdout_bytes, slow.exit_code) == (108_901, 0)
            assert len(await env.read_file(slow.stdout_path)) == 108_901
            async with aclosing(env.execute_stream(f"{clean}; sleep 1.5; echo after", timeout=30)) as items:
                found = [item async for item in items]
            assert b"".join(i.data for i in found if isinstance(i, OutputChunk) and i.stream == "stdout") == (
                b"before\nafter\n"
            )
            assert isinstance(found[-1], ExecutionResult)
            assert (await env.execute("echo on")).stdout == "on\n"

    asyncio.run(use())


def test_files_that_go_while_they_are_sent(tmp_path):
    """Where a command removes the temporary files just when its output is being read, that is asked for once more."""
    tools, armed = tmp_path / "tools", tmp_path / "work" / "armed"
    tools.mkdir()
    (tools / "head").write_text(
        f'#!/bin/sh\nrm {armed} 2>/dev/null && rm -rf {tmp_path}/tmp/*\nexec /usr/bin/head "$@"\n'
    )
    (tools / "head").chmod(0o755)

    async def use() -> None:
        async with LocalPosix(tmp_path, path=f"{tools}:/usr/bin:/bin") as env:
            async with aclosing(
                env.execute_stream("touch armed; echo before; sleep 1.5; echo after", timeout=30)
            ) as items:
                found = [item async for item in items]
            assert not armed.exists()
            assert b"".join(i.data for i in found if isinstance(i, OutputChunk)) == b"before\nafter\n"
            assert isinstance(found[-1], ExecutionResult)

    asyncio.run(use())


def test_deadline_and_end_without_temporary_files(shell_env, tmp_path):
    """A command that has removed the temporary files is ended at its deadline, when it is cancelled, and by `close()`."""
    clean = f"rm -rf {tmp_path}/tmp/*; touch cleaned; (sleep 61 &) ; exec sleep 60"

    async def cleaned(env) -> asyncio.Task:
        task = asyncio.create_task(env.execute(clean))
        while not (env.folder / "cleaned").exists():
            await asyncio.sleep(0.05)
        (env.folder / "cleaned").unlink()
        return task

    async def use() -> None:
        async with shell_env as env:
            assert (await env.execute(clean, timeout=1)).timed_out
            (env.folder / "cleaned").unlink()
            await asyncio.to_thread(nobody_left_in, tmp_path)
            task = await cleaned(env)
            task.cancel()
            await asyncio.wait([task])
            await asyncio.to_thread(nobody_left_in, tmp_path)
            task = await cleaned(env)
        await asyncio.wait([task])
        assert task.exception() is not None
        await asyncio.to_thread(nobody_left_in, tmp_path)

    asyncio.run(use())


def test_lost_answer_runs_nothing_twice(tmp_path):
    """A start whose answer is lost, of a command that has removed the temporary files, is asked again and runs once."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            run, asked = env.machine.run, []

            async def lossy(variables, *, seconds):
                if variables.get("STEAD_SUPERVISE"):
                    asked.append(variables)
                if len(asked) == 1:
                    await run(variables | {"STEAD_WAIT": "200"}, seconds=seconds)
                    raise Unavailable("the connection broke")
                return await run(variables, seconds=seconds)

            env.machine.run = lossy
            result = await env.execute(f"echo ran >> ran; rm -rf {tmp_path}/tmp/*; sleep 3; echo end")
            assert (result.stdout, len(asked)) == ("end\n", 2)
            assert (env.folder / "ran").read_text() == "ran\n"

    asyncio.run(use())


def test_input_that_is_gone(tmp_path):
    """A command whose input was removed before it began has not run, is told so, and leaves no process."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            run = env.machine.run

            async def without(variables, *, seconds):
                for name in ("STEAD_STDIN", "STEAD_WORDS_FILE"):
                    if variables.get(name):
                        os.unlink(variables[name])
                return await run(variables, seconds=seconds)

            env.machine.run = without
            for command, stdin in (("touch ran; cat", "in"), (f"touch ran; : {'x' * 50_000}", None)):
                with pytest.raises(Unavailable, match="has not run"):
                    await env.execute(command, stdin=stdin)
            env.machine.run = run
            assert not (env.folder / "ran").exists()
        await asyncio.to_thread(nobody_left_in, tmp_path)

    asyncio.run(use())


def test_nothing_is_left_at_close(tmp_path):
    """After `close()` nothing of ours is on the machine: no job, no input, no answer that came inline or was lost."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            await env.write_file("b", "y")
            await env.write_file("large", b"x" * 300_000)
            await env.read_file("large")
            async with aclosing(env.list_files(".")) as entries:
                assert len([entry async for entry in entries]) == 2
            await env.execute("yes | head -c 300000", output_limit=10)
            await env.execute("sleep 60", timeout=0.5)
            task = asyncio.create_task(env.execute("sleep 60"))
            await asyncio.sleep(0.5)
            task.cancel()
            await asyncio.wait([task])
            await env.execute("cat >/dev/null", stdin="secret")
        assert scratch_files(tmp_path) == []

    asyncio.run(use())


def test_close_of_a_silent_machine(tmp_path):
    """Removing our files at the end is tried for some seconds, and fails quietly."""

    async def use() -> None:
        env = LocalPosix(tmp_path)
        await env.start()
        await env.execute("cat", stdin="in")

        async def silent(variables, *, seconds):
            await asyncio.sleep(60)

        env.machine.run = silent
        await asyncio.wait_for(env.close(), 20)
        with pytest.raises(EnvironmentClosed):
            await env.stat(".")

    asyncio.run(use())


def test_temporary_files_are_not_listed(tmp_path):
    """Where our folder must lie in the working directory, no listing shows it, and version control ignores it."""
    other = Path("/dev/shm")
    if not os.access(other, os.W_OK) or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no other file system to write to")

    async def listed(env, path: str) -> list[str]:
        async with aclosing(env.list_files(path, recursive=True)) as entries:
            return [entry.path.removeprefix(f"{env.working_dir}/") async for entry in entries]

    async def use() -> None:
        env = LocalPosix(tmp_path)
        env.machine.variables["TMPDIR"] = str(other)
        async with env:
            await env.write_file("a", "x")
            assert await listed(env, ".") == [".stead", ".stead/.gitignore", "a"]
            (env.folder / "link").symlink_to(".stead")
            assert await listed(env, "link") == ["link/.gitignore"]
            assert list(env.folder.glob(".stead/stead-*"))

    asyncio.run(use())
