"""The one path rule of all environments.

A path is `str` or `os.PathLike[str]`, POSIX: `/` separates, everything else in a name is literal (backslash, `~`, `%`,
quotes, glob characters). A relative path starts at the working directory, an absolute one must lie inside the root.
Empty and `.` components mean nothing; `..` is the parent. Leaving the root raises `PathOutsideRoot`; a name that merely
contains two dots is a name. A component is at most 255 bytes of UTF-8, everywhere, so that a path which works on one
backend works on all.

Backends without links use `resolve_path`, which is lexical. The local backend walks real directories instead
(`link/..` is physical there, as in the kernel) and takes only `split_path` from here.
"""

import os
from dataclasses import dataclass
from pathlib import PurePosixPath

from stead.errors import InvalidPath, PathOutsideRoot

__all__ = ["MAX_COMPONENT_BYTES", "PathParts", "check_state_dir", "resolve_path", "split_path"]

MAX_COMPONENT_BYTES = 255
"""NAME_MAX of Linux and macOS file systems."""


@dataclass(frozen=True, slots=True)
class PathParts:
    """A path taken apart, nothing resolved yet."""

    text: str
    """As the caller gave it."""
    parts: tuple[str, ...]
    """Components without empty and `.` ones; `..` is kept."""
    absolute: bool
    names_directory: bool
    """True if it ends in `/`, `/.` or `/..`, or is `.` or `..`: it can only mean a directory."""


def split_path(path: str | os.PathLike[str]) -> PathParts:
    """Takes a path apart and refuses what no file can be called.

    Raises:
        TypeError: It is no `str` or `os.PathLike[str]`.
        InvalidPath: It is empty, holds NUL or a lone surrogate, or a component is longer than 255 bytes.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"a path must be str or os.PathLike[str], not {type(path).__name__}")
    if not text:
        raise InvalidPath("the path is empty; use '.' for the working directory", path=text)
    if "\0" in text:
        raise InvalidPath(f"the path {text!r} holds a NUL character, which no file name can", path=text)
    pieces = text.split("/")
    try:
        too_long = len(text.encode()) > MAX_COMPONENT_BYTES and any(
            len(piece.encode()) > MAX_COMPONENT_BYTES for piece in pieces
        )
    except UnicodeEncodeError:
        raise InvalidPath(f"the path {text!r} holds a lone surrogate, which is not text", path=text) from None
    if too_long:
        raise InvalidPath(f"a name in the path {text[:60]!r}... is longer than {MAX_COMPONENT_BYTES} bytes", path=text)
    return PathParts(
        text=text,
        parts=tuple(piece for piece in pieces if piece not in ("", ".")),
        absolute=text.startswith("/"),
        names_directory=pieces[-1] in ("", ".", ".."),
    )


def resolve_path(path: str | os.PathLike[str], *, working_dir: PurePosixPath, root: PurePosixPath) -> PurePosixPath:
    """Resolves a path by its text alone, for backends without links.

    Args:
        path: Absolute or relative to `working_dir`.
        working_dir: Absolute, inside `root`.
        root: Absolute.

    Returns:
        The absolute path, inside `root`.

    Raises:
        TypeError: As `split_path`.
        InvalidPath: As `split_path`.
        PathOutsideRoot: It leaves `root`, or climbs above `/` even if it would come back.
    """
    parts = split_path(path)
    stack = [] if parts.absolute else list(working_dir.parts[1:])
    for part in parts.parts:
        if part != "..":
            stack.append(part)
        elif stack:
            stack.pop()
        else:
            raise outside_root(parts.text, root)
    resolved = PurePosixPath("/", *stack)
    if not resolved.is_relative_to(root):
        raise outside_root(parts.text, root)
    return resolved


def check_state_dir(text: str) -> str:
    """Returns the option `state_dir` as it is, if it names a folder below the working directory.

    Raises:
        InvalidPath: As `split_path`.
        ValueError: It is absolute, climbs, or is the working directory itself.
    """
    parts = split_path(text)
    if parts.absolute or ".." in parts.parts or not parts.parts:
        raise ValueError("it must be a folder below the working directory, told from there")
    return text


def outside_root(text: str, root: PurePosixPath | str) -> PathOutsideRoot:
    """The error for a path that leaves the root."""
    return PathOutsideRoot(
        f"the path {text!r} leads outside {str(root)!r}; use a path inside it, relative or absolute", path=text
    )
