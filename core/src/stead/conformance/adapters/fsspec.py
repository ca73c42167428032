"""fsspec: any filesystem, below one folder of it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

from stead.capabilities import Capabilities
from stead.conformance.adapters.base import Peer, translated
from stead.environment import PathLike, check_range
from stead.errors import NotADirectory
from stead.results import FileInfo

__all__ = ["FsspecEnvironment"]

_CHUNK = 1 << 20


class FsspecEnvironment(Peer):
    """An fsspec filesystem, used through its synchronous calls in threads. It has no rule for paths, so none is added."""

    capabilities = Capabilities(stat=True, list_files=True, delete_file=True, streaming_read=True, range_read=True)

    def __init__(self, filesystem: Any, working_dir: PathLike) -> None:
        """Wraps a filesystem; paths are joined to `working_dir`, an absolute path in it."""
        super().__init__(working_dir)
        self._fs = filesystem

    async def _start(self) -> None:
        await asyncio.to_thread(self._fs.makedirs, str(self._working_dir), exist_ok=True)

    async def read_file(self, path: PathLike) -> bytes:
        where = self._absolute(path)
        await self._ready()
        with translated("read_file", os.fspath(path)):
            data: bytes = await asyncio.to_thread(self._fs.cat_file, where)
        return data

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        check_range(offset, length)
        where = self._absolute(path)
        await self._ready()
        with translated("read_file_stream", os.fspath(path)):
            file = await asyncio.to_thread(self._fs.open, where, "rb")
        try:
            await asyncio.to_thread(file.seek, offset)
            left = length
            while left is None or left > 0:
                chunk = await asyncio.to_thread(file.read, _CHUNK if left is None else min(_CHUNK, left))
                if not chunk:
                    return
                left = None if left is None else left - len(chunk)
                yield chunk
                self._lifecycle.check_usable()
        finally:
            file.close()

    async def _write(self, path: str, data: str | bytes) -> None:
        where = self._absolute(path)
        try:
            await asyncio.to_thread(self._fs.makedirs, where.rpartition("/")[0], exist_ok=True)
        except FileExistsError as error:  # of a parent that we make, not of the file
            raise NotADirectory(f"{path!r}: {error}", operation="write_file", path=path) from error
        await asyncio.to_thread(self._fs.pipe_file, where, data.encode() if isinstance(data, str) else data)

    async def stat(self, path: PathLike) -> FileInfo:
        where = self._absolute(path)
        await self._ready()
        with translated("stat", os.fspath(path)):
            return _info(await asyncio.to_thread(self._fs.info, where))

    async def _entries(self, path: str) -> list[FileInfo]:
        found = await asyncio.to_thread(self._fs.ls, self._absolute(path), detail=True)
        return [_info(entry) for entry in found]

    async def delete_file(self, path: PathLike) -> None:
        where = self._absolute(path)
        await self._ready()
        with translated("delete_file", os.fspath(path)):
            await asyncio.to_thread(self._fs.rm_file, where)


def _info(entry: dict[str, Any]) -> FileInfo:
    kinds = {"file": "file", "directory": "directory"}
    time = entry.get("mtime", entry.get("created"))
    modified = datetime.fromtimestamp(time, UTC) if isinstance(time, (int, float)) else time
    return FileInfo(
        path="/" + entry["name"].strip("/"),
        kind=kinds.get(entry["type"], "other"),  # type: ignore[arg-type]
        size=0 if entry["type"] == "directory" else entry.get("size") or 0,
        modified=modified,
    )
