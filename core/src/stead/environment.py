"""The contract: where an agent's files live and its commands run."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from pathlib import PurePosixPath
from types import TracebackType
from typing import Self

from stead.capabilities import Capabilities
from stead.errors import Unsupported
from stead.lifecycle import Lifecycle, State
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk

__all__ = ["CONTRACT", "Content", "Environment", "PathLike"]

CONTRACT = "1.0"
"""Version of this contract. A plugin is accepted if its major is equal and its minor is not newer."""

PathLike = str | os.PathLike[str]
Content = str | bytes | bytearray | memoryview | AsyncIterable[bytes]


class Environment(ABC):
    r"""Where an agent's files live and its commands run.

    Only `working_dir`, `read_file` and `write_file` must be written. Each optional method stands behind the capability
    of the same name; the base raises `Unsupported`. Use it as `async with env:`; the first use starts it too.

    For authors: put first-use work in `async def _start()`, its release in `async def _close()`, and begin each method
    with `await self._ready()`, which starts the environment and refuses a closed one. `super().__init__()` need not
    be called.

    Paths are `str` or `os.PathLike`, POSIX. A relative one starts at `working_dir`; an absolute one must lie inside the
    root. `stead.paths` is the one rule.
    """

    capabilities: Capabilities = Capabilities()
    """What this environment can do: plain data, readable before start and without credentials."""
    state_dir: str = ".stead"
    """Where stead keeps its own files (offloads, spilled output), below `working_dir`. The tools pass it over."""

    @property
    @abstractmethod
    def working_dir(self) -> PurePosixPath:
        """Where relative paths start and commands run: absolute, readable before start."""

    # ---- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the environment. Idempotent; concurrent callers share one start.

        Raises:
            EnvironmentClosed: `close()` was called.
            AccessDenied: The credentials were refused.
            Unavailable: The service could not be reached.
            SteadError: It was started by another event loop.
        """
        await self._lifecycle.start(self._start)

    async def close(self) -> None:
        """Ends the environment and releases what it holds. Idempotent; afterwards every call raises.

        A running `execute` ends with `EnvironmentClosed` and its processes are killed; an open stream raises
        `EnvironmentClosed` at its next step. Files stay.

        Raises:
            SteadError: It was started by another event loop.
        """
        await self._lifecycle.close(self._close)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _start(self) -> None:
        """Hook: work of the first use. If it fails it must undo what it did."""

    async def _close(self) -> None:
        """Hook: releases what `_start` and the methods acquired. Runs at most once, and only after a start."""

    async def _ready(self) -> None:
        """For authors: the first line of every method. Starts on first use.

        Raises:
            EnvironmentClosed: `close()` was called.
            SteadError: The environment belongs to another event loop.
        """
        if not self._lifecycle.is_open_here():
            await self.start()

    @property
    def _lifecycle(self) -> Lifecycle:
        # Kept lazily, so that a subclass need not call super().__init__().
        try:
            return self.__dict__["_stead_lifecycle"]  # type: ignore[no-any-return]
        except KeyError:
            return self.__dict__.setdefault("_stead_lifecycle", Lifecycle(type(self).__name__))  # type: ignore[no-any-return]

    def __del__(self) -> None:
        lifecycle = self.__dict__.get("_stead_lifecycle")
        if lifecycle is not None and lifecycle.state is State.OPEN:
            warnings.warn(
                f"{type(self).__name__} was started and never closed; use `async with`",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    # ---- files -----------------------------------------------------------------------------------------------------

    @abstractmethod
    async def read_file(self, path: PathLike) -> bytes:
        """Reads a whole file.

        Args:
            path: The file.

        Returns:
            Its bytes, of one version.

        Raises:
            FileMissing: Nothing is there, or a parent is missing.
            IsADirectory: It is a directory.
            NotADirectory: A parent is a file, or a file's path ends in `/`.
            AccessDenied: The system or the service refused.
            PathOutsideRoot: The path leads out of the root.
            InvalidPath: No file can have that path.
            Unsupported: It is not a regular file (FIFO, device, socket).
            FileChanged: It changed while it was read.
            StreamInterrupted: The body ended early.
            EnvironmentClosed: The environment was closed.
            EnvironmentLost: The sandbox behind it is gone.
            Unavailable: The service gave no answer.
            TypeError: `path` is no `str` or `os.PathLike[str]`.
        """

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Reads a file in chunks. Iterate it under `contextlib.aclosing`: only `aclose()` releases it at once.

        The base yields `read_file`'s bytes as one chunk (`streaming_read` is then False).

        Args:
            path: The file.
            offset: First byte, from 0; past the end yields nothing.
            length: Most bytes to yield; None is to the end of the file as it was when the stream opened.

        Yields:
            Non-empty bytes in file order, of any size; a line or a character may span chunks.

        Raises:
            ValueError: `offset` or `length` is negative. This and all errors of `read_file` rise at the first step, so a
                missing file is never an empty stream.
            FileChanged: The file shrank or was rewritten after the stream opened.
            StreamInterrupted: The body ended early; never a silently short file.
        """
        check_range(offset, length)
        data = await self.read_file(path)
        part = data[offset : None if length is None else offset + length]
        if part:
            yield part

    @abstractmethod
    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        r"""Replaces a file, or makes it and its parents. A reader sees the old or the new content in full.

        Args:
            path: The file. A link inside the root is written through. Permission bits of an existing file are kept.
            content: `str` (stored as UTF-8, newlines untouched), bytes-like (copied first), or an async iterable of
                bytes-like pieces, written in bounded memory where `streaming_write` is declared.
            if_absent: Only make a new file; needs the capability `create_only`.
            if_version: Only replace this version (of `FileInfo.version`); needs `conditional_write`.

        Returns:
            What is there now; its `version` equals that of the next `stat`.

        Raises:
            FileExists: `if_absent`, and something is there.
            FileChanged: `if_version`, and another version or nothing is there.
            UnicodeEncodeError: `content` holds a lone surrogate. The old file is intact.
            TypeError: `content` or an item of it is of another type. The old file is intact.
            ValueError: Both conditions were given.
            IsADirectory: The path is a directory or ends in `/`.
            NotADirectory: A parent is a file.
            AccessDenied: The file or its directory may not be written.
            PathOutsideRoot: The path, or the link it names, leads out of the root.
            InvalidPath: No file can have that path.
            Unsupported: The condition is not declared, or the path is no regular file.
            EnvironmentClosed: The environment was closed.
            EnvironmentLost: The sandbox behind it is gone.
            Unavailable: The service gave no answer.
        """

    async def stat(self, path: PathLike) -> FileInfo:
        """Says what is at a path; links are followed.

        Returns:
            Its `FileInfo`.

        Raises:
            Unsupported: `stat` is not declared.
            FileMissing: Nothing is there.
            NotADirectory: A parent is a file.
            AccessDenied: The system or the service refused.
            PathOutsideRoot: The path leads out of the root.
            InvalidPath: No file can have that path.
            EnvironmentClosed: The environment was closed.
            Unavailable: The service gave no answer.
        """
        raise self._unsupported("stat")

    def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        """Lists a directory, sorted by path.

        Directories are listed too; links are shown as what they lead to and never walked into.

        Args:
            path: The directory.
            recursive: Also list what is below its directories; a directory that may not be listed is only named.

        Yields:
            One `FileInfo` an entry.

        Raises:
            Unsupported: `list_files` is not declared.
            FileMissing: Nothing is there. This and the next rise at the first step.
            NotADirectory: It is a file.
            AccessDenied: The system or the service refused `path` itself.
            PathOutsideRoot: The path leads out of the root.
            InvalidPath: No file can have that path.
            EnvironmentClosed: The environment was closed.
            Unavailable: The service gave no answer.
        """
        raise self._unsupported("list_files")

    async def delete_file(self, path: PathLike) -> None:
        """Removes a file. A link is removed itself, wherever it leads.

        Raises:
            Unsupported: `delete_file` is not declared.
            FileMissing: Nothing is there.
            IsADirectory: It is a directory; trees cannot be removed by this contract.
            NotADirectory: A parent is a file.
            AccessDenied: The system or the service refused.
            PathOutsideRoot: The path leads out of the root.
            InvalidPath: No file can have that path.
            EnvironmentClosed: The environment was closed.
            Unavailable: The service gave no answer.
        """
        raise self._unsupported("delete_file")

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        """Reads a window of lines in bounded memory, however large the file or a line.

        The base scans `read_file_stream`, keeps a sparse index for each version, and fetches later pages by byte range
        where `range_read` is declared.

        Args:
            path: The file.
            window: Which lines, and how much text at most.

        Returns:
            The window; empty if the file has fewer lines than `window.start`.

        Raises:
            ValueError: `start_column` is past the end of its line; the message has the line's length.
            FileChanged: The file kept changing while it was read.
            SteadError: As `read_file`.
        """
        from stead.reading import read_lines_of_stream

        return await read_lines_of_stream(self, path, window)

    # ---- commands --------------------------------------------------------------------------------------------------

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
        """Runs a command to its end. Never repeated by stead, since it may have had effects.

        Args:
            command: `str` runs in a shell; a sequence of `str` is argv, literal.
            timeout: Seconds until the whole process tree is killed; None or infinity is no limit.
            cwd: Where it runs, a path as for files; None is `working_dir`.
            env: Variables to add to those that commands get.
            stdin: What the command can read; None is end of file at once.
            output_limit: Bytes of each stream to return; the rest is spilled to a file that the result names. None is
                the environment's own limit (1 MiB unless configured), 0 keeps none.

        Returns:
            The result. Exit codes, a missing program (127), death by signal (128+n) and a timeout are results.

        Raises:
            Unsupported: `execute` is not declared.
            ValueError: An empty command, NUL in an argument, a bad variable name, or a number out of range.
            TypeError: An argument is of the wrong type.
            FileMissing: `cwd` does not exist.
            NotADirectory: `cwd` is a file.
            PathOutsideRoot: `cwd` leads out of the root.
            InvalidPath: No directory can have the path `cwd`.
            AccessDenied: `cwd` may not be entered.
            EnvironmentClosed: The environment was closed, before or during the command.
            EnvironmentLost: What ran the command is gone; the command may have run.
            Unavailable: The service gave no answer; the command may have run.
        """
        raise self._unsupported("execute")

    def execute_stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        """Runs a command and yields its output as it comes. Closing the generator kills the process tree.

        Args:
            command: As `execute`, and so are all other arguments.
            timeout: As `execute`.
            cwd: As `execute`.
            env: As `execute`.
            stdin: As `execute`.
            output_limit: Limits what the final result repeats, never the chunks.

        Yields:
            `OutputChunk`s, and as the last item the `ExecutionResult`.

        Raises:
            Unsupported: `execute_stream` is not declared.
            SteadError: As `execute`, at the first step.
        """
        raise self._unsupported("execute_stream")

    def _unsupported(self, operation: str) -> Unsupported:
        return Unsupported(
            f"{type(self).__name__} does not support {operation}; its capabilities say so before you call",
            operation=operation,
        )


def check_range(offset: int, length: int | None) -> None:
    """Refuses a byte range that cannot be meant.

    Raises:
        TypeError: A value is not an int.
        ValueError: A value is negative.
    """
    for name, value in (("offset", offset), ("length", length)):
        if value is None and name == "length":
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {value!r}")
        if value < 0:
            raise ValueError(f"{name} must not be negative, not {value}")
