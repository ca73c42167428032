"""Runs the caller's redaction line by line, over whole texts and over streams with the same result."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from stead.reducer.media import is_payload
from stead.reducer.messages.blocks import UNREAD, json_text
from stead.reducer.pieces import Content
from stead.reducer.preview import clean_text

__all__ = ["Redact", "Redactor", "redacted", "redacted_content", "redacted_data"]

Redact = Callable[[str], str] | None
"""The caller's redaction of a line; None changes nothing."""
_NAMES = UNREAD | {"role", "name", "call_id", "tool_call_id", "tool_use_id"}
_ARGUMENTS = frozenset({"arguments", "args", "input"})
_WINDOW = 1 << 20
_NOT_IN_WORD = re.compile(r"[^\w.+/=-]")
_LONGEST_WORD = 4_096


class Redactor:
    """Redacts a text that comes in any pieces. A line longer than 1 MiB is cut, where it can between two words.

    Args:
        redact: Called with each line, without its line end; None changes nothing.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._open: list[str] = []
        self._open_size = 0

    def feed(self, text: str) -> str:
        """The redacted text that is certain now: complete lines.

        Args:
            text: The next piece.
        """
        if self._redact is None:
            return text
        self._open.append(text)
        self._open_size += len(text)
        if "\n" not in text and self._open_size < _WINDOW:
            return ""
        *lines, rest = "".join(self._open).split("\n")
        done = [f"{self._line(line)}\n" for line in lines]
        while len(rest) >= _WINDOW:
            cut = _between_words(rest)
            done.append(self._redact(rest[:cut]))
            rest = rest[cut:]
        self._open, self._open_size = [rest], len(rest)
        return "".join(done)

    def finish(self) -> str:
        """The last line, if no line end closed it."""
        line = "".join(self._open)
        done = self._line(line) if line else ""
        self._open, self._open_size = [], 0
        return done

    def held(self) -> str:
        """What came in and did not go out: also if the caller's function raised, and then not redacted."""
        return "".join(self._open)

    def whole(self, text: str) -> str:
        """A text that is there as a whole, redacted.

        Args:
            text: All of it.
        """
        return self.feed(text) + self.finish()

    def _line(self, line: str) -> str:
        redact = self._redact
        if redact is None:
            return line
        done = []
        while len(line) >= _WINDOW:
            cut = _between_words(line)
            done.append(redact(line[:cut]))
            line = line[cut:]
        return "".join([*done, redact(line)])


def _between_words(line: str) -> int:
    """Where to cut a long line so that no secret is parted: after the last character that is in no word or token."""
    tail = line[_WINDOW - _LONGEST_WORD : _WINDOW]
    found = [match.end() for match in _NOT_IN_WORD.finditer(tail)]
    return _WINDOW - _LONGEST_WORD + found[-1] if found else _WINDOW


def redacted(redact: Redact, text: str) -> str:
    """What may be stored of a text: redacted, and with lone surrogates replaced.

    Args:
        redact: The caller's redaction.
        text: What is to be stored.

    Raises:
        Exception: What `redact` raised.
    """
    try:
        return clean_text(Redactor(redact).whole(text))
    except StopIteration as error:  # which no thread can hand on to its loop
        raise RuntimeError("the redaction raised StopIteration") from error


def redacted_content(redact: Redact, content: Content) -> Content:
    """As `redacted`; bytes are redacted too if they are a text in UTF-8.

    Args:
        redact: The caller's redaction.
        content: What is to be stored.

    Raises:
        Exception: What `redact` raised.
    """
    if isinstance(content, str):
        return redacted(redact, content)
    try:
        text = content.decode() if redact is not None else None
    except UnicodeDecodeError:
        text = None
    return content if text is None else redacted(redact, text).encode()


def redacted_data(redact: Redact, value: Any, *, naming: str = "", messages: bool = False) -> Any:
    """Plain data with each text in it redacted by itself, also inside a text that is JSON, so that it stays what it is.

    Args:
        redact: The caller's redaction.
        value: Strings, lists, dicts. Anything else in it stays.
        naming: Lines with this path in it stay: nobody would find the offload again.
        messages: True for blocks and messages: their types, ids, names, signatures and payloads stay.
    """
    if redact is None:
        return value
    line = redact if not naming else partial(_line_unless, redact, naming)
    return _redacted_data(Redactor(line), value, messages)


def _line_unless(redact: Callable[[str], str], naming: str, line: str) -> str:
    return line if naming in line else redact(line)


def _redacted_data(redactor: Redactor, value: Any, messages: bool) -> Any:
    if isinstance(value, str):
        inner = _parsed(value)
        if inner is None:
            return redactor.whole(value)
        done = _redacted_data(redactor, inner, messages=False)
        return value if done == inner else json_text(done)
    if isinstance(value, list):
        return [_redacted_data(redactor, item, messages) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item
        if messages and (key in _NAMES or is_payload(key, item))
        else _redacted_data(redactor, item, messages and key not in _ARGUMENTS)
        for key, item in value.items()
    }


def _parsed(text: str) -> Any:
    """The object or list that a text is; None if it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
