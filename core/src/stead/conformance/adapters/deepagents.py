"""deepagents: a `BackendProtocol`, with commands if it is a `SandboxBackendProtocol`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stead.capabilities import Capabilities
from stead.conformance.adapters.base import Peer, shell_text, translated
from stead.environment import PathLike
from stead.errors import (
    AccessDenied,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    PathOutsideRoot,
    SteadError,
)
from stead.results import ExecutionResult, FileInfo

__all__ = ["DeepAgentsEnvironment"]


class RefusedPath(InvalidPath, PathOutsideRoot):
    """The other side has one word for a path that leads out and for one that means nothing."""


# Its errors are words in a result, not exceptions.
_WORDS: tuple[tuple[str, type[SteadError]], ...] = (
    ("not_found", FileMissing),
    ("not found", FileMissing),
    ("permission", AccessDenied),
    ("is_directory", IsADirectory),
    ("not_a_directory", NotADirectory),
    ("invalid_path", RefusedPath),
)


class DeepAgentsEnvironment(Peer):
    """A backend of deepagents. Its commands give stdout and stderr as one text, so stderr is always empty here."""

    capabilities = Capabilities(list_files=True, delete_file=True)

    def __init__(self, backend: Any, working_dir: PathLike = "/") -> None:
        """Wraps a backend; in its virtual mode the working directory is `/`."""
        super().__init__(working_dir)
        self._backend = backend
        self.capabilities = replace(type(self).capabilities, execute=hasattr(backend, "execute"))

    async def read_file(self, path: PathLike) -> bytes:
        text = os.fspath(path)
        await self._ready()
        with translated("read_file", text):
            (answer,) = await self._backend.adownload_files([text])
        _check(answer.error, "read_file", text)
        data: bytes = answer.content
        return data

    async def _write(self, path: str, data: str | bytes) -> None:
        (answer,) = await self._backend.aupload_files([(path, data.encode() if isinstance(data, str) else data)])
        _check(answer.error, "write_file", path)

    async def _entries(self, path: str) -> list[FileInfo]:
        answer = await self._backend.als(path)
        _check(answer.error, "list_files", path)
        return [
            FileInfo(
                path=self._absolute(entry["path"].rstrip("/")),
                kind="directory" if entry.get("is_dir") else "file",
                size=0 if entry.get("is_dir") else entry.get("size", 0),
            )
            for entry in answer.entries
        ]

    async def delete_file(self, path: PathLike) -> None:
        text = os.fspath(path)
        await self._ready()
        with translated("delete_file", text):
            answer = await self._backend.adelete(text)
        _check(answer.error, "delete_file", text)

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
        if not self.capabilities.execute:
            raise self._unsupported("execute")
        text = shell_text(command, cwd=cwd, env=env, given={"stdin": stdin, "output_limit": output_limit})
        await self._ready()
        answer = await self._backend.aexecute(text, timeout=timeout)
        return ExecutionResult(
            exit_code=-1 if answer.exit_code is None else answer.exit_code,
            stdout=answer.output,
            stderr="",
            timed_out=answer.exit_code == 124 and "timed out" in answer.output,
            stdout_bytes=len(answer.output.encode()),
        )


def _check(error: str | None, operation: str, path: str) -> None:
    if error is None:
        return
    for word, ours in _WORDS:
        if word in error.lower():
            raise ours(f"{path!r}: {error}", operation=operation, path=path)
    raise SteadError(f"{path!r}: {error}", operation=operation, path=path)
