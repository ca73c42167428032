"""The contract over a store: paths, directories, streams, conditions and lines, the same for every backend."""

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext
from io import BytesIO
from pathlib import PurePosixPath
from typing import NoReturn

from stead.adapt import closing_pieces, content_bytes
from stead.environment import Content, Environment, PathLike, check_range
from stead.errors import (
    ConfigError,
    EnvironmentClosed,
    FileMissing,
    InvalidPath,
    NotADirectory,
    SteadError,
    Unsupported,
)
from stead.lifecycle import State
from stead.paths import resolve_path, split_path
from stead.results import FileInfo, LineRange, LineWindow
from stead_fsspec.lines import LineReader
from stead_fsspec.places import Places
from stead_fsspec.store import Condition, Entry, Found, Store
from stead_fsspec.stream import ByteStream, ObjectStream, ParallelStream
from stead_fsspec.writing import Writes, pieces_of, write_object

__all__ = ["MAX_KEY_BYTES", "StoreEnvironment", "normal_prefix"]

MAX_KEY_BYTES = 1_024
"""What S3 and GCS take as a key, in UTF-8."""

_ROOT = PurePosixPath("/")


def normal_prefix(prefix: str) -> str:
    """Returns a prefix of keys without a slash at either end.

    Raises:
        ConfigError: It has `..` in it, or no key can begin so.
    """
    if not prefix.strip("/"):
        return ""
    try:
        parts = split_path(prefix).parts
    except InvalidPath as error:
        raise ConfigError(f"the prefix cannot be used: {error.message}") from None
    if ".." in parts:
        raise ConfigError(f"the prefix {prefix!r} goes up by '..'; write where it leads")
    return "/".join(parts)


