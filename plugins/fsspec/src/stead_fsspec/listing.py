"""Listings of stores without directories, sorted by path, in bounded memory.

A store lists keys by their bytes, where `a-b` comes before `a/x`. By path the directory `a` comes before `a-b`. So an
entry is held back while a directory that sorts before it may still follow; if too many wait, the store is asked.
"""

import heapq
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from stead_fsspec.store import Entry, Found, ObjectStore, Page

__all__ = ["MAX_HELD", "sorted_entries"]

MAX_HELD = 1_000
"""Entries that wait at most; a page of a store has as many."""

_BEFORE_SLASH = re.compile(r"[\x00-\x2e]")
_UNREACHABLE = frozenset({"", ".", ".."})


async def sorted_entries(store: ObjectStore, prefix: str, *, recursive: bool) -> AsyncGenerator[Entry, None]:
    """Lists what is below a prefix.

    Keys that no path can name (empty or dot segments) are entries of kind `"other"`. Empty objects whose key ends in
    `/`, which mark a directory, are not shown; the directory is.

    Args:
        store: The store.
        prefix: Empty, or ending in `/`.
        recursive: Also what is below directories.
    """
    order = _Order(prefix)
    async with aclosing(store.pages(prefix, folders=not recursive)) as pages:
        async for page in pages:
            for item in _merged(page):
                order.take(item)
                for entry in order.ready():
                    yield entry
                while order.overfull:
                    folder = order.doubt()
                    order.resolve(folder, exists=await store.is_folder(folder))
                    for entry in order.ready():
                        yield entry
    for entry in order.rest():
        yield entry


def _merged(page: Page) -> list[Found | str]:
    return sorted((*page.objects, *page.folders), key=lambda item: item if isinstance(item, str) else item.key)


class _Order:
    """Puts entries in the order of their paths."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._position = ""
        self._parents: tuple[str, ...] = ()
        self._held: list[tuple[str, int, Entry]] = []
        self._count = 0
        self._resolved: set[str] = set()
        self._shown_ahead: set[str] = set()

    @property
    def overfull(self) -> bool:
        return len(self._held) > MAX_HELD

    def take(self, item: Found | str) -> None:
        """Takes the next key, or common prefix, in the store's order."""
        key = item if isinstance(item, str) else item.key
        self._position = key
        names = key[len(self._prefix) :].split("/")
        reachable = next((n for n, name in enumerate(names) if name in _UNREACHABLE), len(names))
        parents = tuple(self._prefix + "/".join(names[:n]) for n in range(1, min(reachable, len(names) - 1) + 1))
        for folder in parents:
            if folder not in self._parents and folder not in self._shown_ahead:
                self._push(Entry(folder, "directory"))
        self._parents = parents
        is_marker = reachable == len(names) - 1 and not names[-1]
        if isinstance(item, str):
            if not is_marker:
                self._push(Entry(key, "other"))
        elif reachable == len(names):
            self._push(Entry(key, "file", item))
        elif not is_marker or item.size:
            self._push(Entry(key, "other", item))

    def ready(self) -> Iterator[Entry]:
        """Takes out what nothing can come before any more."""
        while self._held and self._doubt_about(self._held[0][0]) is None:
            yield heapq.heappop(self._held)[2]

    def rest(self) -> Iterator[Entry]:
        """Takes out everything, after the last key."""
        while self._held:
            yield heapq.heappop(self._held)[2]

    def doubt(self) -> str:
        """Returns the directory that the first entry waits for."""
        found = self._doubt_about(self._held[0][0])
        if found is None:
            raise RuntimeError("nothing is waited for")
        return found

    def resolve(self, folder: str, *, exists: bool) -> None:
        """Takes the store's word on a directory that was waited for."""
        for known in (self._resolved, self._shown_ahead):
            known -= {name for name in known if f"{name}/" < self._position and name not in self._parents}
        self._resolved.add(folder)
        if exists:
            self._shown_ahead.add(folder)
            self._push(Entry(folder, "directory"))

    def _push(self, entry: Entry) -> None:
        self._count += 1
        heapq.heappush(self._held, (entry.key, self._count, entry))

    def _doubt_about(self, key: str) -> str | None:
        # The shortest candidate sorts last as a prefix: once it is passed, all are.
        for match in _BEFORE_SLASH.finditer(key, len(self._prefix) + 1):
            folder = key[: match.start()]
            if folder in self._resolved or folder.endswith("/"):
                continue
            return folder if f"{folder}/" > self._position else None
        return None
