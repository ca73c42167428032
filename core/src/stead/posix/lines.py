"""`read_lines` on the machine itself: a script finds the page and counts, only the page travels.

The page's text is made by the scanner that all backends share, from the bytes that the script cut out. Where the script
cannot be sure (a column behind characters that are not ASCII, a file that keeps changing), the file is streamed instead.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from stead.environment import PathLike
from stead.paths import split_path
from stead.posix.answers import Facts, raise_status
from stead.posix.calls import Caller
from stead.posix.words import LARGEST_NUMBER
from stead.reading import LineScanner, Position
from stead.results import LineRange, LineWindow

__all__ = ["PosixLines"]

_FILES = 64
_MARKS = 256
_TRIES = 2


@dataclass(slots=True)
class _Known:
    """What is known of one version of a file."""

    version: str = ""
    newlines: int | None = None
    unterminated: bool = False
    blocks: list[tuple[int, int]] = field(default_factory=list)
    """Byte and newlines before it, every 64 MiB."""
    marks: OrderedDict[tuple[int, int], int] = field(default_factory=OrderedDict)
    """Line and column -> byte, where pages have ended."""

    def block_before(self, line: int) -> tuple[int, int]:
        """Returns the last block in which the end of the line before this one may lie."""
        fitting = [block for block in self.blocks if block[1] < line - 1]
        return fitting[-1] if fitting else (0, 0)

    def mark(self, line: int, column: int, byte: int) -> None:
        self.marks[line, column] = byte
        while len(self.marks) > _MARKS:
            self.marks.popitem(last=False)

    @property
    def total_lines(self) -> int | None:
        return None if self.newlines is None else self.newlines + self.unterminated


@dataclass(frozen=True, slots=True)
class _Found:
    before: Facts
    after: Facts
    newlines: int | None
    unterminated: bool
    begin: int
    blocks: list[tuple[int, int]]
    data: bytes


class PosixLines:
    """Pages of files, and what was learned of the files that were read last."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def clear(self) -> None:
        """Forgets everything."""
        self._known.clear()

    async def read(self, path: PathLike, window: LineRange) -> LineWindow | None:
        """Reads a window of lines where the file is.

        Returns:
            The window; None where a stream must tell.

        Raises:
            SteadError: As `Environment.read_file`.
        """
        text = split_path(path).text
        if split_path(path).names_directory:
            return None  # which error that is, is decided by the stream
        for _ in range(_TRIES):
            known = self._of(text)
            found = await self._ask(text, window, known)
            if found is None:
                return None
            if found.before.same_version(found.after) or found.after.grew_from(found.before):
                return self._page(window, found, self._learned(known, found))
        return None

    def _of(self, path: str) -> _Known:
        known = self._known.setdefault(path, _Known())
        self._known.move_to_end(path)
        while len(self._known) > _FILES:
            self._known.popitem(last=False)
        return known

    async def _ask(self, path: str, window: LineRange, known: _Known) -> _Found | None:
        byte, lines = known.block_before(window.start)
        at = known.marks.get((window.start, window.start_column))
        reply = await self._caller.call(
            "lines",
            {
                "PATH": path,
                "START": str(min(window.start, LARGEST_NUMBER)),
                "END": "" if window.end is None else str(min(window.end, LARGEST_NUMBER)),
                "COLUMN": str(min(window.start_column, LARGEST_NUMBER)),
                "CHARS": str(min(window.max_chars, LARGEST_NUMBER >> 3)),
                "COUNT": "1" if window.count_total else "",
                "KNOWN": known.version,
                "TOTAL": "" if known.newlines is None else str(known.newlines),
                "BYTE": str(byte),
                "LINES": str(lines),
                "AT": "" if at is None else str(at),
            },
            wait=120.0,
        )
        if reply.status in ("distrust", "empty"):
            return None
        if reply.status != "ok":
            raise_status(reply.status, backend=self._caller.backend, operation="read_lines", path=path)
        (before, after, total, last, begin, length, blocks), data = reply.fields(7)
        numbers = [int(number) for number in blocks.split()]
        found = _Found(
            before=Facts.of(before),
            after=Facts.of(after or before),
            newlines=int(total[:-1]) if total.endswith(".") else None,
            unterminated=last.strip() == "0",
            begin=int(begin),
            blocks=list(zip(numbers[::2], numbers[1::2], strict=True)),
            data=data,
        )
        return found if len(data) == int(length) else None

    def _learned(self, known: _Known, found: _Found) -> _Known:
        if known.version != found.before.version:
            known.version, known.newlines, known.blocks = found.before.version, None, []
            known.marks.clear()
        known.unterminated = found.unterminated
        if found.newlines is not None:
            known.newlines = found.newlines
        known.blocks = known.blocks or found.blocks
        return known

    def _page(self, window: LineRange, found: _Found, known: _Known) -> LineWindow | None:
        at_end = found.begin + len(found.data) >= found.before.size
        begins_late = known.total_lines is not None and window.start > known.total_lines
        if window.start_column > 1 and not begins_late and found.data[:1] in (b"", b"\n"):
            return None  # the line may be shorter than that: the stream knows its length
        start = Position(found.begin, window.start, window.start_column)
        scanner = LineScanner(window, None, start=start)
        scanner.feed(found.data)
        if not scanner.page_done and not at_end:
            return None
        total = known.total_lines
        if total is None and not scanner.page_done:
            total = scanner.total_lines()  # it came to the end of the file
        page = scanner.finish(total)
        self._remember(known, found, page)
        return page

    def _remember(self, known: _Known, found: _Found, page: LineWindow) -> None:
        """Notes the byte at which the next page begins, where the text tells it: not after undecodable bytes."""
        line, column = page.next_start_line, page.next_start_column
        if line is None or column is None or (column == 1 and not page.last_line_complete):
            return
        shown = page.lines.encode() + (b"\n" if column == 1 else b"")
        if found.data.startswith(shown) and b"\xef\xbf\xbd" not in shown:
            known.mark(line, column, found.begin + len(shown))
