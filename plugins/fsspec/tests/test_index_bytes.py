"""A line index that is stored and read back is the same."""

import os

import pytest

from stead.reading import LineIndex, LineScanner


def counted(data):
    index = LineIndex()
    LineScanner(None, index).feed(data)
    return index


@pytest.mark.parametrize("data", [b"", b"a", b"a\n" * 1_000_000, b"\xe7\x95\x8c" * 500_000, os.urandom(3_000_000)])
def test_stored_index_is_the_same(data):
    """Every checkpoint, the total and the end come back."""
    before = counted(data)
    after = LineIndex.from_bytes(before.to_bytes())
    assert (after.covered, after.newlines, after.total_lines) == (before.covered, before.newlines, before.total_lines)
    assert after.last() == before.last()
    for line in (1, 7, 500_000, 10**9):
        assert after.find(line, 3) == before.find(line, 3)


@pytest.mark.parametrize("data", [b"", b"x", counted(b"a\n").to_bytes()[:-1], b"\x78\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_is_no_index(data):
    """Bytes that are no index are a ValueError."""
    with pytest.raises(ValueError, match="not a line index"):
        LineIndex.from_bytes(data)
