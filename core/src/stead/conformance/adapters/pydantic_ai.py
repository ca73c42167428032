"""Pydantic AI: a `WorkspaceBackend` with commands and files."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from stead.capabilities import Capabilities
from stead.conformance.adapters.base import Peer, shell_text, translated
from stead.environment import PathLike
from stead.results import ExecutionResult, FileInfo

__all__ = ["PydanticAIEnvironment"]


class PydanticAIEnvironment(Peer):
    """A workspace backend of Pydantic AI that supports commands and files. It takes absolute paths only."""

    capabilities = Capabilities(execute=True, stat=True, list_files=True, delete_file=True)

    def __init__(self, backend: Any, working_dir: PathLike) -> None:
        """Wraps a backend; its own `working_dir` is a coroutine, so it is given here."""
        super().__init__(working_dir)
        self._backend = backend

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        with translated("read_file", os.fspath(path)):
            data: bytes = await self._backend.read_bytes(self._absolute(path))
        return data

    async def _write(self, path: str, data: str | bytes) -> None:
        await self._backend.write_bytes(self._absolute(path), data.encode() if isinstance(data, str) else data)

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        with translated("stat", os.fspath(path)):
            return _info(await self._backend.stat(self._absolute(path)))

    async def _entries(self, path: str) -> list[FileInfo]:
        return [_info(entry) for entry in await self._backend.list_dir(self._absolute(path))]

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        with translated("delete_file", os.fspath(path)):
            await self._backend.remove(self._absolute(path))

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
        given = {"stdin": stdin, "output_limit": output_limit}
        await self._ready()
        is_text = isinstance(command, str) or cwd is not None
        spelled = shell_text(command, cwd=cwd, env=None, given=given) if is_text else command
        try:
            result = await self._backend.run(spelled, shell=is_text, env=env, timeout=timeout)
        except TimeoutError as late:
            # Theirs is an error with the output so far; the same facts are a result here.
            return _result(124, getattr(late, "stdout", ""), getattr(late, "stderr", ""), timed_out=True)
        return _result(result.exit_code, result.stdout, result.stderr)


def _info(entry: Any) -> FileInfo:
    kind = "directory" if entry.is_dir else "file"
    return FileInfo(path=entry.path, kind=kind, size=0 if entry.is_dir else entry.size or 0)  # type: ignore[arg-type]


def _result(exit_code: int, stdout: str, stderr: str, *, timed_out: bool = False) -> ExecutionResult:
    return ExecutionResult(
        exit_code=exit_code,
        stdout=stdout,
        stderr=stderr,
        timed_out=timed_out,
        stdout_bytes=len(stdout.encode()),
        stderr_bytes=len(stderr.encode()),
    )
