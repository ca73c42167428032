"""An environment that hands every call to another one: a broken one overrides what it breaks, and nothing else."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import PurePosixPath

from stead import (
    Capabilities,
    Environment,
    ExecutionResult,
    FileInfo,
    LineRange,
    LineWindow,
    OutputChunk,
)
from stead.environment import Content, PathLike


class Delegate(Environment):
    """Honest."""

    def __init__(self, inner: Environment) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def working_dir(self) -> PurePosixPath:
        return self.inner.working_dir

    async def _start(self) -> None:
        await self.inner.start()

    async def _close(self) -> None:
        await self.inner.close()

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        return await self.inner.read_file(path)

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        await self._ready()
        async with aclosing(self.inner.read_file_stream(path, offset=offset, length=length)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        # The inner one first: it copies the content before it waits for anything.
        if not self._lifecycle.is_open_here():
            await self._ready()
        return await self.inner.write_file(path, content, if_absent=if_absent, if_version=if_version)

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        return await self.inner.stat(path)

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        await self._ready()
        async with aclosing(self.inner.list_files(path, recursive=recursive)) as entries:
            async for entry in entries:
                yield entry

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        await self.inner.delete_file(path)

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        await self._ready()
        return await self.inner.read_lines(path, window)

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
        await self._ready()
        return await self.inner.execute(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )

    async def execute_stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        await self._ready()
        stream = self.inner.execute_stream(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )
        async with aclosing(stream) as items:
            async for item in items:
                yield item
