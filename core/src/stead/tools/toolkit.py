"""What all tools of one set share: the environment, the options, the names, and how paths and errors are told."""

import asyncio
import posixpath
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from stead.environment import Environment
from stead.errors import (
    EnvironmentClosed,
    EnvironmentLost,
    FileChanged,
    InvalidPath,
    PathOutsideRoot,
    StreamInterrupted,
    Unavailable,
    Unsupported,
)
from stead.results import FileInfo

__all__ = ["Entry", "OffloadLocator", "ToolOptions", "Toolkit"]


class OffloadLocator(Protocol):
    """Knows which environment holds the offload that a notice names. A `Reducer` is one."""

    def environment_of(self, path: str, /) -> Environment | None:
        """The environment in which `path` can be read, or None if it is no offload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Limits and habits of one set of tools; `toolset` says what each means."""

    number_lines: bool = True
    max_output_chars: int = 30_000
    count_total: bool = True
    scan_limit: int = 1 << 30
    default_timeout: float | None = 120.0
    max_timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.max_output_chars < 1:
            raise ValueError(f"max_output_chars must be at least 1, not {self.max_output_chars}")
        if self.scan_limit < 0:
            raise ValueError(f"scan_limit must not be negative, not {self.scan_limit}")
        for name, seconds in (("max_timeout", self.max_timeout), ("default_timeout", self.default_timeout)):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} must be positive, not {seconds}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a listing."""

    info: FileInfo
    below: str
    """Its path below the directory that was listed."""


class Toolkit:
    """The environment and all that the tools of one set need to know of each other."""

    def __init__(
        self,
        env: Environment,
        options: ToolOptions,
        names: Mapping[str, str],
        offloads: OffloadLocator | None = None,
    ) -> None:
        """Ties them together.

        Args:
            env: Where the tools work.
            options: Limits and habits.
            names: What each offered tool is called, by its usual name.
            offloads: Finds offloads that are stored elsewhere.
        """
        self.env = env
        self.options = options
        self.names = names
        self._offloads = offloads
        self._working_dir = str(env.working_dir)
        self._state_dir = self.absolute(env.state_dir)

    def environment_of(self, path: str) -> Environment:
        """Where a path is read: the environment, unless it names an offload that is stored in another."""
        other = None if self._offloads is None else self._offloads.environment_of(path)
        return other or self.env

    def lock(self, path: str) -> asyncio.Lock:
        """One lock for each file of the environment, so that edits of one turn do not overwrite each other.

        Two spellings of one path share a lock; a link and its target do not, and are kept apart by their version.
        """
        # With the environment, so that two sets of tools over it share the locks; weak, so that they do not pile up.
        locks: WeakValueDictionary[str, asyncio.Lock] = self.env.__dict__.setdefault(
            "_stead_edit_locks", WeakValueDictionary()
        )
        return locks.setdefault(self.absolute(path), asyncio.Lock())

    # ---- paths -----------------------------------------------------------------------------------------------------

    def absolute(self, path: str) -> str:
        """The path from the root, by its text alone."""
        return posixpath.normpath(posixpath.join(self._working_dir, path))

    def shown(self, path: str) -> str:
        """The path as a model is told it: below the working directory where it is."""
        return _below(path, self._working_dir) or path

    def state_path(self, *parts: str) -> str:
        """A path among stead's own files."""
        return posixpath.join(self._state_dir, *parts)

    async def entries(
        self, path: str, *, recursive: bool = False, named: str | None = None
    ) -> AsyncGenerator[Entry, None]:
        """Lists a directory without stead's own files, unless they are what `path` or `named` names.

        Raises:
            SteadError: As `list_files`, at the first step.
        """
        base = self.absolute(path)
        asked = base if named is None else self.absolute(named)
        hidden = None if _is_in(asked, self._state_dir) else self._state_dir
        async with aclosing(self.env.list_files(path, recursive=recursive)) as infos:
            async for info in infos:
                below = _below(info.path, base)
                if below is None:
                    # The directory was reached through a link; the first entry of a listing lies right in it.
                    base = posixpath.dirname(info.path)
                    below = _below(info.path, base) or info.path
                if hidden is None or not _is_in(info.path, hidden):
                    yield Entry(info, below)

    # ---- words -----------------------------------------------------------------------------------------------------

    def using(self, *tools: str) -> str:
        """Those of the tools that are offered, by their names here, such as `Glob or ListFiles`; empty if none is."""
        return " or ".join(self.names[tool] for tool in tools if tool in self.names)

    def explain(self, error: Exception) -> str:
        """An error of the environment, as text that says what to do next."""
        text = str(error).rstrip(".") or type(error).__name__
        if isinstance(error, UnicodeEncodeError):
            return "The text holds a lone surrogate, which is no character; nothing was done. Send it without."
        for kind, start, advice in self._explanations():
            if isinstance(error, kind):
                return f"{start}: {text}." + (f" {advice}" if advice else "")
        return f"{type(error).__name__}: {text}."

    def _explanations(self) -> tuple[tuple[type[Exception], str, str], ...]:
        look, listing = self.using("Glob", "ListFiles"), self.using("ListFiles")
        return (
            (FileNotFoundError, "Not found", f"Look for the right path with {look}." if look else "Check the path."),
            (IsADirectoryError, "This is a directory", f"List it with {listing}." if listing else "Name a file."),
            (NotADirectoryError, "Not a directory", "Check which part of the path is a file."),
            (PermissionError, "Permission denied", "It exists, but may not be used; do not try to make it anew."),
            (PathOutsideRoot, "Not allowed", ""),
            (InvalidPath, "Not a valid path", "Use another path."),
            (FileChanged, "The file is being changed by something else", "Try again when it is at rest."),
            (StreamInterrupted, "The file could not be read to its end", "Try again."),
            (Unavailable, "The service did not answer", "Try again in a while."),
            (EnvironmentClosed, "The environment was closed", "None of its tools works any more."),
            (EnvironmentLost, "The environment is gone", "None of its tools works any more."),
            (Unsupported, "Not possible here", "Try another way."),
            (ValueError, "Not possible", ""),
        )


def _below(path: str, directory: str) -> str | None:
    start = directory.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) and len(path) > len(start) else None


def _is_in(path: str, directory: str) -> bool:
    return path == directory or _below(path, directory) is not None
