"""Laws about the output of a command while it runs."""

import asyncio
from contextlib import aclosing

import pytest

from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.environment import Environment
from stead.results import ExecutionResult, OutputChunk

__all__ = ["ExecuteStreamLaws"]


class ExecuteStreamLaws(LawSettings):
    """Group G, continued: `execute_stream`."""

    @law("G27", needs="execute_stream")
    async def test_execute_stream_live(self, env: Environment) -> None:
        """Output arrives while the command runs, not at its end."""
        loop = asyncio.get_running_loop()
        async with aclosing(env.execute_stream("echo now; sleep 3; echo later")) as items:
            started = loop.time()
            first = await anext(items)
            assert isinstance(first, OutputChunk)
            assert first.data == b"now\n"
            assert loop.time() - started < 2.5

    @law("G27", needs="execute_stream")
    async def test_execute_stream_order(self, env: Environment) -> None:
        """Each stream's chunks come in order, and the last item, and only that, is the result."""
        command = "i=0; while [ $i -lt 2000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done; exit 5"
        async with aclosing(env.execute_stream(command)) as items:
            found = [item async for item in items]
        chunks = [item for item in found if isinstance(item, OutputChunk)]
        for name in ("stdout", "stderr"):
            data = b"".join(chunk.data for chunk in chunks if chunk.stream == name)
            assert data == b"".join(b"%c%d\n" % (ord("o" if name == "stdout" else "e"), n) for n in range(2000))
        assert all(chunk.data for chunk in chunks)
        assert [type(item) for item in found[len(chunks) :]] == [ExecutionResult]

    @law("G27", needs="execute_stream")
    async def test_execute_stream_result(self, env: Environment) -> None:
        """The result is that of `execute`: exit code, text, sizes and whether it timed out."""
        for command, timeout in (("echo a; echo b >&2; exit 7", None), ("echo a; echo b >&2; sleep 30", 0.5)):
            async with aclosing(env.execute_stream(command, timeout=timeout)) as items:
                result = [item async for item in items][-1]
            assert isinstance(result, ExecutionResult)
            assert (result.stdout, result.stdout_bytes, result.stderr_bytes >= 2) == ("a\n", 2, True)
            assert (result.exit_code, result.timed_out) == ((124, True) if timeout else (7, False))

    @law("G27", needs="execute_stream")
    async def test_execute_stream_early_close(self, env: Environment, here: Folder) -> None:
        """Closing the generator early kills the command and its children."""
        await here.make(env)
        beat = "i=0; while [ $i -lt 80 ]; do echo x >> beat; echo y; sleep 0.1; i=$((i+1)); done"
        async with aclosing(env.execute_stream(f"({beat}) & wait", cwd=here.path)) as items:
            await anext(items)
        await asyncio.sleep(0.2)
        beats = len(await env.read_file(here / "beat"))
        await asyncio.sleep(0.5)
        assert len(await env.read_file(here / "beat")) == beats

    @law("G27", needs="execute_stream")
    async def test_execute_stream_never_started(self, env: Environment, here: Folder) -> None:
        """A generator that was never stepped runs nothing."""
        await here.make(env)
        await env.execute_stream("echo x > ran", cwd=here.path).aclose()
        await asyncio.sleep(0.3)
        async with aclosing(env.execute_stream("ls", cwd=here.path)) as items:
            result = [item async for item in items][-1]
        assert isinstance(result, ExecutionResult)
        assert "ran" not in result.stdout

    @law("G27", needs="execute_stream")
    async def test_execute_stream_errors(self, env: Environment) -> None:
        """A wrong argument is its error at the call or the first step."""
        for command, timeout in (("", None), ("true", 0)):
            with pytest.raises(ValueError):  # noqa: PT011  # the message is each backend's own
                async with aclosing(env.execute_stream(command, timeout=timeout)) as items:
                    await anext(items)
