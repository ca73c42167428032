"""A blocking facade over any environment, for code without an event loop, or inside one that cannot await (a notebook).

    with stead.sync.create_environment("local", root=".") as env:
        env.write_file("a.txt", "hello")
        for chunk in env.read_file_stream("a.txt"):
            ...

Everything runs on one daemon thread of the process. A `for` loop that leaves early closes its stream; an iterator that
is kept is closed with `contextlib.closing`. Ctrl-C cancels the call and waits, at most 10 s, for its clean-up. What is
still open when the process ends is closed, in at most 5 s.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self, TypeVar

from stead.capabilities import Capabilities
from stead.environment import Content, Environment, PathLike
from stead.errors import SteadError
from stead.loop_thread import Call, LoopThread, Pump, loop_thread
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk

__all__ = ["SyncEnvironment", "create_environment", "run"]

T = TypeVar("T")
_END: Any = object()


def create_environment(name: str, /, **options: object) -> "SyncEnvironment":
    """Makes an environment by name, as `stead.create_environment` does, behind the blocking facade.

    Args:
        name: A backend's name, or `"package.module:Class"`.
        **options: The backend's options.

    Raises:
        SteadError: As `stead.create_environment`.
    """
    from stead.registry import create_environment as create

    return SyncEnvironment(create(name, **options))


def run(work: Awaitable[T] | Callable[[], Awaitable[T]]) -> T:
    """Runs asynchronous work to its end, on the thread and loop that all blocking environments use.

    So `run(reducer.truncate(call, result))` may store in an environment that this module opened.

    Args:
        work: A coroutine, or a function that returns one.

    Returns:
        What the work returned.

    Raises:
        SteadError: The call comes from that thread itself, the process is exiting, or the work was cancelled.
        BaseException: What the work raised.
    """
    started = False

    async def main(_call: Call[T]) -> T:
        nonlocal started
        started = True
        return await (work if isinstance(work, Awaitable) else work())

    try:
        return Call(loop_thread(), main).run()
    finally:
        if not started and asyncio.iscoroutine(work):
            work.close()


class SyncEnvironment:
    """An environment with the same methods, each of which returns when it is done.

    Streams are plain iterators. May be used from several threads.
    """

    def __init__(self, environment: Environment) -> None:
        """Wraps an environment that no other event loop has started.

        Args:
            environment: The environment. Nothing is started before the first call.
        """
        self._environment = environment
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return f"SyncEnvironment({self._environment!r})"

    @property
    def environment(self) -> Environment:
        """The environment behind the facade; await its methods only inside `stead.sync.run`."""
        return self._environment

    @property
    def capabilities(self) -> Capabilities:
        """As `Environment.capabilities`."""
        return self._environment.capabilities

    @property
    def working_dir(self) -> PurePosixPath:
        """As `Environment.working_dir`."""
        return self._environment.working_dir

    def start(self) -> None:
        """As `Environment.start`."""
        self._run(self._environment.start)

    def close(self) -> None:
        """As `Environment.close`."""
        self._run(self._environment.close)
        if self._thread is not None:
            self._thread.forget(self)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def read_file(self, path: PathLike) -> bytes:
        """As `Environment.read_file`."""
        return self._run(lambda: self._environment.read_file(path))

    def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> Generator[bytes, None, None]:
        """As `Environment.read_file_stream`, for a `for` loop."""
        return self._iterate(lambda: self._environment.read_file_stream(path, offset=offset, length=length))

    def write_file(
        self,
        path: PathLike,
        content: Content | Iterable[bytes],
        *,
        if_absent: bool = False,
        if_version: str | None = None,
    ) -> FileInfo:
        """As `Environment.write_file`; pieces may also come from a plain iterable, which runs in the calling thread."""

        async def write(call: Call[FileInfo]) -> FileInfo:
            return await self._environment.write_file(
                path, _content(content, call), if_absent=if_absent, if_version=if_version
            )

        return Call(self._bound_thread(), write).run()

    def stat(self, path: PathLike) -> FileInfo:
        """As `Environment.stat`."""
        return self._run(lambda: self._environment.stat(path))

    def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> Generator[FileInfo, None, None]:
        """As `Environment.list_files`, for a `for` loop."""
        return self._iterate(lambda: self._environment.list_files(path, recursive=recursive))

    def delete_file(self, path: PathLike) -> None:
        """As `Environment.delete_file`."""
        self._run(lambda: self._environment.delete_file(path))

    def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        """As `Environment.read_lines`."""
        return self._run(lambda: self._environment.read_lines(path, window))

    def execute(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecutionResult:
        """As `Environment.execute`. Ctrl-C ends the command."""
        return self._run(
            lambda: self._environment.execute(
                command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
            )
        )

    def execute_stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> Generator[OutputChunk | ExecutionResult, None, None]:
        """As `Environment.execute_stream`, for a `for` loop. Leaving the loop, or Ctrl-C, ends the command."""
        return self._iterate(
            lambda: self._environment.execute_stream(
                command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
            )
        )

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        return Call(self._bound_thread(), lambda _call: work()).run()

    def _iterate(self, make: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        pump = Pump(make)
        thread = self._bound_thread()
        try:
            while True:
                try:
                    item = Call(thread, lambda _call: pump.step()).run()
                except StopAsyncIteration:
                    return
                yield item
        finally:
            _stop(pump, thread)

    def _bound_thread(self) -> LoopThread:
        thread = loop_thread()
        if self._thread is None:
            self._thread = thread
            thread.call_at_exit(self, self._environment.close)
        elif self._thread is not thread:
            raise SteadError("this environment was opened before the process forked; create another in the child")
        return thread


def _stop(pump: Pump[Any], thread: LoopThread) -> None:
    if thread.closed:
        return
    if thread.is_own_thread():  # the garbage collector runs wherever it likes
        thread.loop.create_task(pump.stop())
    else:
        Call(thread, lambda _call: pump.stop()).run()


def _content(content: Content | Iterable[bytes], call: Call[FileInfo]) -> Content:
    if isinstance(content, (str, bytes, bytearray, memoryview, AsyncIterable)):
        return content
    return _pieces(content, call)


async def _pieces(content: Iterable[bytes], call: Call[FileInfo]) -> AsyncGenerator[bytes, None]:
    iterator: Iterator[bytes] = await call.ask(lambda: iter(content))
    while (piece := await call.ask(lambda: next(iterator, _END))) is not _END:
        yield piece
