"""Files of one namespace seen in another: paths go in, paths and errors come back."""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import PurePosixPath

from stead.environment import Content, Environment, PathLike
from stead.errors import FileMissing, SteadError
from stead.paths import resolve_path, split_path
from stead.results import FileInfo, LineRange, LineWindow
from stead.wrappers.base import Wrapper

__all__ = ["Mapped", "moved", "speaking_of"]


def moved(info: FileInfo, inner: PurePosixPath, outer: PurePosixPath) -> FileInfo:
    """The same file, with its path below `inner` seen as one below `outer`."""
    return replace(info, path=str(outer / PurePosixPath(info.path).relative_to(inner)))


@contextmanager
def speaking_of(path: object, inner: str, base: PurePosixPath, root: PurePosixPath) -> Iterator[None]:
    """Lets errors name the path that the caller gave, not the one that it was passed on as, nor another of the inside.

    Args:
        path: As the caller gave it.
        inner: As it was passed on.
        base: The inner path of what the caller sees.
        root: Where the caller sees it.
    """
    try:
        yield
    except SteadError as error:
        outer = str(path)

        def seen(match: re.Match[str]) -> str:
            if match[1] is None or not PurePosixPath(match[1]).is_relative_to(base):
                return repr(outer) if match[0] == repr(inner) else match[0]
            return f"'{root / PurePosixPath(match[1]).relative_to(base)}'"

        error.path = outer
        error.message = re.sub(f"{re.escape(repr(inner))}|'(/[^']*)'", seen, error.message)
        error.args = (error.message,)
        raise


class Mapped(Wrapper):
    """Shows what lies below `base` of the inner environment as lying below `root`, and nothing beside it."""

    def __init__(self, inner: Environment, *, base: PurePosixPath, root: PurePosixPath, owns: bool) -> None:
        super().__init__(inner, owns=owns)
        self._base = base
        self._root = root

    @property
    def working_dir(self) -> PurePosixPath:
        return self._root

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()  # first: where paths lead may be known only then
        inner = self._inner(path)
        with speaking_of(path, inner, self._base, self._root):
            return await super().read_file(inner)

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        await self._ready()
        inner = self._inner(path)
        with speaking_of(path, inner, self._base, self._root):
            async with aclosing(super().read_file_stream(inner, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        await self._ready()
        inner = self._inner(path)
        with speaking_of(path, inner, self._base, self._root):
            info = await super().write_file(inner, content, if_absent=if_absent, if_version=if_version)
        return self._outer(info)

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        inner = self._inner(path)
        try:
            with speaking_of(path, inner, self._base, self._root):
                return self._outer(await super().stat(inner))
        except FileMissing:
            if not self._is_root(inner):
                raise
            return FileInfo(path=str(self._root), kind="directory")  # the root is there, also while it is empty

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        await self._ready()
        inner = self._inner(path)
        try:
            with speaking_of(path, inner, self._base, self._root):
                async with aclosing(super().list_files(inner, recursive=recursive)) as entries:
                    async for entry in entries:
                        yield self._outer(entry)
        except FileMissing:
            if not self._is_root(inner):
                raise

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        inner = self._inner(path)
        with speaking_of(path, inner, self._base, self._root):
            await super().delete_file(inner)

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        await self._ready()
        inner = self._inner(path)
        with speaking_of(path, inner, self._base, self._root):
            return await super().read_lines(inner, window)

    def _inner(self, path: PathLike) -> str:
        resolved = resolve_path(path, working_dir=self._root, root=self._root)
        inner = str(self._base / resolved.relative_to(self._root))
        # A slash at the end says that a directory is meant; the inner environment judges it.
        return inner + "/" if split_path(path).names_directory and resolved != self._root else inner

    def _is_root(self, inner: str) -> bool:
        return inner == str(self._base)

    def _outer(self, info: FileInfo) -> FileInfo:
        return moved(info, self._base, self._root)
