"""Lines out of bytes, in bounded memory: the scanner, the sparse line index, and the page built from both.

`LineScanner` is pure: it is fed bytes and does no I/O, so an async stream and a worker thread use the same one.
"""

from stead.reading.index import STEP, IndexCache, LineIndex, Position
from stead.reading.scanner import LineScanner
from stead.reading.stream import read_lines_of_stream

__all__ = ["STEP", "IndexCache", "LineIndex", "LineScanner", "Position", "read_lines_of_stream"]
