"""The file that holds all output of a command."""

from __future__ import annotations

import os
import time

__all__ = ["Spill", "SpillPlace"]

_PIECE = 1 << 20


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
