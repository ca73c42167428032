r"""Replacing text in the bytes of a file, touching nothing outside the match.

A `\n` in the text to find matches `\r\n` too, since a model rarely sees the difference, and the line breaks of the new
text follow those that they replace. All else is literal, in both texts.
"""

import re
from dataclasses import dataclass

__all__ = ["Replacement", "ResultTooLargeError", "TextNotFoundError", "TooManyMatchesError", "replace_text"]

_BARE_NEWLINE = re.compile(rb"(?<!\r)\n")
_NEWLINE = re.compile(rb"\r?\n")
_LINES_TOLD = 10


class TextNotFoundError(Exception):
    """The text is nowhere in the file."""


class ResultTooLargeError(Exception):
    """The file would become larger than is allowed."""


class TooManyMatchesError(Exception):
    """The text is in several places.

    Attributes:
        count: How many.
        lines: Line numbers of the first ten.
    """

    def __init__(self, count: int, lines: list[int]) -> None:
        super().__init__(f"{count} matches")
        self.count = count
        self.lines = lines


@dataclass(frozen=True, slots=True)
class Replacement:
    """The new bytes, and where they differ."""

    data: bytes
    count: int
    line: int
    """Number of the line on which the first match starts."""


def replace_text(
    data: bytes, old: bytes, new: bytes, *, replace_all: bool = False, max_size: int | None = None
) -> Replacement:
    """Replaces the only occurrence of `old`, or all that do not overlap, from the left.

    Args:
        data: The file.
        old: Not empty.
        new: What takes its place.
        replace_all: Replace every occurrence. Otherwise there must be one, also counting those that overlap.
        max_size: Most bytes of the result, which is not made if it would have more; None is no limit.

    Raises:
        ResultTooLargeError: It would have more than `max_size`.
        TextNotFoundError: There is none.
        TooManyMatchesError: There are several.
    """
    pattern = _pattern(data, old)
    first = _find(pattern, data, old, 0)
    if first is None:
        raise TextNotFoundError
    size = len(data)

    def fitted(replaced: bytes, count: int = 1) -> bytes:
        nonlocal size
        fit = new if pattern is None else _with_newlines_of(replaced, new)
        size += (len(fit) - len(replaced)) * count
        if max_size is not None and size > max_size:
            raise ResultTooLargeError
        return fit

    if not replace_all:
        _check_unique(pattern, data, old)
        start, end = first
        changed, count = data[:start] + fitted(data[start:end]) + data[end:], 1
    elif pattern is None:
        count = data.count(old)
        changed = data.replace(old, fitted(old, count))
    else:
        changed, count = pattern.subn(lambda match: fitted(match[0]), data)
    return Replacement(changed, count, _line_of(data, first[0]))


def _pattern(data: bytes, old: bytes) -> re.Pattern[bytes] | None:
    # None is plain text, which is found far faster: a file without a carriage return needs no pattern.
    if b"\r" not in data or _BARE_NEWLINE.search(old) is None:
        return None
    return re.compile(rb"\r?\n".join(map(re.escape, _BARE_NEWLINE.split(old))))


def _find(pattern: re.Pattern[bytes] | None, data: bytes, old: bytes, start: int) -> tuple[int, int] | None:
    if pattern is None:
        found = data.find(old, start)
        return None if found < 0 else (found, found + len(old))
    match = pattern.search(data, start)
    return None if match is None else match.span()


def _check_unique(pattern: re.Pattern[bytes] | None, data: bytes, old: bytes) -> None:
    starts: list[int] = []
    found = _find(pattern, data, old, 0)
    while found is not None and len(starts) < _LINES_TOLD:
        starts.append(found[0])
        # A line break counts once, whichever of its two bytes a match could start at.
        step = 2 if pattern is not None and data.startswith(b"\r\n", found[0]) else 1
        found = _find(pattern, data, old, found[0] + step)
    if len(starts) > 1:
        count = data.count(old) if pattern is None else sum(1 for _ in pattern.finditer(data))
        raise TooManyMatchesError(max(len(starts), count), [_line_of(data, start) for start in starts])


def _line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _with_newlines_of(replaced: bytes, new: bytes) -> bytes:
    endings = _NEWLINE.findall(replaced)
    pieces = _BARE_NEWLINE.split(new)
    # The n-th break of the new text takes the n-th that was there, those beyond take the last.
    breaks = [endings[min(n, len(endings) - 1)] for n in range(len(pieces) - 1)]
    return b"".join(part for pair in zip(pieces, [*breaks, b""], strict=True) for part in pair)
