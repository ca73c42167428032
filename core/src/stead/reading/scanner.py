"""The line scanner: counts lines, indexes them, and collects one window, in a single pass and bounded memory."""

import codecs

from stead.reading.index import START, STEP, LineIndex, Position
from stead.reading.newlines import Buffer, count_newlines
from stead.reading.window import WindowCollector
from stead.results import LineRange, LineWindow

__all__ = ["LineScanner"]


class LineScanner:
    r"""Fed with the bytes of a file in order, from its start or from a checkpoint.

    Only `\n` ends a line. Text is UTF-8 with replacement, the same whatever the chunks.
    """

    def __init__(self, window: LineRange | None, index: LineIndex | None = None, *, start: Position = START) -> None:
        """Prepares a scan.

        Args:
            window: What to collect; None only counts.
            index: Extended with what is scanned past its end; None keeps no index.
            start: A checkpoint of `index`, not past the window: where the first fed byte lies.
        """
        self._index = index
        self._collector = None if window is None else WindowCollector(window, line=start.line, column=start.column)
        self._byte, self._line, self._column = start
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unterminated = start.column > 1

    @property
    def page_done(self) -> bool:
        """True if nothing that follows can change the window."""
        return self._collector is not None and self._collector.done

    def feed(self, data: Buffer, size: int | None = None) -> None:
        """Takes the next `size` bytes of the file, which are `data[:size]`; None is all of it."""
        end = len(data) if size is None else size
        start = 0
        while start < end:
            stop = min(end, start + STEP - self._byte % STEP)
            newlines = count_newlines(data, start, stop)
            if self._collector is not None:
                self._collector.feed(data, start, stop, newlines)
            self._advance(data, start, stop, newlines)
            start = stop

    def _advance(self, data: Buffer, start: int, stop: int, newlines: int) -> None:
        tail = start
        if newlines:
            tail = data.rindex(10, start, stop) + 1
            self._line += newlines
            self._column = 1
            self._decoder.reset()
        self._column += self._characters(data[tail:stop])
        self._byte += stop - start
        self._unterminated = data[stop - 1] != 10
        index = self._index
        if index is None or self._byte <= index.covered:
            return
        index.covered = self._byte
        index.newlines = self._line - 1
        index.unterminated = self._unterminated
        if self._byte % STEP == 0:
            # An incomplete character waits in the decoder: the checkpoint goes before it, to a character border.
            waiting = len(self._decoder.getstate()[0])
            index.add(Position(self._byte - waiting, self._line, self._column))

    def _characters(self, piece: Buffer) -> int:
        # Skipping the decoder for ASCII makes giant lines as cheap to count as short ones.
        if piece.isascii() and not self._decoder.getstate()[0]:
            return len(piece)
        return len(self._decoder.decode(piece))

    def total_lines(self) -> int:
        """Returns the number of lines so far: of the whole file once all of it was fed."""
        return self._line - 1 + self._unterminated

    def finish(self, total_lines: int | None) -> LineWindow:
        """Returns the window, after all bytes were fed or as soon as `page_done`.

        Args:
            total_lines: What is known of it.

        Raises:
            ValueError: `start_column` is past the end of its line.
        """
        if self._collector is None:
            raise RuntimeError("this scanner collects no window")
        return self._collector.finish(total_lines)
