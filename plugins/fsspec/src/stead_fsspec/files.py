"""Files of any fsspec filesystem, by its blocking calls in worker threads."""

import asyncio
import hashlib
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from stead.adapt import time_of
from stead.errors import ConfigError, EnvironmentClosed, FileChanged, FileMissing, SteadError, Unsupported
from stead_fsspec.errors import translated
from stead_fsspec.store import Body, Condition, Entry, Found, Store, Upload

__all__ = ["FsspecStore", "Place"]

T = TypeVar("T")

_MIB = 1 << 20
_READ = 1 * _MIB
_BLOCK = 4 * _MIB
_THREADS = 8
_LOCKS = 64
_SAFE_BETWEEN_THREADS = frozenset({"file", "local", "memory"})
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


@dataclass(frozen=True, slots=True)
class Place:
    """Which filesystem, and which directory of it. Its repr shows no secret."""

    protocol: str
    path: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


class FsspecStore(Store):
    """The files below one directory of a filesystem."""

    backend = "fsspec"
    ordered_parts = True

    def __init__(self, place: Place) -> None:
        """Takes which filesystem; makes nothing yet."""
        self._place = place
        self._filesystem: Any = None
        self._base = ""
        self._threads: ThreadPoolExecutor | None = None
        # Most filesystems write in place: two writes of one file at once would mix. Which lock is a file's, its key says.
        self._writing = [threading.Lock() for _ in range(_LOCKS)]

    # ---- life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        # A filesystem with one connection is not safe between threads; those that run on a loop of their own are.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="stead-fsspec")
        await self.do("opening", "", self._open)
        if self._filesystem.async_impl or self._place.protocol in _SAFE_BETWEEN_THREADS:
            self._threads.shutdown(wait=False)
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="stead-fsspec")

    def _open(self) -> None:
        import fsspec

        try:
            kind = fsspec.get_filesystem_class(self._place.protocol)
        except (ValueError, ImportError) as error:
            raise ConfigError(f"the filesystem {self._place.protocol!r} cannot be used: {error}") from error
        # Its cache of instances knows threads but not owners, that of listings may never expire.
        own = {"skip_instance_cache": True, "use_listings_cache": False}
        self._filesystem = kind(**{**self._place.options, **own})
        base = str(kind._strip_protocol(self._place.path)) if self._place.path else kind.root_marker  # noqa: SLF001 - how fsspec's own code takes a path apart
        self._base = base if base.endswith("/") or not base else f"{base}/"

    async def close(self) -> None:
        threads, self._threads = self._threads, None
        filesystem, self._filesystem = self._filesystem, None
        if threads is not None:
            threads.shutdown(wait=False)
        if hasattr(filesystem, "close"):
            with suppress(Exception):  # filesystems close in their own ways, and after this nothing is asked of it
                await asyncio.to_thread(filesystem.close)

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, start: int, stop: int | None, version: Found | None) -> Body | None:
        return await self.do("reading", key, lambda: self._fetch(key, start, version), undo=_forget)

    def _fetch(self, key: str, start: int, version: Found | None) -> "_FileBody | None":
        found = self._info(key)
        if found is None:
            raise FileMissing(f"reading {key!r}: not found")
        if version is not None and found.version != version.version:
            raise FileChanged(f"{key!r} is not version {version.version!r} any more")
        if start and start >= found.size:
            return None
        file = self._filesystem.open(self._base + key, "rb", block_size=_BLOCK)
        if start:
            file.seek(start)
        return _FileBody(self, found, file, start)

    async def head(self, key: str) -> Found | None:
        return await self.do("looking at", key, lambda: self._info(key))

    def _info(self, key: str) -> Found | None:
        try:
            info = self._filesystem.info(self._base + key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._found(key, info) if info["type"] == "file" else None

    @staticmethod
    def _found(key: str, info: Mapping[str, Any]) -> Found:
        if info.get("size") is None:
            raise Unsupported(f"the filesystem does not say how large {key!r} is")
        time = next((info[name] for name in _TIMES if info.get(name) is not None), None)
        tag = next((info[name] for name in ("ETag", "etag", "generation") if info.get(name)), None)
        if tag is None and time is not None:
            # One filesystem may give the same time as a number here and as a date there.
            tag = f"{_moment(time) or time}-{info['size']}-{info.get('ino', '')}"
        version = None if tag is None else hashlib.sha256(str(tag).encode()).hexdigest()[:32]
        return Found(key=key, size=int(info["size"]), version=version, modified=_moment(time))

    async def is_folder(self, key: str) -> bool:
        return await self.do("looking at", key, lambda: self._is_folder(key))

    def _is_folder(self, key: str) -> bool:
        try:
            return bool(self._filesystem.info((self._base + key).rstrip("/") or "/")["type"] == "directory")
        except (FileNotFoundError, NotADirectoryError):
            return False

    async def entries(self, key: str, *, recursive: bool) -> AsyncGenerator[Entry, None]:
        waiting = await self._steps(key, recursive=recursive)
        while waiting:
            sort_key, entry = waiting.pop()
            if not sort_key.endswith("/"):
                yield entry
                continue
            with suppress(FileMissing):  # removed since its parent was listed
                waiting += await self._steps(entry.key, recursive=True)

    async def _steps(self, key: str, *, recursive: bool) -> list[tuple[str, Entry]]:
        # What is below `a` sorts as `a/...`, so after a sibling such as `a-b`: going in is a turn of its own.
        entries = await self.do("listing", key, lambda: self._level(key))
        steps = [(entry.key, entry) for entry in entries]
        if recursive:
            steps += [(f"{entry.key}/", entry) for entry in entries if entry.kind == "directory"]
        return sorted(steps, key=lambda step: step[0], reverse=True)

    def _level(self, key: str) -> list[Entry]:
        if not self._is_folder(key):
            return []
        below = f"{self._base}{key}/" if key else self._base
        found = []
        for info in self._filesystem.ls(below.rstrip("/") or "/", detail=True):
            name = str(info["name"]).rstrip("/").rpartition("/")[2]
            path = f"{key}/{name}" if key else name
            if f"{self._base}{path}" == below.rstrip("/") or not name:
                continue  # some list a directory's own marker with it
            if info["type"] == "file":
                found.append(Entry(path, "file", self._found(path, info)))
            else:
                found.append(Entry(path, "directory" if info["type"] == "directory" else "other"))
        return found

    # ---- writing ---------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: bytes, condition: Condition, notes: Mapping[str, str]) -> Found:
        return await self.do(
            "writing", key, lambda: self.replace(key, lambda path: self._filesystem.pipe_file(path, data))
        )

    async def begin(self, key: str, condition: Condition, notes: Mapping[str, str]) -> Upload:
        return await self.do("writing", key, lambda: _SpooledUpload(self, key))

    def replace(self, key: str, write: Callable[[str], object]) -> Found:
        """Replaces a file, in a worker thread.

        Raises:
            SteadError: It is not there afterwards.
        """
        path = self._base + key
        parent = path.rpartition("/")[0]
        with self._writing[hash(key) % _LOCKS]:
            if parent:
                self._filesystem.makedirs(parent, exist_ok=True)
            write(path)
            found = self._info(key)
        if found is None:
            raise SteadError(f"{key!r} was written and is not there; is something else deleting it?")
        return found

    async def delete(self, key: str) -> None:
        await self.do("deleting", key, lambda: self._delete(key))

    def _delete(self, key: str) -> None:
        if self._info(key) is None:
            raise FileMissing(f"deleting {key!r}: not found")
        self._filesystem.rm_file(self._base + key)

    # ---- for this module -------------------------------------------------------------------------------------------

    @property
    def filesystem(self) -> Any:
        """The filesystem, while it is open."""
        return self._filesystem

    async def do(self, doing: str, key: str, step: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
        """Makes blocking calls in a worker thread.

        A thread cannot be cancelled: a cancellation is raised when the step has ended, so that nothing goes on behind the
        caller's back.

        Args:
            doing: For messages.
            key: For messages.
            step: What to call.
            undo: Releases the result of a step whose caller was cancelled.

        Raises:
            SteadError: Whatever the filesystem raised, as ours.
        """
        if self._threads is None:
            raise EnvironmentClosed("the environment was closed")
        with translated(doing, key or self._place.protocol):
            future = asyncio.get_running_loop().run_in_executor(self._threads, step)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                while not future.done():
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait([future])
                if not future.cancelled() and future.exception() is None and undo is not None:
                    undo(future.result())
                raise


class _FileBody(Body):
    def __init__(self, store: FsspecStore, found: Found, file: Any, start: int) -> None:
        self._store = store
        self.found = found
        self.start = start
        self._file = file

    async def read(self) -> bytes:
        data: bytes = await self._store.do("reading", self.found.key, lambda: self._file.read(_READ))
        return data

    async def close(self) -> None:
        await asyncio.to_thread(self.forget)

    def forget(self) -> None:
        """Closes the file; blocking."""
        with suppress(Exception):  # one that was only read has nothing to lose
            self._file.close()


class _SpooledUpload(Upload):
    """Gathers what is written in a file of this machine first: few filesystems can take a write back."""

    def __init__(self, store: FsspecStore, key: str) -> None:
        self._store = store
        self._key = key
        self._spool = tempfile.NamedTemporaryFile(prefix="stead-")  # noqa: SIM115 - closed, and so removed, by abort

    async def part(self, number: int, data: bytes) -> None:
        await self._store.do("writing", self._key, lambda: self._spool.write(data))

    async def finish(self, rest: bytes) -> Found:
        def send(path: str) -> None:
            self._spool.write(rest)
            self._spool.flush()
            self._store.filesystem.put_file(self._spool.name, path)

        try:
            return await self._store.do("writing", self._key, lambda: self._store.replace(self._key, send))
        finally:
            await self.abort()

    async def abort(self) -> None:
        await asyncio.to_thread(self._spool.close)


def _forget(body: _FileBody | None) -> None:
    if body is not None:
        body.forget()


def _moment(time: object) -> datetime | None:
    if isinstance(time, datetime):
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return time_of(time) if isinstance(time, (int, float)) else None
