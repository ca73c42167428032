"""Runs the caller's redaction line by line, over whole texts and over streams with the same result."""

import re
from collections.abc import Callable

__all__ = ["Redactor"]

_WINDOW = 1 << 20
_NOT_IN_WORD = re.compile(r"[^\w.+/=-]")
_LONGEST_WORD = 4_096


class Redactor:
    """Redacts a text that comes in any pieces. A line longer than 1 MiB is cut, where it can between two words.

    Args:
        redact: Called with each line, without its line end; None changes nothing.
    """

    def __init__(self, redact: Callable[[str], str] | None) -> None:
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
        self._open, self._open_size = [], 0
        return self._line(line) if line else ""

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
