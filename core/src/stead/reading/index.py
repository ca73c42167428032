"""The sparse line index: where lines are, one checkpoint every 256 KiB, so that any page costs O(page)."""

import sys
import threading
import zlib
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

__all__ = ["START", "STEP", "IndexCache", "LineIndex", "Position"]

STEP = 1 << 18
"""Bytes between checkpoints: a page reads at most this much before its first line. 1 GiB costs 96 KiB of index."""


class Position(NamedTuple):
    """A place between two characters of a file. Lines and columns count from 1, columns in code points."""

    byte: int
    line: int
    column: int


START = Position(0, 1, 1)
"""The start of every file."""


class LineIndex:
    """Checkpoints of one version of a file, from its start to `covered` bytes.

    Checkpoints also fall inside a line that is longer than the step, with their column, so that pages in one giant
    line cost O(page) too. Each lies at a character border.
    """

    __slots__ = ("_bytes", "_columns", "_lines", "covered", "newlines", "unterminated")

    def __init__(self) -> None:
        self._bytes = array("Q", [0])
        self._lines = array("Q", [1])
        self._columns = array("Q", [1])
        self.covered = 0
        """Bytes counted so far."""
        self.newlines = 0
        r"""`\n` among them."""
        self.unterminated = False
        r"""True if the last byte counted is not a `\n`."""

    @property
    def total_lines(self) -> int:
        """Lines in the covered bytes; an unterminated tail is one."""
        return self.newlines + self.unterminated

    @property
    def memory(self) -> int:
        """Bytes that the checkpoints take."""
        return 24 * len(self._bytes)

    def add(self, position: Position) -> None:
        """Adds a checkpoint unless it is not past the last one."""
        if position.byte > self._bytes[-1]:
            self._bytes.append(position.byte)
            self._lines.append(position.line)
            self._columns.append(position.column)

    def last(self) -> Position:
        """Returns the last checkpoint: where counting goes on when the file has grown."""
        return self._at(-1)

    def find(self, line: int, column: int = 1) -> Position:
        """Returns the last checkpoint that is not past the given place."""
        found = bisect_right(range(len(self._bytes)), (line, column), key=lambda i: (self._lines[i], self._columns[i]))
        return self._at(found - 1)

    def copy(self) -> "LineIndex":
        """Returns a copy to extend, so that a published index never changes under a reader."""
        twin = LineIndex()
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value[:] if isinstance(value, array) else value)
        return twin

    def to_bytes(self) -> bytes:
        """Returns the index to be stored, compressed."""
        head = array("Q", [self.covered, self.newlines, self.unterminated, len(self._bytes)])
        arrays = (head, self._bytes, self._lines, self._columns)
        return zlib.compress(b"".join(_little_endian(item).tobytes() for item in arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> "LineIndex":
        """Returns the index that was stored.

        Raises:
            ValueError: The bytes are no index.
        """
        numbers = array("Q")
        try:
            numbers.frombytes(zlib.decompress(data))
        except zlib.error as error:
            raise ValueError(f"not a line index: {error}") from error
        numbers = _little_endian(numbers)
        count = numbers[3] if len(numbers) > 3 else 0
        if not count or len(numbers) != 4 + 3 * count:
            raise ValueError("not a line index: its length is wrong")
        index = cls()
        index.covered, index.newlines, index.unterminated = numbers[0], numbers[1], bool(numbers[2])
        index._bytes, index._lines, index._columns = (numbers[4 + n * count : 4 + (n + 1) * count] for n in range(3))
        return index

    def _at(self, i: int) -> Position:
        return Position(self._bytes[i], self._lines[i], self._columns[i])


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        return numbers
    swapped = numbers[:]
    swapped.byteswap()
    return swapped


Stamp = TypeVar("Stamp")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Stamp]):
    index: LineIndex
    stamp: Stamp


class IndexCache(Generic[Stamp]):
    """The indexes of the files read last: at most `max_files` of them and `max_bytes` together. Safe between threads.

    `stamp` is whatever tells one version of a file from another; comparing it is the caller's.
    """

    def __init__(self, *, max_files: int = 64, max_bytes: int = 16 << 20) -> None:
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, _Entry[Stamp]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> tuple[LineIndex, Stamp] | None:
        """Returns the index and stamp kept for a file, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.index, entry.stamp

    def put(self, key: Hashable, index: LineIndex, stamp: Stamp) -> None:
        """Keeps an index, which must not be changed afterwards; drops those used longest ago."""
        with self._lock:
            self._entries[key] = _Entry(index, stamp)
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and (
                len(self._entries) > self._max_files
                or sum(entry.index.memory for entry in self._entries.values()) > self._max_bytes
            ):
                self._entries.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        """Forgets a file."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._entries.clear()
