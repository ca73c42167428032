"""Google ADK: an implementation of `google.adk.environment.BaseEnvironment`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from stead.capabilities import Capabilities
from stead.conformance.adapters.base import Peer, shell_text, translated
from stead.environment import PathLike
from stead.results import ExecutionResult

__all__ = ["AdkEnvironment"]


class AdkEnvironment(Peer):
    """A `BaseEnvironment` of Google ADK: reads, writes, and commands in a shell."""

    capabilities = Capabilities(execute=True)

    def __init__(self, environment: Any, working_dir: PathLike) -> None:
        """Wraps an environment that is not initialised; its own `working_dir` may not be readable before that."""
        super().__init__(working_dir)
        self._environment = environment

    async def _start(self) -> None:
        await self._environment.initialize()

    async def _close(self) -> None:
        await self._environment.close()

    async def read_file(self, path: PathLike) -> bytes:
        text = os.fspath(path)
        await self._ready()
        with translated("read_file", text):
            data: bytes = await self._environment.read_file(text)
        return data

    async def _write(self, path: str, data: str | bytes) -> None:
        await self._environment.write_file(path, data)

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecutionResult:
        text = shell_text(command, cwd=cwd, env=env, given={"stdin": stdin, "output_limit": output_limit})
        await self._ready()
        result = await self._environment.execute(text, timeout=timeout)
        return ExecutionResult(
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            timed_out=result.timed_out,
            stdout_bytes=len(result.stdout.encode()),
            stderr_bytes=len(result.stderr.encode()),
        )
