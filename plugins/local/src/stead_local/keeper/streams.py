"""The output of a command: what is shown of it, and the file that holds all of it."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Input", "Output", "Spill", "SpillPlace", "new_buffer"]

_PIECE = 1 << 20
"""Most bytes of one read, and of a pipe."""
_LIVE_PIECE = 256 << 10
"""Bytes of the pipe of a stream that is forwarded: they wait in memory at both ends for a slow reader."""
_FEED = 64 << 10
"""Most bytes of one write to stdin."""
_HEAVY = 1 << 20
"""A stream that has written this much gets a larger pipe: the system allows a user only some of those."""


class SpillPlace:
    """Where the full streams of one command go, made when the first one needs it.

    Args:
        root: Absolute path of a folder that exists.
        folders: The way down from it. The last but one is the state folder, which gets a `.gitignore` of `*`.
        name: File name without its suffix.
        json_path: The path without its suffix as it stands in a JSON text.
    """

    def __init__(self, root: str, folders: list[str], name: str, json_path: str) -> None:
        self._root = root
        self._folders = folders
        self.name = name
        self.json_path = json_path

    def path(self, suffix: str) -> str:
        """The absolute path of a file here."""
        return "/".join([self._root.rstrip("/"), *self._folders, self.name + suffix])

    def open_folder(self) -> int:
        """Opens the folder, making it if need be. Links on the way are refused: they may lead out of the root.

        Raises:
            OSError: It cannot be made or entered.
        """
        fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for depth, folder in enumerate(self._folders):
                below = _open_or_make(fd, folder)
                os.close(fd)
                fd = below
                if depth == len(self._folders) - 2:
                    _write_new(fd, ".gitignore", b"*\n")
        except BaseException:
            os.close(fd)
            raise
        return fd


class Spill:
    """The file that holds all of one stream; its end (disk full, limit) is an entry in the result, not an error.

    Beside it stands a record, from before its first byte, so that whatever happens it can be found and removed.
    """

    def __init__(self, place: SpillPlace, suffix: str, limit: int) -> None:
        self._place = place
        self._suffix = suffix
        self._limit = limit
        self._fds: list[int] = []
        """Folder, record, file; empty until something is spilled."""
        self._created = ""
        self.size = 0
        self.error: str | None = None

    def write(self, data: memoryview) -> None:
        """Appends, until the first error."""
        if self.error is not None:
            return
        try:
            if not self._fds:
                self._open()
            room = self._limit - self.size
            part = data[:room]
            while part:
                written = os.write(self._fds[-1], part)
                self.size += written
                part = part[written:]
            if len(data) > room:
                self.error = f"the limit of {self._limit} bytes for a spill file was reached"
        except OSError as error:
            self.error = _reason(error)

    def _open(self) -> None:
        folder = self._place.open_folder()
        self._fds.append(folder)
        self._created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        self._fds.append(os.open(self._name + ".json", flags, 0o600, dir_fd=folder))
        self._write_record(complete=False)
        # Readable too: a command may remove it, and then it is written once more.
        self._fds.append(os.open(self._name, flags & ~os.O_WRONLY | os.O_RDWR, 0o600, dir_fd=folder))

    @property
    def _name(self) -> str:
        return self._place.name + self._suffix

    def _write_record(self, *, complete: bool) -> None:
        # By hand: `json` would take a megabyte of each keeper. Over the old text, which a full disk does not prevent.
        stream = "stdout" if self._suffix == ".out" else "stderr"
        record = (
            f'{{"kind": "spill", "id": "{self._place.name}", "stream": "{stream}", '
            f'"path": "{self._place.json_path}{self._suffix}", "size": {self.size}, '
            f'"complete": {"true" if complete else "false"}, "created": "{self._created}"}}\n'
        ).encode()
        os.pwrite(self._fds[1], record, 0)
        os.ftruncate(self._fds[1], len(record))

    def keep(self, total: int) -> str | None:
        """Ends the file and completes its record.

        Args:
            total: Bytes of the stream, in the file or not.

        Returns:
            The file's absolute path; None if there is nothing in it.
        """
        if not self.size:
            self.discard()
            return None
        if not self._is_in_place():
            try:
                self._put_back()
            except OSError as error:
                self.error = f"the command removed the spill file, and it cannot be put back: {_reason(error)}"
                self.discard()
                return None
        try:
            self._write_record(complete=self.size == total)
        except OSError as error:
            self.error = self.error or f"its record is not complete: {_reason(error)}"
        self._close()
        return self._place.path(self._suffix)

    def _is_in_place(self) -> bool:
        """Says whether the file and its record are where they were made: a command may remove all that is ignored."""
        for suffix, fd in (("", self._fds[2]), (".json", self._fds[1])):
            try:
                there, ours = os.lstat(self._place.path(self._suffix + suffix)), os.fstat(fd)
            except OSError:
                return False
            if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
                return False
        return True

    def _put_back(self) -> None:
        """Writes file and record once more, from the descriptor of the file that was removed.

        Raises:
            OSError: They cannot be made, or there is no room.
        """
        removed, self._fds = self._fds, []
        try:
            for name in (self._name, self._name + ".json"):
                _unlink(name, removed[0])  # one of both may be left
            self._open()
            offset = 0
            while piece := os.pread(removed[2], _PIECE, offset):
                offset += os.pwrite(self._fds[2], piece, offset)
        finally:
            for fd in removed:
                os.close(fd)

    def discard(self) -> None:
        """Removes file and record: nobody will learn their names."""
        for name in (self._name, self._name + ".json") if self._fds else ():
            _unlink(name, self._fds[0])
        self._close()

    def _close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())


class Output:
    """One stream of a command: read from its pipe, kept in part, spilled in full past the limit.

    Args:
        fd: The reading end of the pipe; closed at its end.
        limit: Most bytes to keep in memory and show.
        spill: Takes the whole stream once it is longer.
        buffer: Scratch space for one read, shared by the streams of a keeper.
        forward: Called with each piece, or None.
    """

    def __init__(
        self, fd: int, *, limit: int, spill: Spill, buffer: mmap, forward: Callable[[bytes], None] | None
    ) -> None:
        self.fd = fd
        self.total = 0
        """Bytes that the command wrote."""
        self.taken = 0
        """Bytes read from the pipe, also those thrown away."""
        self.spill = spill
        self._limit = limit
        self._forward = forward
        self._head_size = limit // 2
        self._tail_size = limit - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._dropping = False
        self._buffer = buffer
        os.set_blocking(fd, False)

    @property
    def open(self) -> bool:
        """True until the end of the pipe was read."""
        return self.fd >= 0

    @property
    def cut(self) -> bool:
        """True if the stream is longer than the limit."""
        return self.total > self._limit

    def shown(self) -> tuple[bytes, bytes]:
        """Returns head and tail; the tail is empty unless the stream was cut."""
        if not self.cut:
            return bytes(self._head), b""
        return bytes(self._head), bytes(self._tail[len(self._tail) - self._tail_size :])

    def waiting(self) -> int:
        """Bytes that are in the pipe now."""
        if not self.open:
            return 0
        (size,) = struct.unpack("i", fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)))
        return int(size)

    def read(self) -> None:
        """Takes one piece from the pipe if one is there; closes it at its end."""
        try:
            size = os.readv(self.fd, [self._buffer])
        except (BlockingIOError, InterruptedError):
            return
        if size == 0:
            self.close()
            return
        self.taken += size
        if not self._dropping:
            with memoryview(self._buffer) as view:
                self._take(view[:size])

    def add(self, text: bytes) -> None:
        """Adds text of our own, as if the command had written it."""
        self._take(memoryview(text))

    def _take(self, data: memoryview) -> None:
        was = self.total
        self.total += len(data)
        if was <= _HEAVY < self.total:
            _enlarge_pipe(self.fd, _PIECE if self._forward is None else _LIVE_PIECE)
        if self._forward is not None:
            self._forward(bytes(data))
        if not self.cut:
            self._head += data
            return
        if was <= self._limit:
            self._start_cutting()
        self.spill.write(data)
        # The piece that crosses the limit may be the first one: its beginning belongs to the head.
        missing = self._head_size - len(self._head)
        self._head += data[:missing]
        self._add_to_tail(data[missing:])

    def _start_cutting(self) -> None:
        kept = memoryview(bytes(self._head))
        self.spill.write(kept)
        del self._head[self._head_size :]
        self._add_to_tail(kept[self._head_size :])

    def _add_to_tail(self, data: memoryview) -> None:
        if len(data) >= self._tail_size:
            self._tail[:] = data[len(data) - self._tail_size :]
            return
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    def drop(self) -> None:
        """From here on what comes is read and thrown away: the writer gets no SIGPIPE, and no result gets its text."""
        self._dropping = True
        self._head, self._tail = bytearray(), bytearray()

    def close(self) -> None:
        """Closes the pipe."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Input:
    """Writes a file into the pipe that is the command's stdin, as far as the command reads.

    A pipe, since some programs cannot read another kind of stdin (event loops want one that they can poll).

    Args:
        source: The file; closed at the end.
        fd: The writing end of the pipe; closed at the end.
    """

    def __init__(self, source: int, fd: int) -> None:
        self.fd = fd
        self._source = source
        self._offset = 0
        os.set_blocking(fd, False)

    @classmethod
    def open(cls, source: int | None) -> tuple[int, Input | None]:
        """Opens the command's stdin.

        Args:
            source: What the command can read; None is end of file at once.

        Returns:
            The descriptor for the command, and what feeds it, if anything.
        """
        if source is None:
            return os.open(os.devnull, os.O_RDONLY), None
        reading, writing = os.pipe()
        return reading, cls(source, writing)

    def feed(self) -> None:
        """Writes what fits; closes the pipe at the end of the file or once nobody reads it."""
        piece = os.pread(self._source, _FEED, self._offset)
        if not piece:
            self.close()
            return
        try:
            self._offset += os.write(self.fd, piece)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the command does not want the rest
            self.close()

    def close(self) -> None:
        """Closes both ends that are ours."""
        for fd in (self.fd, self._source):
            if fd >= 0:
                os.close(fd)
        self.fd = self._source = -1


def new_buffer() -> mmap:
    """Scratch space for `Output`: pages that are never touched cost nothing."""
    return mmap(-1, _PIECE, flags=MAP_PRIVATE | MAP_ANONYMOUS)


def _enlarge_pipe(fd: int, size: int) -> None:
    # Only where it pays: a user's larger pipes count against one small allowance (fs.pipe-user-pages-soft).
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
        except OSError:
            return  # the allowance is used up; the pipe works as it is


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:  # the command removed it, or everything around it
        return


def _open_or_make(parent: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        _make(parent, name)
        return os.open(name, flags, dir_fd=parent)


def _make(parent: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:  # another command was faster
        return


def _write_new(folder: int, name: str, data: bytes) -> None:
    """Writes a small file unless it exists."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    except FileExistsError:
        return
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
