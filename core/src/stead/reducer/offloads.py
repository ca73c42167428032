"""What was offloaded: list it, read it back, delete it."""

from contextlib import aclosing
from pathlib import PurePosixPath

from stead.environment import Environment, PathLike
from stead.errors import FileMissing, NotADirectory
from stead.reducer.records import OffloadRecord, parse_record_name

__all__ = ["Offloads"]


class Offloads:
    """The offloads below one root folder of one environment, of one session or of all."""

    def __init__(
        self, environment: Environment, *, root_dir: str = ".stead/offloads", session: str | None = None
    ) -> None:
        self._environment = environment
        self._root = root_dir.rstrip("/")
        self._session = session

    async def list(self) -> list[OffloadRecord]:
        """The records, oldest first.

        Raises:
            Unsupported: The environment cannot list files.
            SteadError: The environment could not be read.
        """
        folder = self._root if self._session is None else f"{self._root}/{self._session}/records"
        records = []
        try:
            async with aclosing(self._environment.list_files(folder, recursive=self._session is None)) as files:
                async for info in files:
                    if parse_record_name(PurePosixPath(info.path).name) is not None:
                        record = await self._record(info.path)
                        records += [record] if record is not None else []
        except (FileMissing, NotADirectory):
            return []
        return sorted(records, key=lambda record: record.time)

    async def read(self, path: PathLike) -> bytes:
        """The content of an offload, byte for byte as it was stored.

        Args:
            path: As its notice names it.

        Raises:
            FileMissing: Nothing is there.
            SteadError: As `Environment.read_file`.
        """
        return await self._environment.read_file(path)

    async def _record(self, path: str) -> OffloadRecord | None:
        try:
            return OffloadRecord.from_json(await self._environment.read_file(path))
        except FileMissing:  # Expired by another process since the listing.
            return None
