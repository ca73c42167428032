r"""The search of Grep. It imports nothing of stead, since it runs as a program of its own: `python -I -S line_search.py`.

Why a program: Python's `re` holds the interpreter lock for as long as one match takes, which a careless pattern makes
for ever, and a thread cannot be stopped. Measured: `(a+)+$` on 26 characters stops all threads for 9 s.

It reads frames from stdin: one byte for the kind, four for the length, and the payload. `P` is the request (JSON) and
is answered by `+` if the pattern is one; `F` starts the file of that name; `D` is data of that file, in order. At the
end of stdin, or if the pattern is none, it writes one JSON answer. A frame that takes too long is given up, and with it
the rest of its file.
"""

import codecs
import json
import re
import signal
import struct
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, BinaryIO

__all__ = [
    "CPU_SECONDS",
    "EXCERPT",
    "FRAME",
    "FRAME_BYTES",
    "LONG_LINE",
    "OVERLAP",
    "READY",
    "LineSearch",
    "serve",
]

FRAME = struct.Struct("<cI")
FRAME_BYTES = 1 << 20
"""Most bytes in one frame."""
READY = b"+"
CPU_SECONDS = 2.0
"""Processor time for one frame; a file on which the pattern needs more is given up."""
LONG_LINE = 1 << 20
"""Bytes. A longer line is searched in pieces of this size, which overlap so that `OVERLAP` characters before and after the
start of a match are seen wherever it lies."""
OVERLAP = 1 << 16
EXCERPT = 400
"""Most characters of a line that are shown."""
_BEFORE_MATCH = 100
_AFTER = "\ufffd"
# A carriage return, or `\r` of which the backslash is not itself escaped.
_RETURN = re.compile(r"\r|(?<!\\)(?:\\\\)*\\r")
_BOM = "\ufeff"


