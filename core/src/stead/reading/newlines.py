r"""Counting and finding `\n` in a buffer, with SIMD where `stead[fast]` is installed."""

from collections.abc import Callable

__all__ = ["Buffer", "count_newlines", "nth_newline"]

Buffer = bytes | bytearray

_SMALL = 4096


def _count_plain(data: Buffer, start: int, end: int) -> int:
    # An int needle is a memchr loop; a bytes needle goes through the general search and is a third slower.
    return data.count(10, start, end)


def _counter() -> Callable[[Buffer, int, int], int]:
    try:
        from stringzilla import count
    except ImportError:
        return _count_plain

    def count_fast(data: Buffer, start: int, end: int) -> int:
        return count(data, b"\n", start, end)  # type: ignore[no-any-return]

    return count_fast


count_newlines = _counter()
r"""`count_newlines(data, start, end)`: the number of `\n` in `data[start:end]`."""


def nth_newline(data: Buffer, n: int, start: int, end: int) -> int:
    r"""Returns the index just after the n-th `\n` of `data[start:end]`, which must hold that many; `start` if n is 0.

    Halves the range by counting, so a block of nothing but newlines costs no more than any other.
    """
    while n and end - start > _SMALL:
        middle = (start + end) // 2
        found = count_newlines(data, start, middle)
        if found >= n:
            end = middle
        else:
            n, start = n - found, middle
    for _ in range(n):
        start = data.index(10, start, end) + 1
    return start
