"""Pages of lines by one ranged request, once a version of an object was counted."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from stead.errors import FileChanged, FileMissing, SteadError
from stead.reading import STEP, IndexCache, LineIndex, LineScanner
from stead.results import LineRange, LineWindow
from stead_fsspec.store import ANY, Found, Store
from stead_fsspec.stream import ObjectStream

__all__ = ["LineReader"]

_NOTE = "stead-lines"
_TRIES = 3
_UTF8_BYTES = 4


class LineReader:
    """Reads lines of the objects of one store, and keeps their indexes.

    An index belongs to one version: the request for a page names it, so that a new version is noticed without asking
    first. Of large objects below a state directory (offloads) the index is also written beside them, where another
    process finds it.
    """

    def __init__(self, store: Store, prefix: str, state_dir: str) -> None:
        """Takes where indexes go.

        Args:
            store: The store.
            prefix: How the keys of the environment begin, without slashes at its ends.
            state_dir: The state directory, relative to the prefix, or to a folder below it: a scope has its own.
        """
        self._store = store
        self._prefix = prefix
        self._mark = f"/{state_dir}/"
        self._indexes: IndexCache[Found] = IndexCache()

    def writer(self, key: str) -> "IndexWriter | None":
        """Returns what counts the lines of an object while it is written; None where that is not wanted."""
        beside = self._beside(key)
        return None if beside is None else IndexWriter(self._store, beside)

    def written(self, found: Found, writer: "IndexWriter | None") -> None:
        """Keeps the index of what was just written."""
        if writer is not None and writer.concluded and found.version is not None:
            self._indexes.put(found.key, writer.index, found)

    async def forget(self, key: str) -> None:
        """Removes the index beside an object that was deleted."""
        beside = self._beside(key)
        if beside is not None:
            try:
                await self._store.delete(beside)
            except SteadError:
                return  # most have none, and one that stays is never taken for another object's

    async def read(self, key: str, window: LineRange) -> LineWindow:
        """Reads a window of lines in bounded memory.

        Raises:
            ValueError: `start_column` is past the end of its line.
            FileChanged: The object was replaced during each try.
            SteadError: As reading the object.
        """
        for _ in range(_TRIES):
            known = self._indexes.get(key) or await self._load(key)
            try:
                return await (self._page(key, window, *known) if known else self._scan(key, window))
            except FileChanged:
                self._indexes.drop(key)
        raise FileChanged(f"{key!r} was replaced each time it was read; read it when it is no longer written to")

    async def _page(self, key: str, window: LineRange, index: LineIndex, found: Found) -> LineWindow:
        start = index.find(window.start, window.start_column)
        scanner = LineScanner(window, start=start)
        # The page ends by its last line or by its characters, and one more byte shows whether anything follows.
        stop = start.byte + STEP + _UTF8_BYTES * (window.max_chars + 2)
        if window.end is not None:
            stop = min(stop, index.find(window.end + 1).byte + STEP + _UTF8_BYTES)
        position = start.byte
        while position < found.size and not scanner.page_done:
            stop = min(max(stop, position + STEP), found.size)
            # Without the pin: an old version that is still there is not what the path means now.
            stream = ObjectStream(self._store, key, position, stop - position, version=replace(found, pin=None))
            try:
                while chunk := await stream.next():
                    scanner.feed(chunk)
            finally:
                await stream.close()
            position = stop
        return scanner.finish(index.total_lines)

    async def _scan(self, key: str, window: LineRange) -> LineWindow:
        index = LineIndex()
        scanner = LineScanner(window, index)
        stream = ObjectStream(self._store, key)
        try:
            while chunk := await stream.next():
                scanner.feed(chunk)
                if scanner.page_done and not window.count_total:
                    return scanner.finish(None)
        finally:
            await stream.close()
        found = stream.found
        # An empty object is asked for again each time: there is no range of it that could name the version.
        if found is not None and found.version is not None and found.size:
            self._indexes.put(key, index, found)
        return scanner.finish(scanner.total_lines())

    async def _load(self, key: str) -> tuple[LineIndex, Found] | None:
        """Fetches the index that lies beside an object, if it is that of its present version."""
        beside = self._beside(key)
        if beside is None:
            return None
        found = await self._store.head(key)
        token = found.notes.get(_NOTE) if found else None
        if found is None or token is None:
            return None
        stream = ObjectStream(self._store, beside)
        try:
            data = await _whole(stream)
        except FileMissing:
            return None
        finally:
            await stream.close()
        index = _unpacked(data, token)
        if index is None or index.covered != found.size:
            return None
        self._indexes.put(key, index, found)
        return index, found

    def _beside(self, key: str) -> str | None:
        """The key of the index of an object; None for one that is in no state directory."""
        folder, mark, _ = f"/{key[len(self._prefix) :].removeprefix('/')}".partition(self._mark)
        if not mark:
            return None
        name = sha256(key.encode()).hexdigest()[:32]
        return f"{self._prefix}{folder}{mark}lines/{name}".removeprefix("/")


class IndexWriter:
    """Counts the lines of an object while it is written in parts, and writes their index before it appears."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._token = secrets.token_hex(16)
        self.index = LineIndex()
        self._scanner = LineScanner(None, self.index)
        self.concluded = False

    @property
    def notes(self) -> Mapping[str, str]:
        """Metadata that ties the object to its index."""
        return {_NOTE: self._token}

    def see(self, data: bytes) -> None:
        """Counts the next bytes."""
        self._scanner.feed(data)

    async def conclude(self) -> None:
        """Writes the index.

        Raises:
            SteadError: It could not be written.
        """
        await self._store.put(self._key, _packed(self.index, self._token), ANY, {})
        self.concluded = True


def _packed(index: LineIndex, token: str) -> bytes:
    return json.dumps({"stead": "lines", "token": token}).encode() + b"\n" + index.to_bytes()


def _unpacked(data: bytes, token: str) -> LineIndex | None:
    head, _, rest = data.partition(b"\n")
    try:
        if json.loads(head).get("token") != token:
            return None
        return LineIndex.from_bytes(rest)
    except ValueError:
        return None


async def _whole(stream: ObjectStream) -> bytes:
    parts = []
    while chunk := await stream.next():
        parts.append(chunk)
    return b"".join(parts)
