"""Listings sorted by path out of keys sorted by bytes, in bounded memory."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from stead_fsspec import listing
from stead_fsspec.listing import sorted_entries
from stead_fsspec.store import Found, ObjectStore, Page

_NAMES = st.sampled_from(["a", "a-", "a-b", "a.b", "a b", "ab", "b", ".x", "-", "\u754c", "a/", "!"])
_KEYS = st.sets(
    st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/".join(n.strip("/") for n in names)), max_size=25
)


class Keys(ObjectStore):
    """A store that has nothing but keys, and gives them in pages of a few."""

    backend = "test"

    def __init__(self, keys, page=3):
        self.keys = sorted(keys, key=str.encode)
        self.page = page
        self.asked = 0

    async def pages(self, prefix, *, folders, limit=None):
        self.asked += 1
        items = dict.fromkeys(self._item(key, prefix, folders) for key in self.keys if key.startswith(prefix))
        names = list(items)[:limit]
        for start in range(0, len(names), self.page):
            part = names[start : start + self.page]
            objects = tuple(Found(key=key, size=1) for key in part if not key.endswith("/"))
            yield Page(objects, tuple(key for key in part if key.endswith("/")))

    @staticmethod
    def _item(key, prefix, folders):
        rest = key[len(prefix) :]
        return prefix + rest.split("/")[0] + "/" if folders and "/" in rest else key

    async def open(self): ...
    async def close(self): ...
    async def fetch(self, key, start, stop, version): ...
    async def head(self, key): ...
    async def put(self, key, data, condition, notes): ...
    async def begin(self, key, condition, notes): ...
    async def delete(self, key): ...


def listed(store, prefix, *, recursive):
    async def main():
        return [(entry.key, entry.kind) async for entry in sorted_entries(store, prefix, recursive=recursive)]

    return asyncio.run(main())


def expected(keys, prefix, *, recursive):
    found = set()
    for key in keys:
        if key.startswith(prefix):
            names = key[len(prefix) :].split("/")
            depth = len(names) if recursive else 1
            found |= {(prefix + "/".join(names[:n]), "directory") for n in range(1, len(names)) if n <= depth}
            if len(names) <= depth:
                found.add((key, "file"))
    return found


@settings(max_examples=300, deadline=None)
@given(keys=_KEYS, held=st.sampled_from([0, 1, 3, 1000]), recursive=st.booleans(), prefix=st.sampled_from(["", "a/"]))
def test_sorted_by_path(keys, held, recursive, prefix):
    """Every file and directory is there once, in the order of paths, however few may be held back."""
    before, listing.MAX_HELD = listing.MAX_HELD, held
    try:
        found = listed(Keys(keys), prefix, recursive=recursive)
    finally:
        listing.MAX_HELD = before
    assert set(found) == expected(keys, prefix, recursive=recursive)
    assert len(found) == len(set(found))
    assert [key for key, _ in found] == sorted(key for key, _ in found)


def test_many_files_need_little():
    """20,000 names with a suffix are listed by their pages and one question, with no more than a page held back."""
    store = Keys([f"d/file-{n:05}.txt" for n in range(20_000)], page=1000)
    assert len(listed(store, "d/", recursive=True)) == 20_000
    assert store.asked == 2


def test_markers_and_keys_that_no_path_reaches():
    """Directory markers are hidden, unless they have content; keys with empty or dot segments are of kind other."""
    store = Keys(["d/a", "d//b", "d/./c", "../e"])

    async def with_markers(prefix, *, folders, limit=None):
        markers = (Found(key="d/", size=0), Found(key="t/", size=5))
        yield Page(tuple(Found(key=key, size=1) for key in store.keys) + markers, ())

    store.pages = with_markers
    assert listed(store, "", recursive=True) == [
        ("../e", "other"),
        ("d", "directory"),
        ("d/./c", "other"),
        ("d//b", "other"),
        ("d/a", "file"),
        ("t", "directory"),
        ("t/", "other"),
    ]
