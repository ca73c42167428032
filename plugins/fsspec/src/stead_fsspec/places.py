"""What is where: directories, parents that are files, and what to call it when no file is at a path."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NoReturn

from stead.environment import PathLike
from stead.errors import AccessDenied, FileExists, FileMissing, IsADirectory, NotADirectory
from stead.paths import split_path
from stead_fsspec.store import Store

__all__ = ["Places"]

_KNOWN_PARENTS = 4_096


class Places:
    """The keys of a store below a prefix as files and directories."""

    def __init__(self, store: Store, prefix: str) -> None:
        """Takes where to look.

        Args:
            store: The store.
            prefix: The key of the root, without a slash at its end.
        """
        self._store = store
        self._prefix = prefix
        self._no_files: OrderedDict[str, None] = OrderedDict()

    def path(self, key: str) -> str:
        """The path of a key."""
        return f"/{key[len(self._prefix) :].removeprefix('/')}"

    async def is_folder(self, key: str) -> bool:
        """Says whether a key is a directory; the root always is.

        Raises:
            SteadError: The store could not be asked.
        """
        return key == self._prefix or await self._store.is_folder(key)

    async def check_target(self, key: str, path: PathLike, *, new: bool) -> None:
        """Makes sure that a file may be at a path.

        Args:
            key: Its key.
            path: As the caller gave it.
            new: Whether nothing may be there.

        Raises:
            IsADirectory: A directory is there, or the path can only name one.
            FileExists: A directory is there, and nothing may be.
            NotADirectory: A parent is a file.
            SteadError: The store could not be asked.
        """
        text = os.fspath(path)
        if key == self._prefix or split_path(path).names_directory:
            raise IsADirectory(f"{text!r} is a directory; give a file name")
        parents = [parent for parent in self._parents(key) if parent not in self._no_files]
        folder, blocking = await self._around(key, parents)
        if blocking is not None:
            raise NotADirectory(f"{self.path(blocking)!r} is a file, not a directory")
        if folder:
            raise (FileExists if new else IsADirectory)(f"{text!r} is a directory; give another name")
        # What was no file once is not asked about again, until this environment itself writes one there.
        self._no_files.update(dict.fromkeys(parents))
        while len(self._no_files) > _KNOWN_PARENTS:
            self._no_files.popitem(last=False)

    def written(self, key: str) -> None:
        """Notes that a file is at a key now."""
        self._no_files.pop(key, None)

    async def no_file(self, key: str, path: PathLike, where: str, cause: FileMissing | None) -> NoReturn:
        """Says what is wrong with a path at which a file was expected.

        Args:
            key: Its key.
            path: As the caller gave it.
            where: What messages call the environment.
            cause: What the store said, if it was asked.

        Raises:
            IsADirectory: A directory is there.
            NotADirectory: A parent is a file, or a file's path ends in `/`.
            FileMissing: Nothing is there.
            SteadError: The store could not be asked.
        """
        text, parents = os.fspath(path), self._parents(key)
        if split_path(path).names_directory and key != self._prefix:
            parents.append(key)
        folder, blocking = await self._around(key, parents)
        theirs = cause.__cause__ if cause is not None else None
        if blocking is not None:
            raise NotADirectory(f"{text!r} goes through {self.path(blocking)!r}, which is a file") from theirs
        if folder:
            raise IsADirectory(f"{text!r} is a directory") from theirs
        raise FileMissing(f"not found: {text!r} does not exist in {where}") from theirs

    async def _around(self, key: str, parents: list[str]) -> tuple[bool, str | None]:
        """Says whether a key is a directory, and which of its parents is a file, as far as one may look."""

        async def file_at(parent: str) -> bool:
            return await self._store.head(parent) is not None

        async def look(question: Callable[[str], Awaitable[bool]], at: str) -> bool:
            try:
                return await question(at)
            except AccessDenied:  # credentials that may read or write but not list are good ones
                return False

        folder, *files = await asyncio.gather(look(self.is_folder, key), *(look(file_at, name) for name in parents))
        return folder, next((name for name, is_file in zip(parents, files, strict=True) if is_file), None)

    def _parents(self, key: str) -> list[str]:
        names = key[len(self._prefix) :].removeprefix("/").split("/")
        start = f"{self._prefix}/" if self._prefix else ""
        return [start + "/".join(names[:n]) for n in range(1, len(names))]
