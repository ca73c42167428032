"""What all adapters share: the working directory, errors by table, and commands spelled for a shell."""

import errno
import os
import shlex
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from stead.adapt import collect_content
from stead.environment import Content, Environment, PathLike
from stead.errors import (
    AccessDenied,
    FileExists,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    PathOutsideRoot,
    SteadError,
    Unsupported,
)
from stead.results import FileInfo

__all__ = ["Peer", "shell_text", "translated"]

_TABLE: tuple[tuple[type[Exception], type[SteadError]], ...] = (
    (FileNotFoundError, FileMissing),
    (IsADirectoryError, IsADirectory),
    (NotADirectoryError, NotADirectory),
    (FileExistsError, FileExists),
    (PermissionError, AccessDenied),
)
_NUMBERS: dict[int | None, type[SteadError]] = {errno.ENAMETOOLONG: InvalidPath, errno.ELOOP: InvalidPath}
# Where the kind of the error does not say what is meant, its text does.
_WORDS: tuple[tuple[str, type[SteadError]], ...] = (
    ("escape", PathOutsideRoot),
    ("outside", PathOutsideRoot),
    ("traversal", PathOutsideRoot),
    ("workspace root", PathOutsideRoot),
    ("null byte", InvalidPath),
    ("must be absolute", InvalidPath),
    ("not a regular file", Unsupported),
)


class Peer(Environment):
    """An environment whose files and commands are another library's."""

    def __init__(self, working_dir: PathLike) -> None:
        """Takes the directory where the other side's relative paths start, absolute in its namespace."""
        self._working_dir = PurePosixPath(os.fspath(working_dir))

    @property
    def working_dir(self) -> PurePosixPath:
        return self._working_dir

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent or if_version is not None:
            raise self._unsupported("conditional writes")
        text = os.fspath(path)
        data = content if isinstance(content, str) else await collect_content(content)
        await self._ready()
        with translated("write_file", text):
            await self._write(text, data)
        size = len(data.encode()) if isinstance(data, str) else len(data)
        return FileInfo(path=str(self._working_dir / text), kind="file", size=size)

    async def _write(self, path: str, data: str | bytes) -> None:
        raise NotImplementedError

    async def _entries(self, path: str) -> list[FileInfo]:
        """Lists one directory; for adapters that declare `list_files`."""
        raise NotImplementedError

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        if not self.capabilities.list_files:
            raise self._unsupported("list_files")
        text = os.fspath(path)
        await self._ready()
        with translated("list_files", text):
            found = await self._entries(text)
            for entry in found if recursive else ():
                if entry.kind == "directory":
                    found += await self._entries(entry.path)  # the loop goes on into what is added
        for entry in sorted(found, key=lambda item: item.path):
            yield entry

    def _absolute(self, path: PathLike) -> str:
        """Joins; what a slash at the end, or no name at all, means is for the other side to say."""
        text = os.fspath(path)
        slash = "/" if text.rstrip("/") and text.endswith("/") else ""
        return f"{self._working_dir / text}{slash}" if text else ""


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Turns builtin errors of the other side into ours; all others pass as they are."""
    try:
        yield
    except SteadError:
        raise
    except (OSError, ValueError, NotImplementedError) as error:
        raise _ours(error, operation, path) from error


def _ours(error: Exception, operation: str, path: str) -> Exception:
    kind = next((ours for theirs, ours in _TABLE if isinstance(error, theirs)), None)
    if kind is None and isinstance(error, OSError):
        kind = _NUMBERS.get(error.errno)
    if kind is None and isinstance(error, NotImplementedError):
        kind = Unsupported
    if kind is None and isinstance(error, UnicodeEncodeError) and error.object.endswith(path):
        kind = InvalidPath  # of the path, not of what was to be written
    if kind is None:
        kind = next((ours for word, ours in _WORDS if word in str(error).lower()), None)
    return error if kind is None else kind(f"{path!r}: {error}", operation=operation, path=path)


def shell_text(
    command: str | Sequence[str], *, cwd: PathLike | None, env: Mapping[str, str] | None, given: Mapping[str, Any]
) -> str:
    """Spells a command with its directory and variables as text for a shell.

    Args:
        command: As `execute`.
        cwd: As `execute`.
        env: As `execute`.
        given: Arguments that the other side has no way to take.

    Raises:
        Unsupported: One of `given` was given.
    """
    for name, value in given.items():
        if value is not None:
            raise Unsupported(f"the other side has no {name} for commands", operation="execute")
    text = command if isinstance(command, str) else shlex.join(command)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (env or {}).items())
    enter = "" if cwd is None else f"cd {shlex.quote(os.fspath(cwd))} || exit\n"
    return f"{enter}{exports}{text}"