class LineSearch:
    """Searches files line by line, decoded as ReadFile does it, in bounded memory."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, keep: int = 100) -> None:
        r"""Compiles the pattern.

        Args:
            pattern: As in `re`. It is tried on each line without its `\n`; a `\r` before that is left out too, unless
                the pattern names `\r` itself.
            ignore_case: Upper and lower case are equal.
            keep: Most matching lines to keep; all are counted.

        Raises:
            re.error: It is no pattern.
            RecursionError: It is nested too deeply.
            OverflowError: A repeat count is too large.
        """
        self._search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
        self._with_return = _RETURN.search(pattern) is not None
        self._keep = keep
        self._file: str | None = None
        self._file_matches = False
        self._line = 1
        self.matches: list[dict[str, Any]] = []
        self.count = 0
        self.files = 0
        self.slow: list[str] = []
        self._start_line()

    def begin(self, file: str) -> None:
        """Starts the next file."""
        self.end()
        self._file, self._file_matches, self._line = file, False, 1
        self._start_line()

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the file."""
        if self._file is None:
            return
        first, last = data.find(b"\n"), data.rfind(b"\n")
        self._grow(data if first < 0 else data[:first])
        if first < 0:
            return
        self._finish_line()
        if first < last:
            self._lines(data[first + 1 : last])
        self._grow(data[last + 1 :])

    def end(self) -> None:
        """Ends the file; what follows its last newline is a line."""
        if self._file is not None and (self._tail or self._in_pieces):
            self._finish_line()
        self._file = None

    def give_up(self) -> None:
        """Leaves the rest of the file unsearched, since the pattern takes too long on it."""
        self.slow += [] if self._file is None else [self._file]
        self._file = None

    def answer(self) -> dict[str, Any]:
        """`matches` (path, line, column, text), `count` of lines, `files` that have one, `slow` ones given up."""
        return {"matches": self.matches, "count": self.count, "files": self.files, "slow": self.slow}

    def _start_line(self) -> None:
        self._tail = bytearray()
        self._in_pieces = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before = ""  # the end of the piece before
        self._column = 1  # where `_before`, or else the line, starts
        self._found = False

    def _lines(self, block: bytes) -> None:
        text = block.decode("utf-8", "replace")
        if not self._with_return and b"\r" in block:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        for line, part in enumerate(text.split("\n"), self._line):
            self._line = line
            match = self._search(part)
            if match is not None:
                self._record(part, match.start())
        self._line += 1

    def _grow(self, data: bytes) -> None:
        self._tail += data
        while len(self._tail) > LONG_LINE:
            piece = bytes(self._tail[:LONG_LINE])
            del self._tail[:LONG_LINE]
            self._piece(self._decoder.decode(piece), last=False)

    def _finish_line(self) -> None:
        self._piece(self._decoder.decode(bytes(self._tail), final=True), last=True)
        self._line += 1
        self._start_line()

    def _piece(self, text: str, *, last: bool) -> None:
        if self._line == 1 and not self._in_pieces and text.startswith(_BOM):
            text, self._column = text[1:], 2
        joined = self._before + text
        self._in_pieces |= not last
        if not self._found:
            if last and not self._with_return:
                joined = joined.removesuffix("\r")
            # `^` must not match at the start of a later piece, nor `$` at the end of an earlier one: there is a
            # character before and after. What starts in the last `OVERLAP` characters is left to the next piece, which
            # sees what follows it.
            match = self._search(joined if last else joined + _AFTER, OVERLAP if self._before else 0)
            if match is not None and (last or match.start() < len(joined) - OVERLAP):
                self._found = True
                self._record(joined, match.start())
        self._before = joined[-2 * OVERLAP :]
        self._column += len(joined) - len(self._before)

    def _record(self, text: str, start: int) -> None:
        self.count += 1
        self.files += not self._file_matches
        self._file_matches = True
        if len(self.matches) >= self._keep:
            return
        match: dict[str, Any] = {"path": self._file, "line": self._line, "column": self._column + start}
        if len(text) <= EXCERPT and not self._in_pieces:
            match["text"] = text
        else:
            at = max(0, min(start - _BEFORE_MATCH, len(text) - EXCERPT))
            match.update(text=text[at : at + EXCERPT], text_column=self._column + at)
        self.matches.append(match)


class _TooSlowError(Exception):
    """One frame took more than `CPU_SECONDS`."""


def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Answers one request."""
    if hasattr(signal, "SIGVTALRM"):
        signal.signal(signal.SIGVTALRM, _interrupt)
    header = stdin.read(FRAME.size)
    request = json.loads(stdin.read(FRAME.unpack(header)[1]))
    try:
        _limit(CPU_SECONDS)
        search = LineSearch(**request)
        _limit(0)
    except (re.error, RecursionError, OverflowError, _TooSlowError) as error:
        stdout.write(json.dumps({"error": str(error) or "it takes too long to compile"}).encode())
        return
    stdout.write(READY)
    stdout.flush()
    while len(header := stdin.read(FRAME.size)) == FRAME.size:
        kind, size = FRAME.unpack(header)
        payload = stdin.read(size)
        if kind == b"F":
            _patiently(search, search.end)
            search.begin(payload.decode("utf-8", "surrogatepass"))
        else:
            _patiently(search, search.feed, payload)
    _patiently(search, search.end)
    stdout.write(json.dumps(search.answer()).encode())


def _patiently(search: LineSearch, step: Callable[..., None], *data: bytes) -> None:
    try:
        _limit(CPU_SECONDS)
        step(*data)
        _limit(0)
    except _TooSlowError:
        _limit(0)
        search.give_up()


def _limit(seconds: float) -> None:
    # The second timer ends this process if the first is not heard. Windows has neither.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        signal.setitimer(signal.ITIMER_PROF, 3 * seconds)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # `re` looks for signals while it matches, in a main thread, and stops at an exception of their handler.
    raise _TooSlowError


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
    sys.stdout.flush()
