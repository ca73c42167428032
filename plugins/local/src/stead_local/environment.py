"""The local backend: files below one folder of this machine, commands as its own processes."""

import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from stead.adapt import closing_pieces, content_bytes
from stead.capabilities import POSIX
from stead.environment import Content, Environment, PathLike, check_range
from stead.errors import AccessDenied, EnvironmentClosed, FileMissing, NotADirectory
from stead.paths import split_path
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk
from stead_local import files
from stead_local.commands import CommandOptions, Commands, Limits
from stead_local.errors import BACKEND, translated
from stead_local.hop import hop
from stead_local.lines import Cache, read_lines
from stead_local.pinned import CHUNK, FileStream
from stead_local.replace import Replacement
from stead_local.walk import Root

__all__ = ["LocalEnvironment"]


class LocalEnvironment(Environment):
    """Files below one folder, commands run there by a shell of this machine.

    File methods cannot leave the folder. Commands can: they run as this user with nothing between them and the machine
    (`isolation` is `"none"`). Run code that you do not trust in a sandbox backend.
    """

    capabilities = POSIX

    def __init__(
        self,
        root: PathLike = ".",
        *,
        state_dir: str = ".stead",
        shell: str = "/bin/sh",
        inherit_env: bool = False,
        output_limit: int = 1 << 20,
        limits: Limits | Mapping[str, int] | None = None,
        on_close: Literal["kill", "keep"] = "kill",
    ) -> None:
        """Takes the options; touches nothing.

        Args:
            root: The folder, made at start with its parents. A relative one is taken from the present directory now.
            state_dir: Where spilled output goes, relative to `root`.
            shell: What runs a command that is a `str`.
            inherit_env: Hand all of this process's variables to commands, secrets included.
            output_limit: Bytes of each stream of a command that a result holds, unless the call says otherwise.
            limits: Resource limits for commands; see `Limits`.
            on_close: Whether `close()` kills what commands left in the background.
        """
        self.state_dir = state_dir
        self._root = Root(root)
        self._working_dir = PurePosixPath(self._root.path)
        self._indexes: Cache = Cache()
        self._streams: weakref.WeakSet[FileStream] = weakref.WeakSet()
        self._stops: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        options = CommandOptions(
            shell=shell, inherit_env=inherit_env, output_limit=output_limit, limits=limits, on_close=on_close
        )
        self._commands = Commands(self._root, state_dir=state_dir, options=options)

    def __repr__(self) -> str:
        return f"LocalEnvironment({self._root.path!r})"

    @property
    def working_dir(self) -> PurePosixPath:
        return self._working_dir

    async def _start(self) -> None:
        with translated("start", self._root.path):
            await hop(self._root.prepare)

    async def _close(self) -> None:
        for stop in list(self._stops):
            stop.set()
        for stream in list(self._streams):
            await hop(stream.close)
        self._indexes.clear()
        await self._commands.close()

    def _stop_flag(self) -> threading.Event:
        """Makes the flag that ends long work in a thread: set by the caller's cancellation and by `close()`."""
        stop = threading.Event()
        self._stops.add(stop)
        return stop

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        return await hop(partial(files.read_all, self._root, path))

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        check_range(offset, length)
        await self._ready()
        stream = FileStream(self._root, path, offset, length)
        self._streams.add(stream)
        try:
            while chunk := await hop(stream.next):
                yield chunk
        finally:
            stream.close()

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        await self._ready()
        stop = self._stop_flag()
        return await hop(partial(read_lines, self._root, path, window, self._indexes, stop.is_set), stop=stop)

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent and if_version is not None:
            raise ValueError("if_absent and if_version cannot both hold; give one")
        split_path(path)
        # Converted before anything is awaited or opened: a caller may reuse its buffer, bad text leaves no trace.
        data = None if isinstance(content, AsyncIterable) else content_bytes(content)
        await self._ready()
        replacement = Replacement(self._root, path, if_absent=if_absent, if_version=if_version)
        if isinstance(content, AsyncIterable):
            info = await self._write_stream(replacement, content)
        else:
            info = await self._write_whole(replacement, data or b"")
        return files.file_info(self._working_dir, replacement.parts, info)

    async def _write_whole(self, replacement: Replacement, data: bytes) -> os.stat_result:
        stop = self._stop_flag()
        info = await hop(partial(files.write_all, replacement, data, stop.is_set), stop=stop)
        if info is None:
            raise EnvironmentClosed("the environment was closed during a write; the old content stays", backend=BACKEND)
        return info

    async def _write_stream(self, replacement: Replacement, content: AsyncIterable[bytes]) -> os.stat_result:
        try:
            async with closing_pieces(content) as pieces:
                await hop(replacement.begin)
                pending = bytearray()
                async for piece in pieces:
                    pending += content_bytes(piece, text=False)
                    if len(pending) >= CHUNK:
                        self._lifecycle.check_usable()
                        await hop(partial(replacement.write, bytes(pending)))
                        pending.clear()
            await hop(partial(replacement.write, bytes(pending)))
            self._lifecycle.check_usable()
            return await hop(replacement.commit)
        finally:
            replacement.abort()

    async def stat(self, path: PathLike) -> FileInfo:
        await self._ready()
        return await hop(partial(files.stat_path, self._root, self._working_dir, path))

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        await self._ready()
        entries = await hop(partial(files.list_directory, self._root, self._working_dir, path))
        waiting = _steps(entries, recursive=recursive)
        while waiting:
            step = waiting.pop()
            if not step.descend:
                yield step.info
                continue
            try:
                below = await hop(partial(files.list_directory, self._root, self._working_dir, step.info.path))
            except (AccessDenied, FileMissing, NotADirectory):
                continue  # closed to us, or removed or replaced since its parent was listed
            waiting += _steps(below, recursive=True)

    async def delete_file(self, path: PathLike) -> None:
        await self._ready()
        await hop(partial(files.delete, self._root, path))

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecutionResult:
        await self._ready()
        return await self._commands.run(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )

    async def execute_stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        await self._ready()
        stream = self._commands.stream(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )
        async with aclosing(stream) as items:
            async for item in items:
                yield item


class _Step(NamedTuple):
    """One turn of a listing: show an entry, or go into a directory."""

    key: str
    info: FileInfo
    descend: bool


def _steps(entries: list[files.Entry], *, recursive: bool) -> list[_Step]:
    # What is below `a` sorts as `a/...`, so after a sibling such as `a-b`: going in is a turn of its own.
    steps = [_Step(entry.name, entry.info, descend=False) for entry in entries]
    if recursive:
        steps += [_Step(entry.name + "/", entry.info, descend=True) for entry in entries if entry.is_directory]
    return sorted(steps, key=lambda step: step.key, reverse=True)
