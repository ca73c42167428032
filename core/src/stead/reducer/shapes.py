"""Previews that show the shape of a text instead of its two ends: JSON, tables, numbered lines."""

import csv
import io
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

__all__ = ["shape_of"]

_SAMPLE_LINES = 10
_SAMPLE_CHARS = 1_000
_KEYS_SHOWN = 40
_VALUE_CHARS = 80
_ROWS_SHOWN = 5
_INDENT = "  "


def shape_of(kind: str, text: str, budget: int) -> str | None:
    """A preview of at most `budget` characters; None if the text is not of that kind, or nothing fits.

    Args:
        kind: `"json"`, `"table"`, `"sample"` (the first ten lines, numbered), or `"text"`, which has no shape.
        text: The whole text.
        budget: Most characters.
    """
    lines: Iterator[str] | None = None
    if kind == "json":
        lines = _json_lines(text)
    elif kind == "table":
        lines = _table_lines(text)
    elif kind == "sample":
        lines = _sample_lines(text)
    if lines is None:
        return None
    shown: list[str] = []
    for line in lines:
        if len(line) + 1 > budget:
            break
        shown.append(line)
        budget -= len(line) + 1
    return "\n".join(shown) or None


def _sample_lines(text: str) -> Iterator[str]:
    start = 0
    for number in range(1, _SAMPLE_LINES + 1):
        end = text.find("\n", start)
        line = text[start : start + _SAMPLE_CHARS] if end < 0 else text[start : min(end, start + _SAMPLE_CHARS)]
        if end < 0 and not line:
            return
        yield f"{number}: {line.removesuffix(chr(13))}"
        if end < 0:
            return
        start = end + 1


def _json_lines(text: str) -> Iterator[str] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _outline(value, "", 0) if isinstance(value, (dict, list)) else None


def _outline(value: Any, label: str, depth: int) -> Iterator[str]:
    """Breadth is bounded at every level: what the first lines show is what a reader needs to ask for more."""
    start = f"{_INDENT * depth}{label}"
    if isinstance(value, dict):
        yield f"{start}object with {len(value)} keys"
        for key, item in islice(value.items(), _KEYS_SHOWN):
            yield from _outline(item, f"{json.dumps(key, ensure_ascii=False)}: ", depth + 1)
        if len(value) > _KEYS_SHOWN:
            yield f"{_INDENT * (depth + 1)}... {len(value) - _KEYS_SHOWN} more keys"
    elif isinstance(value, list):
        kinds = sorted({_kind(item) for item in value})
        yield f"{start}array of {len(value)} ({', '.join(kinds) or 'empty'})"
        if value:
            yield from _outline(value[0], "[0]: ", depth + 1)
        if len(value) > 1:
            yield from _outline(value[-1], f"[{len(value) - 1}]: ", depth + 1)
    else:
        shown = json.dumps(value, ensure_ascii=False)
        if len(shown) > _VALUE_CHARS:
            shown = f"{shown[:_VALUE_CHARS]}... ({len(shown)} characters)"
        yield f"{start}{shown}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "value")


def _table_lines(text: str) -> Iterator[str] | None:
    lines = [line for line in text.split("\n") if line.strip()]
    delimiter = _delimiter(lines[:20])
    if delimiter is None:
        return None
    return _table(lines, delimiter)


def _table(lines: list[str], delimiter: str) -> Iterator[str]:
    header = next(csv.reader(io.StringIO(lines[0]), delimiter=delimiter))
    names = [name.strip() for name in header if name.strip()]
    yield f"table of {len(lines) - 1} rows, {len(names)} columns: {', '.join(names)}"
    yield from lines[: 1 + _ROWS_SHOWN]
    hidden = len(lines) - 1 - 2 * _ROWS_SHOWN
    if hidden > 0:
        yield f"... {hidden} rows ..."
    yield from lines[max(1 + _ROWS_SHOWN, len(lines) - _ROWS_SHOWN) :]


def _delimiter(lines: list[str]) -> str | None:
    """The delimiter that every line has as often as the first one."""
    for candidate in ("\t", "|", ",", ";"):
        counts = {line.count(candidate) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and 0 not in counts:
            return candidate
    return None
