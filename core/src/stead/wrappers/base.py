"""An environment that passes everything on to another."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import PurePosixPath

from stead.environment import Content, Environment, PathLike
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk

__all__ = ["Wrapper"]


class Wrapper(Environment):
    """Passes every call on to `inner`; a subclass changes what it means to change.

    It starts the inner environment with itself, and closes it with itself if it owns it.
    """

    def __init__(self, inner: Environment, *, owns: bool = True) -> None:
        """Takes the environment to pass calls on to.

        Args:
            inner: Need not be started.
            owns: Whether `close()` closes `inner` too.
        """
        self.inner = inner
        self.owns = owns
        self.capabilities = inner.capabilities
        self.state_dir = inner.state_dir

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def working_dir(self) -> PurePosixPath:
        return self.inner.working_dir

    async def _start(self) -> None:
        await self.inner.start()

    async def _close(self) -> None:
        if self.owns:
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
                self._lifecycle.check_usable()

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
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
