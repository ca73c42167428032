"""A view of an environment in which compressed offloads read like the text that they hold."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import PurePosixPath

from stead.environment import Content, Environment, PathLike, check_range
from stead.errors import FileMissing
from stead.reducer.frames import read_frames
from stead.reducer.records import OffloadRecord
from stead.reducer.session import SessionRecords
from stead.results import FileInfo

__all__ = ["OffloadReader"]


class OffloadReader(Environment):
    """Reads offloads of one session: a path with a record is decompressed, any other is read as it is.

    Args:
        environment: Where they are. It is not started or closed through this view.
        records: The session's records.
    """

    def __init__(self, environment: Environment, records: SessionRecords) -> None:
        self._environment = environment
        self._records = records
        declared = environment.capabilities
        self.capabilities = replace(
            declared,
            execute=False,
            execute_stream=False,
            list_files=False,
            delete_file=False,
            create_only=False,
            conditional_write=False,
            lines_at_source=False,
            streaming_write=False,
            atomic_write=False,
        )

    def __repr__(self) -> str:
        return f"OffloadReader({self._environment!r})"

    @property
    def working_dir(self) -> PurePosixPath:
        """As the environment's."""
        return self._environment.working_dir

    async def read_file(self, path: PathLike) -> bytes:
        """See `Environment.read_file`."""
        async with aclosing(self.read_file_stream(path)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """See `Environment.read_file_stream`."""
        check_range(offset, length)
        record = await self._compressed(path)
        if record is None:
            chunks = self._environment.read_file_stream(path, offset=offset, length=length)
        else:
            chunks = read_frames(self._environment, record.path, record.frames, offset=offset, length=length)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def stat(self, path: PathLike) -> FileInfo:
        """See `Environment.stat`; the size is that of the text."""
        info = await self._environment.stat(path)
        record = await self._compressed(path)
        return info if record is None else replace(info, size=record.size)

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        """Refused: what a notice names never changes.

        Raises:
            Unsupported: Always.
        """
        raise self._unsupported("write_file")

    async def _compressed(self, path: PathLike) -> OffloadRecord | None:
        try:
            record = await self._records.of_path(str(path))
        except FileMissing:
            return None
        return record if record is not None and record.encoding != "none" else None
