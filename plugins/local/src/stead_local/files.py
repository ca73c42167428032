"""What the file methods do, as plain functions for a worker thread."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from stead.adapt import time_of
from stead.errors import (
    AccessDenied,
    FileChanged,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    PathOutsideRoot,
)
from stead.results import FileInfo
from stead_local.errors import error, missing, translated
from stead_local.pinned import CHUNK, PinnedFile
from stead_local.replace import TEMPORARY_PREFIX, Replacement, version_of
from stead_local.walk import Place, Root

__all__ = ["Entry", "delete", "file_info", "list_directory", "read_all", "stat_path", "write_all"]


def read_all(root: Root, path: str | os.PathLike[str]) -> bytes:
    """Reads a file whole, of one version."""
    with PinnedFile.open(root, path, "read_file") as file:
        return file.read_all()


def write_all(replacement: Replacement, data: bytes, stopped: Callable[[], bool]) -> os.stat_result | None:
    """Writes content that is in memory; None if `stopped` said so before it was committed."""
    try:
        replacement.begin()
        view = memoryview(data)
        for start in range(0, len(data), CHUNK):
            if stopped():
                return None
            replacement.write(view[start : start + CHUNK])
        return None if stopped() else replacement.commit()
    finally:
        replacement.abort()


def file_info(base: PurePosixPath, parts: tuple[str, ...], info: os.stat_result) -> FileInfo:
    """Says what a path leads to, from its `stat`."""
    kind = stat.S_IFMT(info.st_mode)
    modified = time_of(info.st_mtime)
    path = str(base.joinpath(*parts))
    if kind == stat.S_IFREG:
        return FileInfo(path=path, kind="file", size=info.st_size, modified=modified, version=version_of(info))
    return FileInfo(path=path, kind="directory" if kind == stat.S_IFDIR else "other", modified=modified)


def stat_path(root: Root, base: PurePosixPath, path: str | os.PathLike[str]) -> FileInfo:
    """Says what is at a path, links followed."""

    def look(place: Place) -> FileInfo:
        if place.info is None:
            raise missing("stat", place.path.text)
        if place.path.names_directory and place.kind != stat.S_IFDIR:
            raise error(NotADirectory, f"{place.path.text!r} is not a directory", "stat", place.path.text)
        return file_info(base, place.parts, place.info)

    return root.at(path, "stat", look)


def delete(root: Root, path: str | os.PathLike[str]) -> None:
    """Removes a file; a link itself, wherever it leads."""

    def remove(place: Place) -> None:
        text = place.path.text
        if place.info is None:
            raise missing("delete_file", text)
        if place.kind == stat.S_IFDIR:
            raise error(IsADirectory, f"{text!r} is a directory; only files can be deleted", "delete_file", text)
        if place.path.names_directory:
            raise error(NotADirectory, f"{text!r} ends in '/' but is a file", "delete_file", text)
        os.unlink(place.name, dir_fd=place.parent)

    root.at(path, "delete_file", remove, follow_last=False)


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    info: FileInfo
    is_directory: bool
    """A real one that can be listed too, not a link to one."""


def list_directory(root: Root, base: PurePosixPath, path: str | os.PathLike[str]) -> list[Entry]:
    """Lists one directory, without our temporary files."""

    def opened(place: Place) -> tuple[int, tuple[str, ...]]:
        text = place.path.text
        if place.info is None:
            raise missing("list_files", text)
        if place.kind != stat.S_IFDIR:
            raise error(NotADirectory, f"{text!r} is not a directory", "list_files", text)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(place.name, flags, dir_fd=place.parent), place.parts

    descriptor, parts = root.at(path, "list_files", opened)
    try:
        with translated("list_files", os.fspath(path)):
            return list(_entries(root, base, parts, descriptor))
    finally:
        os.close(descriptor)


def _entries(root: Root, base: PurePosixPath, parts: tuple[str, ...], descriptor: int) -> Iterator[Entry]:
    with os.scandir(descriptor) as found:
        for item in found:
            if item.name.startswith(TEMPORARY_PREFIX):
                continue
            try:
                info = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed since the directory was read
            yield _entry(root, base, (*parts, item.name), info)


def _entry(root: Root, base: PurePosixPath, parts: tuple[str, ...], info: os.stat_result) -> Entry:
    name, path = parts[-1], str(base.joinpath(*parts))
    if not _is_text(path):
        # A name that is not UTF-8 cannot be given to any method: it is shown, with what can be shown of it.
        return Entry(
            name, FileInfo(path=os.fsencode(path).decode("utf-8", "replace"), kind="other"), is_directory=False
        )
    if not stat.S_ISLNK(info.st_mode):
        return Entry(name, file_info(base, parts, info), is_directory=stat.S_ISDIR(info.st_mode))
    try:
        shown = replace(stat_path(root, base, path), path=path)
    except (AccessDenied, FileChanged, FileMissing, InvalidPath, NotADirectory, PathOutsideRoot):
        shown = FileInfo(path=path, kind="other")
    return Entry(name, shown, is_directory=False)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
