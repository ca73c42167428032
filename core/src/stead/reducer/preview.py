"""What is shown of a long text: pure functions on strings, counted in characters (code points)."""

import unicodedata
from collections.abc import Sequence
from typing import Literal

from stead.reducer.estimate import ASCII_WEIGHT, text_units
from stead.reducer.pieces import encoded

__all__ = ["PREVIEWS", "Preview", "clean_text", "cut_blocks", "head_and_tail", "safe_cut", "weight_in_chars"]

Preview = Literal["text", "json", "table", "sample"]
PREVIEWS: tuple[str, ...] = ("text", "json", "table", "sample")

_LEAST_CUT = 200
"""A block cut to fewer characters than this says nothing; blocks in the middle are left out instead."""
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_LONGEST_CLUSTER = 16


def clean_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD; the same object if there are none."""
    try:
        for _ in () if text.isascii() else encoded(text):
            pass
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def head_and_tail(text: str, budget: int) -> tuple[str, str]:
    """The first and the last part of a text: together at most `budget` characters, never overlapping.

    Args:
        text: The whole text.
        budget: Most characters of both; a text that fits is all head.
    """
    if len(text) <= budget:
        return text, ""
    tail_size = max(0, budget) // 2
    head_end = safe_cut(text, max(0, budget) - tail_size)
    tail_start = _boundary_after(text, len(text) - tail_size)
    return text[:head_end], text[tail_start:]


def cut_blocks(texts: Sequence[str], budget: int, marker: str) -> list[str | None]:
    """Fits text blocks into a budget: small ones stay whole, large ones keep head and tail around a marker.

    Args:
        texts: The text blocks.
        budget: Most characters of all together.
        marker: A template with the field `omitted`, put where the middle of a block was left out.

    Returns:
        New text by block; None for one that is left out, which happens in the middle if there are too many to cut.
    """
    level = _water_level([len(text) for text in texts], budget)
    cut: list[str | None] = [_cut(text, max(level, _LEAST_CUT), marker) for text in texts]
    if level >= _LEAST_CUT:
        return cut
    left, first, last = budget, 0, len(cut)
    while first < last:
        # Taken from both ends in turn, so that head and tail of the list are kept alike.
        from_head = first <= len(cut) - last
        block = cut[first if from_head else last - 1] or ""
        if len(block) > left:
            break
        left -= len(block)
        first, last = (first + 1, last) if from_head else (first, last - 1)
    return [*cut[:first], *[None] * (last - first), *cut[last:]]


def _cut(text: str, size: int, marker: str) -> str:
    if len(text) <= size:
        return text
    frame = weight_in_chars(marker.format(omitted=len(text)))
    head, tail = head_and_tail(text, size - frame)
    return f"{head}{marker.format(omitted=len(text) - len(head) - len(tail))}{tail}"


def _water_level(sizes: Sequence[int], budget: int) -> int:
    """The largest size to which all longer ones are cut so that the sum fits."""
    left = budget
    for done, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - done)
        if size > share:
            return max(0, share)
        left -= size
    return max(sizes, default=0)


def safe_cut(text: str, position: int) -> int:
    """The nearest place, at `position` or a little before, where a cut parts no character as a reader sees it.

    Args:
        text: The text.
        position: Where it should be cut.
    """
    for candidate in range(position, max(0, position - _LONGEST_CLUSTER), -1):
        if not _joined(text, candidate):
            return candidate
    return position


def _boundary_after(text: str, position: int) -> int:
    for candidate in range(position, min(len(text), position + _LONGEST_CLUSTER)):
        if not _joined(text, candidate):
            return candidate
    return position


def weight_in_chars(text: str) -> int:
    """Characters that have as many tokens, where they are the lightest: what saves them saves tokens and bytes too.

    Args:
        text: What is shown in their place.
    """
    return max(len(text), -(-text_units(text) // ASCII_WEIGHT))


def _joined(text: str, position: int) -> bool:
    """True if a cut at `position` would part what a reader sees as one character."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if before == "\r" and after == "\n":
        return True
    if before.isascii() and after.isascii():
        return False
    return before == "\u200d" or after in _JOINERS or unicodedata.combining(after) != 0
