"""Collecting the text of one window out of the bytes that pass by."""

import codecs

from stead.reading.newlines import Buffer, count_newlines, nth_newline
from stead.results import LineRange, LineWindow

__all__ = ["WindowCollector"]

# Two characters past the budget tell whether a cut falls on a line's end, and whether anything follows it.
_LOOKAHEAD = 2
_PIECE = 1 << 16


class WindowCollector:
    """Takes the text of a `LineRange` out of consecutive pieces of a file, and stops by itself when it has enough.

    Memory is bounded by `max_chars`, whatever the length of a line.
    """

    def __init__(self, window: LineRange, *, line: int = 1, column: int = 1) -> None:
        """Starts at the given place of the file, which must not be past the start of the window."""
        self._window = window
        self._line = line
        self._skip = window.start_column - (column if line == window.start else 1)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._size = 0
        self._newlines_left = None if window.end is None else window.end - window.start + 1
        self._ended = False  # the newline that ends the window was met
        self.done = False
        """True if nothing that follows in the file can change the window."""

    def feed(self, data: Buffer, start: int, end: int, newlines: int) -> None:
        r"""Takes `data[start:end]`, which holds `newlines` `\n` and follows what was fed before."""
        if self.done or start == end:
            return
        to_skip = self._window.start - self._line
        if to_skip > newlines:
            self._line += newlines
            return
        if to_skip > 0:
            start = nth_newline(data, to_skip, start, end)
            self._line = self._window.start
        while start < end and not self.done:
            start = self._skip_columns(data, start, end) if self._skip > 0 else self._collect(data, start, end)

    def finish(self, total_lines: int | None) -> LineWindow:
        """Returns the window, after the end of the file or as soon as `done`.

        Raises:
            ValueError: `start_column` is past the end of its line.
        """
        if not self.done:
            self._end_of_file()
        window, text = self._window, "".join(self._parts)
        line_exists = total_lines is None or window.start <= total_lines
        if window.start_column > 1 and line_exists and (not text or text[0] == "\n"):
            length = window.start_column - 1 - max(self._skip, 0)
            raise ValueError(
                f"start_column {window.start_column} is past the end of line {window.start}, which has {length} characters"
            )
        closing_newline = not self._ended and text.endswith("\n")
        if len(text) - closing_newline > window.max_chars:
            return self._cut(text, total_lines)
        if not text and not self._ended:
            return LineWindow(lines="", first_line=window.start, last_line=window.start - 1, total_lines=total_lines)
        text = text.removesuffix("\n") if closing_newline else text
        last_line = window.start + text.count("\n")
        complete = self._ended or closing_newline
        more = self.done or not complete
        return LineWindow(
            lines=text,
            first_line=window.start,
            last_line=last_line,
            total_lines=total_lines,
            last_line_complete=complete,
            next_start_line=last_line + complete if more else None,
            next_start_column=1 if more else None,
        )

    def _end_of_file(self) -> None:
        tail = self._decoder.decode(b"", final=True)
        if self._skip > 0:
            self._skip -= len(tail)
        else:
            self._keep(tail)

    def _skip_columns(self, data: Buffer, start: int, end: int) -> int:
        stop = min(end, start + _PIECE)
        newline = data.find(10, start, stop)
        stop = newline if newline >= 0 else stop
        text = self._decoder.decode(data[start:stop], newline >= 0)
        self._skip -= len(text)
        if self._skip < 0:
            self._keep(text[self._skip :])
            self._skip = 0
        elif newline >= 0:
            self.done = True  # the line is shorter than start_column
        return stop

    def _collect(self, data: Buffer, start: int, end: int) -> int:
        if self._ended:  # one more byte exists: something follows the window
            self.done = True
            return start
        missing = self._window.max_chars + _LOOKAHEAD - self._size
        stop = min(end, start + min(4 * missing, _PIECE))
        if self._newlines_left is not None:
            found = count_newlines(data, start, stop)
            if found >= self._newlines_left:
                stop = nth_newline(data, self._newlines_left, start, stop)
                self._keep(self._decoder.decode(data[start : stop - 1], final=True))
                self._ended = True
                return stop
            self._newlines_left -= found
        self._keep(self._decoder.decode(data[start:stop]))
        return stop

    def _keep(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if self._size >= self._window.max_chars + _LOOKAHEAD:
            self.done = True

    def _cut(self, text: str, total_lines: int | None) -> LineWindow:
        window = self._window
        shown, following = text[: window.max_chars], text[window.max_chars]
        at_line_end = following == "\n" or shown.endswith("\n")
        if following != "\n":
            shown = shown.removesuffix("\n")
        last_line = window.start + shown.count("\n")
        return LineWindow(
            lines=shown,
            first_line=window.start,
            last_line=last_line,
            total_lines=total_lines,
            last_line_complete=at_line_end,
            truncated=True,
            next_start_line=last_line + at_line_end,
            next_start_column=1 if at_line_end else self._column_after(shown),
        )

    def _column_after(self, shown: str) -> int:
        last_newline = shown.rfind("\n")
        if last_newline >= 0:
            return len(shown) - last_newline
        return self._window.start_column + len(shown)
