"""An environment whose files can be read and not changed."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace

from stead.environment import Content, Environment, PathLike
from stead.errors import AccessDenied
from stead.results import ExecutionResult, FileInfo, OutputChunk
from stead.wrappers.base import Wrapper

__all__ = ["ReadOnlyEnvironment"]


class ReadOnlyEnvironment(Wrapper):
    """Refuses writes and deletions, and runs no commands, since a command can write.

    `write_file` raises `AccessDenied`; the other operations are not declared and raise `Unsupported`.
    """

    def __init__(self, inner: Environment, *, owns: bool = True) -> None:
        super().__init__(inner, owns=owns)
        self.capabilities = replace(
            inner.capabilities,
            execute=False,
            execute_stream=False,
            delete_file=False,
            create_only=False,
            conditional_write=False,
            streaming_write=False,
            atomic_write=False,
        )

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent or if_version is not None:
            raise self._unsupported("conditional writes")
        await self._ready()
        text = f"{str(path)!r} was not written: this environment is read-only"
        raise AccessDenied(text, operation="write_file", path=str(path))

    async def delete_file(self, path: PathLike) -> None:
        raise self._unsupported("delete_file")

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
        raise self._unsupported("execute")

    def execute_stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        raise self._unsupported("execute_stream")