class StoreEnvironment(Environment):
    """Files in a store. It runs no commands.

    Its root, `/`, is a prefix of keys, and no request ever names a key outside it. Directories are what files are in:
    they need not be made, and are gone with their last file.
    """

    def __init__(self, store: Store, *, prefix: str = "", state_dir: str = ".stead", parallel: int = 1) -> None:
        """Takes the options; asks for nothing yet.

        Args:
            store: Where the files are; opened and closed with this environment, and nobody else's.
            prefix: How all keys begin; a directory, with or without slashes at its ends.
            state_dir: Where stead keeps files of its own, relative to the root.
            parallel: How many ranges of a large file are read, or parts of one written, at once; 1 reads all of it in one
                request.

        Raises:
            ConfigError: An option cannot be used.
        """
        if not 1 <= parallel <= 64:
            raise ConfigError(f"parallel must be a number from 1 to 64, not {parallel!r}")
        store.parts_at_once = 1 if store.ordered_parts else parallel
        self._store = store
        self._prefix = normal_prefix(prefix)
        self._parallel = parallel
        self.state_dir = state_dir
        self._places = Places(store, self._prefix)
        self._lines = LineReader(store, self._prefix, self._key(state_dir)[len(self._prefix) :].strip("/"))
        self._streams: weakref.WeakSet[ByteStream] = weakref.WeakSet()
        self._writes = Writes()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied, since it holds connections and secrets")

    @property
    def working_dir(self) -> PurePosixPath:
        return _ROOT

    async def _start(self) -> None:
        try:
            await self._store.open()
        except BaseException as error:
            await self._store.close()
            if isinstance(error, SteadError):
                error.backend = error.backend or self._store.backend
                error.operation = error.operation or "start"
            raise

    async def _close(self) -> None:
        for stream in list(self._streams):
            await stream.close()
        await self._writes.end()
        await self._store.close()

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        data = BytesIO()  # gives its buffer away without a copy, where a bytearray or a join would need one

        def reserve(size: int) -> None:
            data.seek(size - 1)
            data.write(b"\0")
            data.seek(0)

        async with aclosing(self._stream("read_file", path, 0, None, reserve)) as chunks:
            async for chunk in chunks:
                data.write(chunk)
        return data.getvalue()

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        check_range(offset, length)
        await self._ready()
        async with aclosing(self._stream("read_file_stream", path, offset, length)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _stream(
        self,
        operation: str,
        path: PathLike,
        offset: int,
        length: int | None,
        on_size: Callable[[int], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        with self._telling(operation, path):
            key = self._file_key(path)
            if key is None or (length == 0 and await self._store.head(key) is None):
                await self._no_file(path)
            if length == 0:
                return
            stream = self._open_stream(key, offset, length)
            self._streams.add(stream)
            try:
                while chunk := await self._next(stream, path):
                    if on_size is not None and stream.found is not None:
                        on_size(stream.found.size)
                        on_size = None
                    yield chunk
                    self._lifecycle.check_usable()
            finally:
                await stream.close()
                # A connection that was cut off is gone one turn of the loop later; who closed must find it gone.
                await asyncio.sleep(0)

    def _open_stream(self, key: str, offset: int, length: int | None) -> ByteStream:
        if self._parallel > 1:
            return ParallelStream(self._store, key, offset, length, requests=self._parallel)
        return ObjectStream(self._store, key, offset, length)

    async def _next(self, stream: ByteStream, path: PathLike) -> bytes:
        try:
            return await stream.next()
        except FileMissing as error:
            await self._no_file(path, error)

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        await self._ready()
        with self._telling("read_lines", path):
            key = self._file_key(path)
            if key is None:
                await self._no_file(path)
            try:
                return await self._lines.read(key, window)
            except FileMissing as error:
                await self._no_file(path, error)

    # ---- writing ---------------------------------------------------------------------------------------------------

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent and if_version is not None:
            raise ValueError("if_absent and if_version cannot both hold; give one")
        # Converted before anything is awaited: a caller may reuse its buffer, bad text leaves no trace.
        held: AbstractAsyncContextManager[bytes | AsyncIterable[bytes]] = (
            closing_pieces(content) if isinstance(content, AsyncIterable) else nullcontext(content_bytes(content))
        )
        async with held as data:
            key = self._key(path)
            await self._ready()
            with self._telling("write_file", path), self._writes.running():
                condition = Condition(if_absent, if_version)
                self._check_condition(condition)
                await self._places.check_target(key, path, new=if_absent)
                found = await self._write(key, data, condition)
                self._places.written(key)
                return self._info(found)

    async def _write(self, key: str, content: bytes | AsyncIterable[bytes], condition: Condition) -> Found:
        if isinstance(content, bytes):
            if len(content) <= self._store.single_write:
                return await self._store.put(key, content, condition, {})
            content = pieces_of(content, self._store.part_size)
        counting = self._lines.writer(key)
        found = await write_object(self._store, key, content, condition, counting)
        self._lines.written(found, counting)
        return found

    def _check_condition(self, condition: Condition) -> None:
        can = self.capabilities
        if (condition.absent and not can.create_only) or (condition.version is not None and not can.conditional_write):
            raise Unsupported(f"{self!r} cannot write under a condition; its capabilities say so before you call")

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        with self._telling("delete_file", path):
            key = self._file_key(path)
            if key is None:
                await self._no_file(path)
            try:
                await self._store.delete(key)
            except FileMissing as error:
                await self._no_file(path, error)
            await self._lines.forget(key)

    # ---- looking ---------------------------------------------------------------------------------------------------

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        with self._telling("stat", path):
            key = self._key(path)
            found = None if key == self._prefix else await self._store.head(key)
            if found is None and await self._places.is_folder(key):
                return FileInfo(path=self._places.path(key), kind="directory")
            if found is None or split_path(path).names_directory:
                await self._no_file(path)
            return self._info(found)

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        await self._ready()
        with self._telling("list_files", path):
            key = self._key(path)
            empty = True
            async with aclosing(self._store.entries(key, recursive=recursive)) as entries:
                async for entry in entries:
                    empty = False
                    yield self._entry_info(entry)
                    self._lifecycle.check_usable()
            if not empty or await self._places.is_folder(key):
                return
            if await self._store.head(key) is not None:
                raise NotADirectory(f"{_text(path)!r} is a file, not a directory")
            await self._no_file(path)

    # ---- paths and errors ------------------------------------------------------------------------------------------

    def _key(self, path: PathLike) -> str:
        names = resolve_path(path, working_dir=_ROOT, root=_ROOT).parts[1:]
        key = "/".join((self._prefix, *names) if self._prefix else names)
        if len(key.encode()) > MAX_KEY_BYTES:
            raise InvalidPath(
                f"the path {_text(path)[:60]!r}... makes a key longer than {MAX_KEY_BYTES} bytes", path=_text(path)
            )
        return key

    def _file_key(self, path: PathLike) -> str | None:
        """The key of a path that can name a file; None if it can only name a directory."""
        key = self._key(path)
        return None if key == self._prefix or split_path(path).names_directory else key

    def _info(self, found: Found) -> FileInfo:
        return FileInfo(
            path=self._places.path(found.key),
            kind="file",
            size=found.size,
            modified=found.modified,
            version=found.version,
        )

    def _entry_info(self, entry: Entry) -> FileInfo:
        if entry.found is None:
            return FileInfo(path=self._places.path(entry.key), kind=entry.kind)
        found, path = entry.found, self._places.path(entry.key)
        return FileInfo(path=path, kind=entry.kind, size=found.size, modified=found.modified, version=found.version)

    async def _no_file(self, path: PathLike, cause: FileMissing | None = None) -> NoReturn:
        await self._places.no_file(self._key(path), path, repr(self), cause)

    @contextmanager
    def _telling(self, operation: str, path: PathLike) -> Iterator[None]:
        """Adds to an error what the store does not know."""
        try:
            yield
        except SteadError as error:
            if self._lifecycle.state is State.CLOSED and not isinstance(error, EnvironmentClosed):
                raise EnvironmentClosed(
                    f"{self!r} was closed meanwhile", backend=self._store.backend, operation=operation, path=_text(path)
                ) from error
            error.backend = error.backend or self._store.backend
            error.operation = error.operation or operation
            error.path = error.path if error.path is not None else _text(path)
            raise

    def _unsupported(self, operation: str) -> Unsupported:
        if not operation.startswith("execute"):
            return super()._unsupported(operation)
        return Unsupported(
            f"{self!r} stores files and runs no commands; put it together with an environment that does: "
            "stead.wrappers.MountsEnvironment for one namespace, stead.wrappers.StagedEnvironment to run on a copy of the files",
            operation=operation,
        )


def _text(path: PathLike) -> str:
    return os.fspath(path)
