"""Atomic writes: content goes to an unnamed file in the target's directory and takes the target's name at the end."""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable

from stead.errors import FileChanged, FileExists, IsADirectory
from stead_local.errors import error, translated
from stead_local.pinned import open_regular, refuse_other_than_file
from stead_local.walk import Place, Root, Swapped

__all__ = ["TEMPORARY_PREFIX", "Replacement", "version_of"]

TEMPORARY_PREFIX = ".stead-tmp-"
"""How our temporary files are called; listings hide them."""

_OPERATION = "write_file"
_O_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_LOCK_SECONDS = 1.0


def version_of(info: os.stat_result) -> str:
    """Returns the version of a file: its time of change, size and inode."""
    return f"{info.st_mtime_ns:x}-{info.st_size:x}-{info.st_ino:x}"


class Replacement:
    """One write. `begin`, `write`..., then `commit` or `abort`; each may run in another thread than the one before.

    The old content stays until `commit`, and for a reader that has it open beyond that. Where the system has unnamed
    files (Linux), a process killed while it writes leaves nothing behind.
    """

    def __init__(
        self, root: Root, path: str | os.PathLike[str], *, if_absent: bool = False, if_version: str | None = None
    ) -> None:
        self._root = root
        self._path = os.fspath(path)
        self._if_absent = if_absent
        self._if_version = if_version
        self._descriptors: list[int] = []
        self._temporary: str | None = None
        self._parent = self._file = -1
        self._old = -1
        self._name = ""
        self.parts: tuple[str, ...] = ()
        """Components of the target below the root, links resolved; known after `begin`."""

    def begin(self) -> None:
        """Makes the parents, checks the target and opens the file to write to.

        Raises:
            FileExists: `if_absent`, and something is there.
            FileChanged: `if_version`, and another version or nothing is there.
            SteadError: As `write_file`.
        """
        # A link is something too, even a dangling one: with if_absent it is not followed.
        self._root.at(self._path, _OPERATION, self._begin_at, make_parents=True, follow_last=not self._if_absent)

    def write(self, data: bytes | memoryview) -> None:
        """Appends to the new content."""
        view = memoryview(data)
        with translated(_OPERATION, self._path):
            while view:
                view = view[os.write(self._file, view) :]

    def commit(self) -> os.stat_result:
        """Gives the new content the target's name, in one step.

        Returns:
            `fstat` of the new file.

        Raises:
            FileExists: `if_absent`, and something is there now.
            FileChanged: `if_version`, and another version is there now; or a link took the target's place.
            IsADirectory: A directory took the target's place.
        """
        with translated(_OPERATION, self._path):
            lock = _lock_directory(self._parent)
            try:
                self._replace()
            finally:
                if lock >= 0:
                    os.close(lock)
            return os.fstat(self._file)

    def abort(self) -> None:
        """Releases everything; removes what was not committed. Idempotent."""
        self._drop_temporary()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _begin_at(self, place: Place) -> None:
        path, self._old = place.path.text, -1
        if place.path.names_directory:
            raise error(IsADirectory, f"{path!r} names a directory; give a file name", _OPERATION, path)
        if self._if_absent and place.info is not None:
            raise error(FileExists, f"{path!r} exists already", _OPERATION, path)
        refuse_other_than_file(place, _OPERATION)
        self._check_version(place.info)
        if place.info is not None:
            self._old = self._keep(self._open_for_writing(place))
        self._name, self.parts = place.name, place.parts
        self._parent = self._keep(os.dup(place.parent))
        self._open_temporary()

    def _open_for_writing(self, place: Place) -> int:
        # A rename could replace a file that may not be written: ask the system as a plain open would.
        try:
            return open_regular(place, os.O_WRONLY)
        except OSError as reason:
            if reason.errno != errno.ETXTBSY:  # a running program may be replaced, as every package manager does
                raise
            return open_regular(place, os.O_RDONLY)

    def _open_temporary(self) -> None:
        if _O_TMPFILE:
            try:
                flags = _O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
                self._file = self._keep(os.open(".", flags, 0o666, dir_fd=self._parent))
            except OSError as reason:
                if os.fstat(self._parent).st_nlink == 0:  # the directory was removed since the walk
                    raise Swapped from None
                if reason.errno not in _NO_TMPFILE:
                    raise
            else:
                return
        name = TEMPORARY_PREFIX + secrets.token_hex(8)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        # The umask applies to a new file; one that replaces another shows its content to nobody before it has its mode.
        mode = 0o666 if self._old < 0 else 0o600
        self._file = self._keep(os.open(name, flags, mode, dir_fd=self._parent))
        self._temporary = name

    def _replace(self) -> None:
        try:
            now: os.stat_result | None = os.stat(self._name, dir_fd=self._parent, follow_symlinks=False)
        except FileNotFoundError:
            now = None
        self._check_version(now)
        if now is not None and not stat.S_ISREG(now.st_mode):
            kind = IsADirectory if stat.S_ISDIR(now.st_mode) else FileExists if self._if_absent else FileChanged
            raise error(kind, f"something else took the place of {self._path!r}", _OPERATION, self._path)
        if now is not None:
            self._take_over(now)
        if self._if_absent:
            self._link_to(self._name)
            self._drop_temporary()
            return
        if self._temporary is None:
            name = TEMPORARY_PREFIX + secrets.token_hex(8)
            self._link_to(name)
            self._temporary = name
        os.replace(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._temporary = None

    def _link_to(self, name: str) -> None:
        # link(2) fails if the name is taken: that is the exact create-only. src_dir_fd makes CPython use linkat, which
        # alone can follow /proc/self/fd to an unnamed file.
        source = self._temporary or f"/proc/self/fd/{self._file}"
        os.link(source, name, src_dir_fd=self._parent, dst_dir_fd=self._parent, follow_symlinks=True)

    def _drop_temporary(self) -> None:
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):  # a command may have cleaned the directory
                os.unlink(self._temporary, dir_fd=self._parent)
            self._temporary = None

    def _take_over(self, old: os.stat_result) -> None:
        """Keeps what a user set on the file: permission bits always, owner and attributes where we may."""
        new = os.fstat(self._file)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            _where_allowed(lambda: os.chown(self._file, old.st_uid, old.st_gid))
        os.fchmod(self._file, stat.S_IMODE(old.st_mode) & 0o777)
        if self._old >= 0 and hasattr(os, "listxattr"):
            for name in os.listxattr(self._old):
                _where_allowed(lambda name=name: os.setxattr(self._file, name, os.getxattr(self._old, name)))  # type: ignore[misc]

    def _check_version(self, info: os.stat_result | None) -> None:
        if self._if_version is not None and (info is None or version_of(info) != self._if_version):
            text = f"{self._path!r} is not version {self._if_version!r} any more; read it again"
            raise error(FileChanged, text, _OPERATION, self._path)

    def _keep(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor


def _where_allowed(action: Callable[[], None]) -> None:
    try:
        action()
    except OSError as reason:
        if reason.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EINVAL):
            raise


def _lock_directory(parent: int) -> int:
    """Locks the directory for the moment of a replacement, so that stead processes check and replace in one step.

    The lock is advisory, and a stranger may hold it for long: after a second the write goes on without it.

    Returns:
        The descriptor that holds the lock, or -1.
    """
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    except PermissionError:
        return -1  # a directory that may be written but not read
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as reason:
            if reason.errno not in (errno.EWOULDBLOCK, errno.EACCES) or time.monotonic() > deadline:
                os.close(descriptor)
                return -1
        time.sleep(0.0005)
