"""What was offloaded: list it, read it back, delete it, expire it. Only what stead wrote is ever removed."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from stead.environment import Environment, PathLike
from stead.errors import FileMissing, NotADirectory, Unsupported
from stead.reducer.frames import SUFFIX, read_frames
from stead.reducer.names import is_offload_name, session_name
from stead.reducer.records import OffloadRecord
from stead.reducer.session import SessionRecords

__all__ = ["Offloads"]

ORPHAN_GRACE = timedelta(hours=24)
"""Content without a record that is younger may still get one: its writer has not come that far."""


# One offload: an environment's number and the path of its content. Equal content of a session has several records.
_Key = tuple[int, str]
_Found = list[tuple[OffloadRecord, SessionRecords]]
_Groups = dict[_Key, _Found]
_Paths = list[str]
_Records = list[OffloadRecord]


class Offloads:
    """The offloads of one session, or of all sessions below one folder.

    Args:
        environments: Where they are; tools can have one of their own.
        root_dir: The folder of all sessions.
        session: The session's id; None is all of them.
        timeout: Seconds that reading or writing one record may take.
    """

    def __init__(
        self,
        *environments: Environment,
        root_dir: str = ".stead/offloads",
        session: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._environments = environments
        self._root = root_dir.rstrip("/")
        self._session = None if session is None else session_name(session)
        self._timeout = timeout

    async def list(self) -> _Records:
        """The records, oldest first.

        Raises:
            Unsupported: An environment cannot list files.
            SteadError: An environment could not be read.
        """
        found = [record for records in (await self._groups()).values() for record, _ in records]
        return sorted(found, key=lambda record: (record.time, record.path))

    async def read(self, path: PathLike) -> bytes:
        """The content of an offload, byte for byte as it was stored, decompressed if it was compressed.

        Args:
            path: As its notice names it.

        Raises:
            FileMissing: Nothing is there.
            SteadError: As `Environment.read_file`.
        """
        if str(path).endswith(SUFFIX):  # Nothing else is ever compressed.
            for _, session in await self._sessions():
                record = await session.of_path(str(path))
                if record is not None and record.encoding != "none":
                    async with aclosing(read_frames(session.environment, record.path, record.frames)) as pieces:
                        return b"".join([piece async for piece in pieces])
        for environment in self._environments[:-1]:
            with suppress(FileMissing):
                return await environment.read_file(path)
        return await self._environments[-1].read_file(path)

    async def delete(self, path: PathLike) -> _Paths:
        """Removes an offload: its content, its media and its records. A notice that names it leads nowhere then.

        Args:
            path: As its notice names it.

        Returns:
            The paths of the content files that were removed.

        Raises:
            FileMissing: No record names that path.
            Unsupported: The environment cannot list or delete files.
            SteadError: The environment could not be read or written.
        """
        groups = await self._groups()
        doomed = [key for key in groups if key[1] == str(path)]
        if not doomed:
            raise FileMissing(f"no offload is recorded at {str(path)!r}", operation="delete", path=str(path))
        return await self._remove(groups, doomed)

    async def expire(self, *, age: timedelta | float | None = None, quota: int | None = None) -> _Paths:
        """Removes old offloads, and content that never got a record and is older than a day.

        Args:
            age: Removes what was last stored longer ago than this: a timedelta, or seconds.
            quota: Removes the oldest until the rest has at most so many bytes, as they are stored.

        Returns:
            The paths of the content files that were removed.

        Raises:
            ValueError: `age` or `quota` is negative.
            Unsupported: The environment cannot list or delete files.
            SteadError: The environment could not be read or written.
        """
        limit = age if isinstance(age, timedelta) or age is None else timedelta(seconds=age)
        if (limit is not None and limit < timedelta(0)) or (quota is not None and quota < 0):
            raise ValueError("age and quota must not be negative")
        groups = await self._groups()
        last = {key: max(record.stored_at for record, _ in found) for key, found in groups.items()}
        oldest_first = sorted(groups, key=lambda key: (last[key], key))
        now = datetime.now(UTC)
        doomed = {} if limit is None else {key: None for key in oldest_first if now - last[key] > limit}
        if quota is not None:
            sizes = {key: found[0][0].stored_size for key, found in groups.items()}
            left = sum(sizes[key] for key in groups if key not in doomed)
            for key in oldest_first:
                if left > quota and key not in doomed:
                    doomed[key] = None
                    left -= sizes[key]
        named = {PurePosixPath(name).name for found in groups.values() for record, _ in found for name in record.paths}
        return await self._remove(groups, doomed) + await self._remove_orphans(named)

    # ---- finding ---------------------------------------------------------------------------------------------------

    async def _sessions(self) -> Sequence[tuple[int, SessionRecords]]:
        found = []
        for number, environment in enumerate(self._environments):
            names = [self._session]
            if self._session is None:
                folders = await _listed(environment, self._root, kind="directory")
                names = [PurePosixPath(path).name for path in folders]
            for name in names:
                folder = f"{self._root}/{name}"
                found.append((number, SessionRecords(environment, folder=folder, timeout=self._timeout)))
        return found

    async def _groups(self) -> _Groups:
        if not all(environment.capabilities.list_files for environment in self._environments):
            raise Unsupported("offloads cannot be listed in this environment", operation="list_files")
        groups: defaultdict[_Key, _Found] = defaultdict(list)
        for number, session in await self._sessions():
            for record in await session.all():
                groups[number, record.path].append((record, session))
        return groups

    # ---- removing --------------------------------------------------------------------------------------------------

    async def _remove(self, groups: _Groups, doomed: Iterable[_Key]) -> _Paths:
        """Content first: a record without content is removed by the next try, content without one only after a day."""
        removed: _Paths = []
        for key in doomed:
            found = groups.pop(key)
            still_named = {
                name for other, records in groups.items() if other[0] == key[0] for r, _ in records for name in r.paths
            }
            environment = found[0][1].environment
            adopted = {record.path for record, _ in found if record.adopted}
            for name in dict.fromkeys(name for record, _ in found for name in record.paths):
                if name not in still_named | adopted and await self._is_ours(environment, name, found[0][0]):
                    with suppress(FileMissing):
                        await environment.delete_file(name)
                        removed.append(name)
            for record, session in found:
                await session.remove(record)
        return removed

    async def _is_ours(self, environment: Environment, path: str, record: OffloadRecord) -> bool:
        """Inside the session's folder all is ours; elsewhere only a file with exactly the recorded content is."""
        inside = PurePosixPath(path).is_relative_to(f"{self._root}/{record.session}")
        if inside and ".." not in PurePosixPath(path).parts:
            return True
        digest = hashlib.sha256()
        pieces = environment.read_file_stream(path)
        if record.encoding != "none":
            pieces = read_frames(environment, path, record.frames)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    digest.update(piece)
        except FileMissing:
            return False
        return digest.hexdigest() == record.sha256

    async def _remove_orphans(self, named: Collection[str]) -> _Paths:
        removed: _Paths = []
        for _, session in await self._sessions():
            environment = session.environment
            for folder in (f"{session.parent}/trunc", f"{session.parent}/clear"):
                for path in await _listed(environment, folder):
                    name = PurePosixPath(path).name
                    if name not in named and is_offload_name(name) and await _is_old(environment, path):
                        with suppress(FileMissing):
                            await environment.delete_file(path)
                            removed.append(path)
        return removed


async def _listed(environment: Environment, folder: str, *, kind: str = "file") -> _Paths:
    try:
        async with aclosing(environment.list_files(folder)) as files:
            return [info.path async for info in files if info.kind == kind]
    except (FileMissing, NotADirectory):
        return []


async def _is_old(environment: Environment, path: str) -> bool:
    if not environment.capabilities.stat:
        return False
    modified = (await environment.stat(path)).modified
    return modified is not None and datetime.now(UTC) - modified > ORPHAN_GRACE
