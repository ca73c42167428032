"""The path rule on real directories: a walk of directory descriptors that never leaves the root.

Checking a resolved name and opening it later is escaped by a process that swaps a link in between. So nothing is
checked by name: each component is opened below the descriptor of the one before, without following links; a link is
read and its target walked in the same way; `..` goes back to the descriptor held. What a caller gets is the open parent
directory and a final name, and it works from that pair.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from stead.errors import ConfigError, FileChanged, InvalidPath, NotADirectory
from stead.paths import PathParts, outside_root, split_path
from stead_local.errors import BACKEND, error, missing, translated

__all__ = ["FILE_FLAGS", "Place", "Root", "Swapped"]

T = TypeVar("T")

_MAX_LINKS = 40  # as the kernel's own limit
_TRIES = 3
_O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
_DIRECTORY_FLAGS = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For every open of a final name: never through a link, never waiting for the other end of a FIFO."""


class Swapped(Exception):
    """What stands at a name changed between two looks at it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: a name in an open directory. Valid while the walk's context is open."""

    parent: int
    """Descriptor of the directory, opened without the right to read it (`O_PATH`) where the system has that."""
    name: str
    """The final component, `"."` for the root or a directory that was named by `..`."""
    info: os.stat_result | None
    """`lstat` of it, or None if nothing is there. Never a link if links were followed."""
    parts: tuple[str, ...]
    """Components below the root, links resolved."""
    path: PathParts

    @property
    def kind(self) -> int:
        """The type bits of the mode, 0 if nothing is there."""
        return 0 if self.info is None else stat.S_IFMT(self.info.st_mode)


class Root:
    """The directory that confines an environment's file methods."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Takes the path as it is; touches nothing.

        Raises:
            InvalidPath: It holds NUL.
            ConfigError: It is relative, and the working directory of this process was removed.
        """
        try:
            self.path = os.path.abspath(os.fspath(path))
        except FileNotFoundError:
            text = f"the root {os.fspath(path)!r} is relative, and the working directory of this process is not there any more"
            raise ConfigError(text, backend=BACKEND) from None
        if "\0" in self.path:
            raise error(InvalidPath, f"the root {self.path!r} holds NUL, which no path can", "start", self.path)
        self._real = self.path

    def prepare(self) -> None:
        """Makes the directory if it is missing, and learns its real path.

        Raises:
            NotADirectory: Something else stands there.
            OSError: It cannot be made.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
        except FileExistsError:
            raise error(NotADirectory, f"the root {self.path!r} is not a directory", "start", self.path) from None
        self._real = os.path.realpath(self.path)

    def at(
        self,
        path: str | os.PathLike[str],
        operation: str,
        action: Callable[[Place], T],
        *,
        make_parents: bool = False,
        follow_last: bool = True,
    ) -> T:
        """Walks to a path and does something there, while its parent directory is held open.

        Args:
            path: Absolute or relative to the root.
            operation: For errors.
            action: Gets the place; raises `Swapped` if it finds something else there, and the walk is tried again.
            make_parents: Make missing directories on the way.
            follow_last: Follow a link in the last component too.

        Returns:
            What `action` returns.

        Raises:
            TypeError: As `split_path`.
            InvalidPath: As `split_path`, and for a loop of links.
            PathOutsideRoot: It leads out of the root.
            FileMissing: A directory on the way is missing.
            NotADirectory: Something on the way is not a directory.
            AccessDenied: A directory on the way may not be entered.
            FileChanged: What is there kept changing.
        """
        parts = split_path(path)
        with translated(operation, parts.text):
            for _ in range(_TRIES):
                walker = _Walker(self, parts, make_parents=make_parents, follow_last=follow_last)
                try:
                    return action(walker.run())
                except Swapped:
                    continue
                finally:
                    walker.close()
            raise error(FileChanged, f"what is at {parts.text!r} keeps changing", operation, parts.text)

    def open_directory(self, path: str | os.PathLike[str], operation: str) -> int:
        """Opens a directory below the root, for `fchdir` or to work relative to it.

        Returns:
            A descriptor that the caller closes.

        Raises:
            FileMissing: Nothing is there.
            NotADirectory: It is no directory.
            SteadError: As `at`.
        """

        def opened(place: Place) -> int:
            if place.info is None:
                raise missing(operation, place.path.text)
            if place.kind != stat.S_IFDIR:
                raise error(NotADirectory, f"{place.path.text!r} is not a directory", operation, place.path.text)
            return os.open(place.name, _DIRECTORY_FLAGS, dir_fd=place.parent)

        return self.at(path, operation, opened)

    def below(self, parts: list[str]) -> list[str] | None:
        """Returns the components of an absolute path that follow the root, or None if it does not begin with it.

        The root counts in both spellings: as it was given, and as `pwd` prints it.
        """
        for spelling in (self._real, self.path):
            prefix = _components(spelling)
            if parts[: len(prefix)] == prefix:
                return parts[len(prefix) :]
        return None

    @property
    def real_parts(self) -> list[str]:
        """Components of the root's real path."""
        return _components(self._real)

    def open(self) -> int:
        """Opens the root directory itself."""
        return os.open(self._real, _DIRECTORY_FLAGS)


