"""Files in a dict: for tests, for scratch, and as the model that other environments are compared with."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import PurePosixPath

from stead.adapt import collect_content, content_bytes
from stead.capabilities import Capabilities
from stead.environment import Content, Environment, PathLike, check_range
from stead.errors import FileChanged, FileExists, FileMissing, IsADirectory, NotADirectory, SteadError
from stead.paths import resolve_path, split_path
from stead.results import FileInfo

__all__ = ["MemoryEnvironment"]

_ROOT = PurePosixPath("/")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    modified: datetime
    version: str


class MemoryEnvironment(Environment):
    """Files in a dict, gone when it closes. No commands.

    Directories exist as parents of files; the root always does. One stream is one version, since file content is
    immutable bytes that a write replaces.
    """

    capabilities = Capabilities(
        stat=True,
        list_files=True,
        delete_file=True,
        create_only=True,
        conditional_write=True,
        streaming_read=True,
        pinned_read=True,
        range_read=True,
        atomic_write=True,
    )

    def __init__(self) -> None:
        self._files: dict[PurePosixPath, _File] = {}
        # How many files are below each directory, so that asking for one does not look at all files.
        self._below: Counter[PurePosixPath] = Counter()
        # A counter, not a hash: the same bytes written again are another version (A-B-A must be seen).
        self._versions = count(1)

    @property
    def working_dir(self) -> PurePosixPath:
        return _ROOT

    async def _close(self) -> None:
        self._files.clear()
        self._below.clear()

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        return self._file(path, "read_file").data

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        check_range(offset, length)
        data = await self.read_file(path)
        end = len(data) if length is None else min(len(data), offset + length)
        for start in range(offset, end, _CHUNK):
            yield data[start : min(start + _CHUNK, end)]
            self._lifecycle.check_usable()

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent and if_version is not None:
            raise ValueError("if_absent and if_version cannot both hold; give one")
        target = self._resolve(path)
        data = await collect_content(content) if isinstance(content, AsyncIterable) else content_bytes(content)
        await self._ready()
        # From here to the end nothing is awaited: check and replacement are one step.
        existing = self._files.get(target)
        if if_absent and not split_path(path).names_directory and (existing or self._is_directory(target)):
            raise self._error(FileExists, f"{str(path)!r} exists already", "write_file", path)
        self._check_target(target, path)
        if if_version is not None and (existing is None or existing.version != if_version):
            raise self._error(FileChanged, f"{str(path)!r} is not version {if_version!r} any more", "write_file", path)
        if existing is None:
            self._below.update(target.parents)
        self._files[target] = _File(data, datetime.now(UTC), str(next(self._versions)))
        return self._info(target)

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        target = self._resolve(path)
        if target in self._files:
            if split_path(path).names_directory:
                raise self._error(NotADirectory, f"{str(path)!r} is a file", "stat", path)
            return self._info(target)
        if self._is_directory(target):
            return FileInfo(path=str(target), kind="directory")
        raise self._missing(target, "stat", path)

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        await self._ready()
        folder = self._resolve(path)
        if folder in self._files:
            raise self._error(NotADirectory, f"{str(path)!r} is a file", "list_files", path)
        if not self._is_directory(folder):
            raise self._missing(folder, "list_files", path)
        depth = len(folder.parts)
        below = [file for file in self._files if file.is_relative_to(folder)]
        found = {PurePosixPath(*file.parts[:n]) for file in below for n in range(depth + 1, len(file.parts) + 1)}
        for item in sorted(found, key=str):
            if recursive or len(item.parts) == depth + 1:
                yield self._info(item) if item in self._files else FileInfo(path=str(item), kind="directory")

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        self._file(path, "delete_file")
        target = self._resolve(path)
        del self._files[target]
        for parent in target.parents:
            self._below[parent] -= 1
            if not self._below[parent]:
                del self._below[parent]

    def _resolve(self, path: PathLike) -> PurePosixPath:
        return resolve_path(path, working_dir=_ROOT, root=_ROOT)

    def _file(self, path: PathLike, operation: str) -> _File:
        target = self._resolve(path)
        file = self._files.get(target)
        if file is not None and not split_path(path).names_directory:
            return file
        if file is not None:
            raise self._error(NotADirectory, f"{str(path)!r} ends in '/' but is a file", operation, path)
        if self._is_directory(target):
            raise self._error(IsADirectory, f"{str(path)!r} is a directory", operation, path)
        raise self._missing(target, operation, path)

    def _check_target(self, target: PurePosixPath, path: PathLike) -> None:
        if split_path(path).names_directory or self._is_directory(target):
            raise self._error(IsADirectory, f"{str(path)!r} is a directory; give a file name", "write_file", path)
        self._check_parents(target, "write_file", path)

    def _check_parents(self, target: PurePosixPath, operation: str, path: PathLike) -> None:
        for parent in target.parents:
            if parent in self._files:
                raise self._error(NotADirectory, f"{str(parent)!r} is a file, not a directory", operation, path)

    def _is_directory(self, target: PurePosixPath) -> bool:
        return target == _ROOT or self._below[target] > 0

    def _info(self, target: PurePosixPath) -> FileInfo:
        file = self._files[target]
        return FileInfo(
            path=str(target), kind="file", size=len(file.data), modified=file.modified, version=file.version
        )

    def _missing(self, target: PurePosixPath, operation: str, path: PathLike) -> SteadError:
        self._check_parents(target, operation, path)
        return self._error(FileMissing, f"{str(path)!r} does not exist", operation, path)

    @staticmethod
    def _error(kind: type[SteadError], message: str, operation: str, path: PathLike) -> SteadError:
        return kind(message, backend="memory", operation=operation, path=str(path))
