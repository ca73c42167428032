"""A regular file, opened once and pinned: what is read of it is one version, or `FileChanged` is raised."""

import errno
import os
import stat
import threading
import time
from typing import Self

from stead.errors import EnvironmentClosed, FileChanged, IsADirectory, NotADirectory, Unsupported
from stead_local.errors import BACKEND, error, missing, translated
from stead_local.walk import FILE_FLAGS, Place, Root, Swapped

__all__ = ["CHUNK", "FileStream", "PinnedFile", "open_regular", "refuse_other_than_file"]

CHUNK = 1 << 20
"""Bytes of one read. It also bounds how long a scan holds the interpreter lock."""

_PROBE = 4096
_PSEUDO_FILE_LIMIT = 64 << 20
_SPECIAL = {stat.S_IFIFO: "FIFO", stat.S_IFCHR: "device", stat.S_IFBLK: "device", stat.S_IFSOCK: "socket"}


class PinnedFile:
    """Yields exactly the bytes that the file had when it was opened.

    Growth is no change. A file replaced by rename is read to the end of its old content. One that shrank, or was
    rewritten at the same size (seen by its time), raises `FileChanged`; so does one that grew after the last bytes
    delivered were overwritten. An overwrite of other bytes together with growth is not seen.
    """

    def __init__(self, descriptor: int, path: str, operation: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._operation = operation
        info = os.fstat(descriptor)
        self.info = info
        """`fstat` at open."""
        self.size = info.st_size
        """Bytes to deliver; 0 also for files such as those in `/proc`, which are read by `read_pseudo`."""
        self._seen = (info.st_size, info.st_mtime_ns)
        self._probe = (0, b"")

    @staticmethod
    def open(root: Root, path: str | os.PathLike[str], operation: str) -> "PinnedFile":
        """Opens a file below the root for reading.

        Raises:
            FileMissing: Nothing is there.
            IsADirectory: It is a directory.
            Unsupported: It is a FIFO, device or socket.
            SteadError: As `Root.at`.
        """

        def opened(place: Place) -> "PinnedFile":
            refuse_other_than_file(place, operation)
            if place.info is None:
                raise missing(operation, place.path.text)
            return PinnedFile(open_regular(place, os.O_RDONLY), place.path.text, operation)

        return root.at(path, operation, opened)

    def close(self) -> None:
        """Releases the descriptor."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset` of the pinned content, and checks that it is still that.

        Raises:
            FileChanged: It is not.
        """
        with translated(self._operation, self._path):
            data = os.pread(self._descriptor, min(size, self.size - offset), offset)
        self.check()
        self._remember(offset, data)
        return data

    def read_into(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Reads into a buffer that is used again and again; `check` is the caller's, at the end."""
        with translated(self._operation, self._path):
            size = os.preadv(self._descriptor, [buffer], offset)
        return min(size, max(0, self.size - offset))

    def read_all(self) -> bytes:
        """Reads the pinned content whole.

        Raises:
            FileChanged: It changed meanwhile.
            Unsupported: A file without a size held more than 64 MiB.
        """
        if not self.size:
            return self.read_pseudo()
        first = self.read(0, self.size)
        pieces = [first]
        done = len(first)
        while done < self.size:  # one read gives 2 GiB at most
            piece = self.read(done, self.size - done)
            if not piece:
                break
            pieces.append(piece)
            done += len(piece)
        return first if len(pieces) == 1 else b"".join(pieces)

    def read_pseudo(self) -> bytes:
        """Reads a file of size 0 to its end, at most 64 MiB: files in `/proc` have content but no size.

        Raises:
            Unsupported: It is longer, or would block.
        """
        pieces: list[bytes] = []
        done = 0
        with translated(self._operation, self._path):
            while piece := os.pread(self._descriptor, CHUNK, done):
                pieces.append(piece)
                done += len(piece)
                if done > _PSEUDO_FILE_LIMIT:
                    text = f"{self._path!r} has no size and more than 64 MiB; read it with a command"
                    raise error(Unsupported, text, self._operation, self._path)
            # A real file that was empty at open and grew since: its pinned content is nothing.
            return b"" if os.fstat(self._descriptor).st_size else b"".join(pieces)

    def check(self) -> None:
        """Compares the file with what was seen of it last.

        Raises:
            FileChanged: It shrank, or was rewritten.
        """
        info = os.fstat(self._descriptor)
        now = (info.st_size, info.st_mtime_ns)
        # A writer that appends sets the time first and the size after: give it a moment before calling it a rewrite.
        for _ in range(3):
            if now[0] != self._seen[0] or now[1] == self._seen[1]:
                break
            time.sleep(0.001)
            info = os.fstat(self._descriptor)
            now = (info.st_size, info.st_mtime_ns)
        if now == self._seen:
            return
        if now[0] <= self._seen[0]:
            self._changed("shrank" if now[0] < self._seen[0] else "was rewritten")
        place, data = self._probe
        if data and os.pread(self._descriptor, len(data), place) != data:
            self._changed("was rewritten")
        self._seen = now

    def block(self, offset: int, size: int) -> bytes:
        """Reads raw bytes without any check, to compare them with another time's."""
        return os.pread(self._descriptor, size, offset)

    def _remember(self, offset: int, data: bytes) -> None:
        if data:
            self._probe = (offset + max(0, len(data) - _PROBE), data[-_PROBE:])

    def _changed(self, how: str) -> None:
        text = f"{self._path!r} {how} while it was read; read it again when it is no longer written to"
        raise error(FileChanged, text, self._operation, self._path)


class FileStream:
    """The chunks of a file for `read_file_stream`: opened by the first, closed once, from any thread."""

    def __init__(self, root: Root, path: str | os.PathLike[str], offset: int, length: int | None) -> None:
        self._root = root
        self._path = path
        self._at = offset
        self._left = length
        self._file: PinnedFile | None = None
        self._pseudo: bytes | None = None
        self._closed = False
        self._lock = threading.Lock()

    def next(self) -> bytes:
        """Returns the next chunk, empty at the end.

        Raises:
            EnvironmentClosed: The environment closed this stream.
            SteadError: As `read_file`.
        """
        with self._lock:
            if self._closed:
                raise EnvironmentClosed("the environment was closed while a file was streamed", backend=BACKEND)
            if self._file is None:
                self._file = PinnedFile.open(self._root, self._path, "read_file_stream")
                if not self._file.size:
                    self._pseudo = self._file.read_pseudo()
            size = CHUNK if self._left is None else min(CHUNK, self._left)
            data = self._piece(self._file, size)
            self._at += len(data)
            if self._left is not None:
                self._left -= len(data)
            return data

    def _piece(self, file: PinnedFile, size: int) -> bytes:
        if self._pseudo is not None:
            return self._pseudo[self._at : self._at + size]
        return file.read(self._at, size) if size and self._at < file.size else b""

    def close(self) -> None:
        """Releases the file; idempotent."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None


def refuse_other_than_file(place: Place, operation: str) -> None:
    """Lets pass a regular file, or nothing at all.

    Raises:
        IsADirectory: It is a directory.
        NotADirectory: It is a file whose path ends in `/`.
        Unsupported: It is a FIFO, device or socket.
    """
    path = place.path.text
    if place.kind == stat.S_IFDIR:
        raise error(IsADirectory, f"{path!r} is a directory, not a file", operation, path)
    if place.kind in _SPECIAL:
        kind = _SPECIAL[place.kind]
        raise error(Unsupported, f"{path!r} is a {kind}; only regular files can be used", operation, path)
    if place.info is not None and place.path.names_directory:
        raise error(NotADirectory, f"{path!r} ends in '/' but is a file", operation, path)


def open_regular(place: Place, mode: int) -> int:
    """Opens the regular file at a place; what stands there now, not what stood there a moment ago, decides.

    Raises:
        Swapped: Something else stands there now.
        OSError: As `os.open`.
    """
    try:
        descriptor = os.open(place.name, mode | FILE_FLAGS, dir_fd=place.parent)
    except FileNotFoundError:
        raise Swapped from None
    except OSError as reason:
        if reason.errno == errno.ELOOP:
            raise Swapped from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Swapped
    return descriptor
