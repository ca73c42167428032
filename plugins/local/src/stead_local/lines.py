"""`read_lines` on this machine: one worker thread, one reused buffer, a cached index."""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from stead.errors import EnvironmentClosed
from stead.reading import STEP, IndexCache, LineIndex, LineScanner, Position
from stead.results import LineRange, LineWindow
from stead_local.errors import BACKEND
from stead_local.pinned import CHUNK, PinnedFile
from stead_local.walk import Root

__all__ = ["Cache", "Stamp", "read_lines"]

_PROBE = 4096
# A file whose time is this close to the scan may have been written again within the clock's own step.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file looked like when it was indexed."""

    size: int
    modified_ns: int
    changed_ns: int
    settled: bool
    ends: bytes
    """Hash of its first and last 4 KiB."""


Cache = IndexCache[Stamp]


def read_lines(
    root: Root, path: str | os.PathLike[str], window: LineRange, cache: Cache, stopped: Callable[[], bool]
) -> LineWindow:
    """Reads a window of lines of one version of a file.

    Args:
        root: What confines the path.
        path: The file.
        window: Which lines.
        cache: Indexes by device and inode; this file's is used, extended or replaced.
        stopped: Asked between blocks; True ends the scan.

    Returns:
        The window.

    Raises:
        ValueError: `start_column` is past the end of its line.
        FileChanged: The file shrank or was rewritten meanwhile.
        EnvironmentClosed: `stopped` said so.
        SteadError: As `read_file`.
    """
    with PinnedFile.open(root, path, "read_lines") as file:
        if not file.size:
            return _page_of(file.read_pseudo(), window)
        key = (file.info.st_dev, file.info.st_ino)
        known = _known_index(file, cache.get(key))
        index = known or LineIndex()
        if index.covered < file.size:
            index = index.copy()
            if window.count_total:
                _scan(file, LineScanner(None, index, start=index.last()), index.last(), CHUNK, stopped)
        start = index.find(window.start, window.start_column)
        scanner = LineScanner(window, None if window.count_total else index, start=start)
        # A page lies within a step or two of its checkpoint: a larger block would mostly read what is not shown.
        _scan(file, scanner, start, STEP, stopped)
        file.check()
        if index is not known:
            cache.put(key, index, _stamp(file))
        return scanner.finish(index.total_lines if index.covered >= file.size else None)


def _scan(file: PinnedFile, scanner: LineScanner, start: Position, block: int, stopped: Callable[[], bool]) -> None:
    buffer = bytearray(min(block, file.size - start.byte))
    at = start.byte
    while at < file.size and not scanner.page_done:
        size = file.read_into(buffer, at)
        if not size:
            break  # a pseudo-file that announces more than it holds; a shrunken one is caught by check
        scanner.feed(buffer, size)
        at += size
        if stopped():
            raise EnvironmentClosed("the environment was closed while lines were read", backend=BACKEND)


def _page_of(data: bytes, window: LineRange) -> LineWindow:
    scanner = LineScanner(window)
    scanner.feed(data)
    return scanner.finish(scanner.total_lines())


def _known_index(file: PinnedFile, entry: tuple[LineIndex, Stamp] | None) -> LineIndex | None:
    if entry is None:
        return None
    index, stamp = entry
    info = file.info
    if info.st_size == stamp.size:
        # The time of modification can be set back, that of change cannot: another one may be a rewrite. A rename or a
        # change of mode costs a scan too.
        if (info.st_mtime_ns, info.st_ctime_ns) != (stamp.modified_ns, stamp.changed_ns):
            return None
        if stamp.settled:
            return index
    # Appended to, or too young to be told by its times: the ends decide.
    return index if info.st_size >= stamp.size and _ends(file, stamp.size) == stamp.ends else None


def _stamp(file: PinnedFile) -> Stamp:
    info = file.info
    return Stamp(
        size=info.st_size,
        modified_ns=info.st_mtime_ns,
        changed_ns=info.st_ctime_ns,
        settled=time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) > _SETTLED_NS,
        ends=_ends(file, info.st_size),
    )


def _ends(file: PinnedFile, size: int) -> bytes:
    first = file.block(0, min(_PROBE, size))
    last = file.block(max(0, size - _PROBE), min(_PROBE, size))
    return hashlib.blake2b(first + last, digest_size=16).digest()
