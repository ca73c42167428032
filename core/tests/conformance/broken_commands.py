"""Environments whose commands are broken, each in one way that real ones were."""

import asyncio
import os
import signal
import subprocess
import tempfile
from dataclasses import replace

from broken_files import OnLocal

from stead import ExecutionResult


async def plain(command, folder, *, timeout=None, stdin=subprocess.DEVNULL, kill=os.kill, pipes=False):
    """A command as many libraries run one: a shell, and one kill at the timeout."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        where = (subprocess.PIPE, subprocess.PIPE) if pipes else (out, err)
        process = subprocess.Popen(
            command, shell=True, cwd=folder, stdin=stdin, stdout=where[0], stderr=where[1], start_new_session=True
        )
        late = False
        try:
            wait = process.communicate if pipes else process.wait
            text = await asyncio.to_thread(wait, timeout=timeout)
        except subprocess.TimeoutExpired:
            late, text = True, (b"", b"")
            kill(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        if not pipes:
            text = tuple(file.seek(0) or file.read() for file in (out, err))
    return ExecutionResult(
        exit_code=124 if late else process.returncode,
        stdout=text[0].decode(errors="replace"),
        stderr=text[1].decode(errors="replace"),
        timed_out=late,
        stdout_bytes=len(text[0]),
        stderr_bytes=len(text[1]),
    )


class KillsShellOnly(OnLocal):
    """A timeout kills the shell, and its children live on."""

    async def execute(self, command, *, timeout=None, cwd=None, **options):
        if timeout is None or timeout > 1 or not isinstance(timeout, float) or cwd is None:
            return await super().execute(command, timeout=timeout, cwd=cwd, **options)
        return await plain(command, self.real(cwd), timeout=timeout)


class KillsGroupOnly(OnLocal):
    """A timeout kills the process group, and who left it lives on."""

    async def execute(self, command, *, timeout=None, cwd=None, **options):
        if timeout is None or timeout > 1 or not isinstance(timeout, float) or cwd is None:
            return await super().execute(command, timeout=timeout, cwd=cwd, **options)
        return await plain(command, self.real(cwd), timeout=timeout, kill=os.killpg)


class KillsLate(OnLocal):
    """The answer to a timeout comes at once, the kill two seconds later."""

    async def execute(self, command, *, timeout=None, cwd=None, **options):
        if timeout is None or timeout > 1 or not isinstance(timeout, float) or cwd is None:
            return await super().execute(command, timeout=timeout, cwd=cwd, **options)
        self.late = asyncio.ensure_future(self.inner.execute(command, timeout=timeout + 2, cwd=cwd))
        await asyncio.sleep(timeout)
        return ExecutionResult(exit_code=124, stdout="", stderr="", timed_out=True)


class IgnoresCancel(OnLocal):
    """A cancelled caller leaves, and the command goes on."""

    async def execute(self, command, **options):
        await self._ready()
        return await asyncio.shield(asyncio.ensure_future(self.inner.execute(command, **options)))


class WaitsForPipes(OnLocal):
    """The call lasts as long as anyone holds the pipes."""

    async def execute(self, command, *, timeout=None, **options):
        if isinstance(command, str) and command.endswith("& echo hi"):
            await self._ready()
            return await plain(command, self.working_dir, timeout=timeout, pipes=True)
        return await super().execute(command, timeout=timeout, **options)


class KillsBackground(OnLocal):
    """A normal return kills what the command left in the background."""

    async def execute(self, command, **options):
        if isinstance(command, str) and command.endswith("& echo started"):
            return await super().execute(command.replace("&", "& kill $! ;"), **options)
        return await super().execute(command, **options)


class MergesStreams(OnLocal):
    """stderr arrives in stdout."""

    async def execute(self, command, **options):
        result = await super().execute(command, **options)
        if result.stderr != "errors\n":
            return result
        return replace(result, stdout=result.stdout + result.stderr, stderr="")


class MixesOutputs(OnLocal):
    """Two commands at the same time get each other's output."""

    last = ""

    async def execute(self, command, **options):
        result = await super().execute(command, **options)
        if not (isinstance(command, str) and command.startswith("sleep 1; echo")):
            return result
        mixed, self.last = self.last + result.stdout, result.stdout
        return replace(result, stdout=mixed)


class CallsItTimeout(OnLocal):
    """Exit code 124 is taken for a timeout."""

    async def execute(self, command, **options):
        result = await super().execute(command, **options)
        return replace(result, timed_out=result.exit_code == 124)


class CutsOutput(OnLocal):
    """Output past 64 KiB is lost, without a mark."""

    async def execute(self, command, **options):
        result = await super().execute(command, **options)
        return replace(result, stdout=result.stdout[: 1 << 16])


class HandsOverStdin(OnLocal):
    """Commands read the stdin of the process that holds the environment."""

    async def execute(self, command, *, stdin=None, **options):
        if isinstance(command, str) and command.startswith("cat; read"):
            await self._ready()
            return await plain(command, self.working_dir, stdin=None, timeout=1)
        return await super().execute(command, stdin=stdin, **options)


class HandsOverVariables(OnLocal):
    """Commands get all variables of the process, keys included."""

    async def execute(self, command, *, env=None, **options):
        if env is None:
            env = {name: value for name, value in os.environ.items() if name.startswith("STEAD_CANARY")} or None
        return await super().execute(command, env=env, **options)


class MissingProgramRaises(OnLocal):
    """A missing program is an exception."""

    async def execute(self, command, **options):
        result = await super().execute(command, **options)
        if result.exit_code == 127:
            raise FileNotFoundError("no such program")
        return result


class RecreatesSilently(OnLocal):
    """A lost machine is replaced by a new one, and the command's answer is made up."""


class EndsStreamAtOnce(OnLocal):
    """Streamed output is handed over when the command has ended."""

    async def execute_stream(self, command, **options):
        items = [item async for item in super().execute_stream(command, **options)]
        for item in items:
            yield item


class NeverAnswers(OnLocal):
    """Waits for a machine that never answers, and keeps no deadline of its own."""
