"""Several environments in one namespace, each below a path."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import fields, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from stead.capabilities import Capabilities
from stead.environment import Content, Environment, PathLike
from stead.errors import ConfigError, FileExists, FileMissing, IsADirectory, PathOutsideRoot
from stead.paths import resolve_path, split_path
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk
from stead.wrappers.base import Wrapper
from stead.wrappers.mapped import moved, speaking_of

__all__ = ["MountsEnvironment"]

_ROOT = PurePosixPath("/")
# What commands are is the main environment's; what files are holds only if it holds everywhere.
_OF_MAIN = ("execute", "execute_stream", "isolation")


class _Target(NamedTuple):
    """Where a path leads."""

    env: Environment
    inner: str
    """The path there."""
    point: PurePosixPath | None
    """Where the environment is mounted; None for the main one. One environment can be mounted at several points."""

    def speaking_of(self, path: PathLike) -> AbstractContextManager[None]:
        if self.point is None:
            return nullcontext()  # its paths are the caller's
        return speaking_of(path, self.inner, self.env.working_dir, self.point)

    def outer(self, info: FileInfo) -> FileInfo:
        return info if self.point is None else moved(info, self.env.working_dir, self.point)


class MountsEnvironment(Wrapper):
    """The main environment, with others mounted below paths of its namespace.

    A path at or below a mount point goes to the environment mounted there, and so do its errors; all others go to the
    main one. Commands run in the main environment and do not see what is mounted: `StagedEnvironment` is for that.
    A link of the main environment that leads to a mount point leads to what the main environment has there.
    """

    def __init__(self, main: Environment, mounts: Mapping[str, Environment], *, owns: bool = True) -> None:
        """Takes the environments; touches nothing.

        Args:
            main: Where all other paths and the commands go.
            mounts: By mount point, absolute or relative to the working directory of `main`.
            owns: Whether `close()` closes all of them.

        Raises:
            ConfigError: A mount point is the working directory itself or above it, or lies below another one.
        """
        super().__init__(main, owns=owns)
        self._given = dict(mounts)
        self._mounts = self._resolved()
        self.capabilities = _common(main.capabilities, [env.capabilities for env in self._mounts.values()])

    async def _start(self) -> None:
        await self.inner.start()
        self._mounts = self._resolved()  # a sandbox tells where it starts commands only now
        for env in self._mounts.values():
            await env.start()

    async def _close(self) -> None:
        if not self.owns:
            return
        errors = []
        for env in (*self._mounts.values(), self.inner):
            try:
                await env.close()
            except Exception as error:  # noqa: BLE001 - the others must be closed too; raised below
                errors.append(error)
        if errors:
            raise errors[0]

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        env, inner, _ = target = self._route(path)
        with target.speaking_of(path):
            return await env.read_file(inner)

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        await self._ready()
        env, inner, _ = target = self._route(path)
        with target.speaking_of(path):
            async with aclosing(env.read_file_stream(inner, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk
                    self._lifecycle.check_usable()

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        await self._ready()
        if self._leads_to_a_mount(path):
            text = f"{str(path)!r} is a directory: an environment is mounted there or below it"
            kind = FileExists if if_absent and not split_path(path).names_directory else IsADirectory
            raise kind(text, operation="write_file", path=str(path))
        env, inner, _ = target = self._route(path)
        with target.speaking_of(path):
            info = await env.write_file(inner, content, if_absent=if_absent, if_version=if_version)
        return target.outer(info)

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        env, inner, _ = target = self._route(path)
        try:
            with target.speaking_of(path):
                return target.outer(await env.stat(inner))
        except (FileMissing, PathOutsideRoot):
            if not self._leads_to_a_mount(path):
                raise
            return FileInfo(path=str(self._absolute(path)), kind="directory")

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        await self._ready()
        target = self._route(path)
        points = [] if target.point is not None else self._points_below(self._absolute(path))
        with target.speaking_of(path):
            entries = self._own_entries(target, recursive=recursive, may_be_missing=bool(points))
            if not points:
                async with aclosing(entries):
                    async for entry in entries:
                        yield entry
                return
            # With mounts below, the listing is put together in memory: one entry is some hundred bytes.
            found = {entry.path: entry async for entry in entries if not self._is_covered(entry.path)}
        folder = self._absolute(path)
        for point in points:
            found |= await self._mounted_entries(folder, point, recursive=recursive)
        for name in sorted(found):
            yield found[name]

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        env, inner, _ = target = self._route(path)
        with target.speaking_of(path):
            await env.delete_file(inner)

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        await self._ready()
        env, inner, _ = target = self._route(path)
        with target.speaking_of(path):
            return await env.read_lines(inner, window)

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
        self._refuse_mounted(cwd)
        return await super().execute(command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit)

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
        self._refuse_mounted(cwd)
        stream = super().execute_stream(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )
        async with aclosing(stream) as items:
            async for item in items:
                yield item

    # ---- routing ---------------------------------------------------------------------------------------------------

    def _absolute(self, path: PathLike) -> PurePosixPath:
        return resolve_path(path, working_dir=self.working_dir, root=_ROOT)

    def _resolved(self) -> dict[PurePosixPath, Environment]:
        found: dict[PurePosixPath, Environment] = {}
        for given, env in self._given.items():
            point = resolve_path(given, working_dir=self.working_dir, root=_ROOT)
            if self.working_dir.is_relative_to(point):
                raise ConfigError(f"{str(point)!r} cannot be a mount point: the working directory is there")
            if point in found:
                raise ConfigError(f"the mount point {str(point)!r} is given twice")
            found[point] = env
        for point in found:
            if any(other in point.parents for other in found):
                raise ConfigError(f"the mount point {str(point)!r} lies below another one")
        return found

    def _route(self, path: PathLike) -> _Target:
        parts = split_path(path)
        try:
            absolute = self._absolute(path)
        except PathOutsideRoot:
            return _Target(self.inner, parts.text, None)  # above `/`: the main environment's own rule decides
        for point, env in self._mounts.items():
            if absolute.is_relative_to(point):
                inner = str(env.working_dir / absolute.relative_to(point))
                return _Target(env, inner + "/" if parts.names_directory and absolute != point else inner, point)
        return _Target(self.inner, parts.text, None)

    def _points_below(self, folder: PurePosixPath) -> list[PurePosixPath]:
        return [point for point in self._mounts if folder in point.parents]

    def _leads_to_a_mount(self, path: PathLike) -> bool:
        try:
            absolute = self._absolute(path)
        except PathOutsideRoot:
            return False
        return absolute in self._mounts or bool(self._points_below(absolute))

    def _is_covered(self, path: str) -> bool:
        return any(PurePosixPath(path).is_relative_to(point) for point in self._mounts)

    def _refuse_mounted(self, cwd: PathLike | None) -> None:
        if cwd is not None and self._route(cwd).point is not None:
            text = f"no command can run in {str(cwd)!r}: another environment is mounted there"
            raise PathOutsideRoot(text, operation="execute", path=str(cwd))

    async def _own_entries(
        self, target: _Target, *, recursive: bool, may_be_missing: bool
    ) -> AsyncGenerator[FileInfo, None]:
        try:
            async with aclosing(target.env.list_files(target.inner, recursive=recursive)) as entries:
                async for entry in entries:
                    yield target.outer(entry)
        except (FileMissing, PathOutsideRoot):
            if not may_be_missing:
                raise

    async def _mounted_entries(
        self, folder: PurePosixPath, point: PurePosixPath, *, recursive: bool
    ) -> dict[str, FileInfo]:
        """The mount point and the directories down to it, and with `recursive` what is mounted there."""
        way = [point, *(parent for parent in point.parents if folder in parent.parents)]
        shown = way if recursive else way[-1:]
        found = {str(step): FileInfo(path=str(step), kind="directory") for step in shown}
        if recursive:
            env = self._mounts[point]
            async with aclosing(env.list_files(".", recursive=True)) as entries:
                outer = (moved(entry, env.working_dir, point) async for entry in entries)
                found |= {entry.path: entry async for entry in outer}
        return found


def _common(main: Capabilities, mounted: list[Capabilities]) -> Capabilities:
    everywhere = {
        field.name: all(getattr(one, field.name) for one in (main, *mounted))
        for field in fields(Capabilities)
        if field.name not in _OF_MAIN
    }
    return replace(main, **everywhere)  # type: ignore[arg-type]