class _Walker:
    """One walk: the open directories from the root down, and the components still to go."""

    def __init__(self, root: Root, path: PathParts, *, make_parents: bool, follow_last: bool) -> None:
        self._root = root
        self._path = path
        self._make_parents = make_parents
        self._follow_last = follow_last or path.names_directory
        self._links = 0
        self._held: list[int] = []
        self._names: list[str] = []
        self._todo = list(reversed(path.parts))
        # Above the root nothing is opened: the way is followed by name until it comes back, or it is refused.
        self._outside: list[str] | None = None
        if path.absolute:
            self._jump(list(path.parts))

    def close(self) -> None:
        for descriptor in reversed(self._held):
            os.close(descriptor)
        self._held.clear()

    def run(self) -> Place:
        self._held.append(self._root.open())
        while self._todo:
            name = self._todo.pop()
            if self._outside is not None:
                self._step_outside(self._outside, name)
            elif name == "..":
                self._step_up()
            elif not self._todo:
                info = _lstat(name, self._held[-1])
                if info is None or not stat.S_ISLNK(info.st_mode) or not self._follow_last:
                    return Place(self._held[-1], name, info, (*self._names, name), self._path)
                self._follow(name)
            else:
                self._step_down(name)
        if self._outside is not None:
            raise outside_root(self._path.text, self._root.path)
        return Place(self._held[-1], ".", os.fstat(self._held[-1]), tuple(self._names), self._path)

    def _step_up(self) -> None:
        if len(self._held) > 1:
            os.close(self._held.pop())
            self._names.pop()
        elif self._root.real_parts:  # the parent of / is /
            self._outside = self._root.real_parts[:-1]

    def _step_outside(self, outside: list[str], name: str) -> None:
        if name == "..":
            del outside[-1:]
            return
        outside.append(name)
        if self._root.below(outside) == []:
            self._outside = None
            self._reset()

    def _step_down(self, name: str) -> None:
        parent = self._held[-1]
        try:
            self._enter(name, parent)
        except FileNotFoundError:
            self._refuse_escape_below(name)
            if not self._make_parents:
                raise
            try:
                os.mkdir(name, dir_fd=parent)
            except FileExistsError:
                if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    self._follow(name)
                    return
            self._enter(name, parent)
        except OSError as reason:
            # A link gives ELOOP or ENOTDIR, by system and flags; so does a file.
            if reason.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            self._follow(name)

    def _refuse_escape_below(self, name: str) -> None:
        # Below a missing directory there are no links: what would leave the root is seen before anything is made.
        depth = len(self._names)
        for part in [name, *reversed(self._todo)]:
            depth += -1 if part == ".." else 1
            if depth < 0:
                raise outside_root(self._path.text, self._root.path)

    def _enter(self, name: str, parent: int) -> None:
        self._held.append(os.open(name, _DIRECTORY_FLAGS, dir_fd=parent))
        self._names.append(name)

    def _follow(self, name: str) -> None:
        self._links += 1
        if self._links > _MAX_LINKS:
            raise InvalidPath(f"{self._path.text!r} goes through more than {_MAX_LINKS} links", path=self._path.text)
        try:
            target = os.readlink(name, dir_fd=self._held[-1])
        except OSError as reason:
            if reason.errno != errno.EINVAL:  # EINVAL: it is no link
                raise
            raise self._no_link(name) from reason
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if target.startswith("/"):
            self._jump(parts + self._todo[::-1])
            self._reset()
        else:
            self._todo += reversed(parts)

    def _no_link(self, name: str) -> Exception:
        info = _lstat(name, self._held[-1])
        if info is None or stat.S_ISDIR(info.st_mode) or stat.S_ISLNK(info.st_mode):
            return Swapped()
        return NotADirectory(
            f"{self._path.text!r} goes through {name!r}, which is not a directory", path=self._path.text
        )

    def _jump(self, parts: list[str]) -> None:
        below = self._root.below(parts)
        self._outside = [] if below is None else None
        self._todo = list(reversed(parts if below is None else below))

    def _reset(self) -> None:
        for descriptor in self._held[1:]:
            os.close(descriptor)
        del self._held[1:]
        self._names.clear()


def _lstat(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


if sys.platform == "win32":
    raise ImportError("stead-local needs a POSIX system: Windows has no directory descriptors and no POSIX path rule")
