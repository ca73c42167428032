"""The one thread of this process on which blocking callers run asynchronous work.

Started by the first call, a daemon, and ended before the interpreter exits. `stead.sync` is its public face.
"""

import asyncio
import atexit
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from stead.errors import SteadError

__all__ = ["Call", "LoopThread", "Pump", "loop_thread"]

T = TypeVar("T")
R = TypeVar("R")

CLEAN_UP_SECONDS = 10.0
"""How long an interrupted caller waits for the clean-up of what it had started."""
EXIT_SECONDS = 5.0
"""How long the exit of the interpreter waits for open environments to close."""


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_Workers(thread_name_prefix="stead.sync"))
        self.closed = False
        self._at_exit: WeakKeyDictionary[object, Callable[[], Awaitable[None]]] = WeakKeyDictionary()
        self._thread = threading.Thread(target=self.loop.run_forever, name="stead.sync", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self.loop.close()
            raise SteadError("stead.sync cannot start its thread, since the process is exiting") from error

    def is_own_thread(self) -> bool:
        """Returns True on the loop's own thread, where waiting for the loop would wait for ever."""
        return threading.get_ident() == self._thread.ident

    def call_at_exit(self, owner: object, close: Callable[[], Awaitable[None]]) -> None:
        """Has `close` called when the process ends, if `owner` still lives then."""
        self._at_exit[owner] = close

    def forget(self, owner: object) -> None:
        """Takes back what `call_at_exit` was told."""
        self._at_exit.pop(owner, None)

    def close(self) -> None:
        """Runs the steps of `call_at_exit`, cancels what still runs, and ends the thread; at most `EXIT_SECONDS`."""
        if self.closed:
            return
        self.closed = True
        ending = asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        ending.add_done_callback(lambda _: self.loop.call_soon_threadsafe(self.loop.stop))
        self._thread.join(EXIT_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()

    async def _end(self) -> None:
        own = asyncio.current_task()
        closing = [asyncio.ensure_future(close()) for close in list(self._at_exit.values())]
        if closing:
            await asyncio.wait(closing, timeout=EXIT_SECONDS * 0.6)
        left = [task for task in asyncio.all_tasks() if task is not own]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=EXIT_SECONDS * 0.2)
        await asyncio.get_running_loop().shutdown_asyncgens()


class _Workers(ThreadPoolExecutor):
    """Worker threads, and when there are none any more the loop's own thread.

    Python ends all pools before it runs exit handlers, and closing an environment may need one.
    """

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> "Future[R]":
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            done: Future[R] = Future()
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - whoever waits for the future gets it
                done.set_exception(error)
            return done


class Call(Generic[T]):
    """One piece of asynchronous work, run on the loop's thread while the calling thread waits."""

    def __init__(self, thread: LoopThread, work: Callable[["Call[T]"], Awaitable[T]]) -> None:
        self._thread = thread
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._result: T
        self._error: BaseException | None = None
        # What the work asks the calling thread to do; None says that the work has ended.
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def run(self) -> T:
        """Runs the work. An interrupt (Ctrl-C) cancels it and waits for its clean-up, at most `CLEAN_UP_SECONDS`.

        Returns:
            What the work returned.

        Raises:
            SteadError: The thread was closed while the work ran, or the work was cancelled from inside.
            BaseException: What the work raised.
        """
        loop = self._thread.loop
        try:
            loop.call_soon_threadsafe(self._begin, context=copy_context())
            while (job := self._asked.get()) is not None:
                job()
        except BaseException:
            loop.call_soon_threadsafe(self._cancel)
            self._wait_for_end()
            raise
        if self._task is not None and self._error is None and self._task.cancelled():
            self._error = asyncio.CancelledError()
        if isinstance(self._error, asyncio.CancelledError):
            why = (
                "the call was cancelled; the process is about to exit"
                if self._thread.closed
                else "the work was cancelled"
            )
            raise SteadError(why) from None
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # the traceback holds this frame: no cycle, so generators in it close at once
        return self._result

    async def ask(self, job: Callable[[], R]) -> R:
        """For the work: has the calling thread, which waits anyway, run `job`.

        Returns:
            What `job` returned.

        Raises:
            Exception: What `job` raised.
        """
        loop = self._thread.loop
        reply: asyncio.Future[R] = loop.create_future()

        def do() -> None:
            try:
                result = job()
            except Exception as error:  # noqa: BLE001 - it is raised again, where the work waits for the answer
                loop.call_soon_threadsafe(_settle, reply, None, error)
            else:
                loop.call_soon_threadsafe(_settle, reply, result, None)

        self._asked.put(do)
        return await reply

    def _begin(self) -> None:
        self._task = self._thread.loop.create_task(self._main())
        self._task.add_done_callback(lambda _: self._asked.put(None))

    async def _main(self) -> None:
        try:
            self._result = await self._work(self)
        except BaseException as error:  # noqa: BLE001 - the caller gets it; SystemExit here would end the loop of all
            self._error = error

    def _cancel(self) -> None:
        if self._task is None:
            self._asked.put(None)
        else:
            self._task.cancel()

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + CLEAN_UP_SECONDS
        try:
            while self._asked.get(timeout=max(0.0, deadline - time.monotonic())) is not None:
                pass
        except Empty:
            return


class Pump(Generic[T]):
    """An async generator that is stepped from outside, yet lives in one task: scopes inside it may not change tasks."""

    def __init__(self, make: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[T]
        self._step_asked: asyncio.Future[None]

    async def step(self) -> T:
        """Fetches the next item.

        Returns:
            The item.

        Raises:
            StopAsyncIteration: There is none.
        """
        loop = asyncio.get_running_loop()
        self._wanted = loop.create_future()
        if self._task is None:
            self._task = loop.create_task(self._run())
        elif self._task.done():
            raise StopAsyncIteration
        else:
            self._step_asked.set_result(None)
        return await self._wanted

    async def stop(self) -> None:
        """Closes the generator, also in the middle of a step; waits for its clean-up, at most `CLEAN_UP_SECONDS`."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLEAN_UP_SECONDS)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with aclosing(self._make()) as stream:
                async for item in stream:
                    self._step_asked = loop.create_future()
                    _settle(self._wanted, item, None)
                    await self._step_asked
        except asyncio.CancelledError:
            _settle(self._wanted, None, SteadError("the stream was closed"))
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised by the step that waits for it
            _settle(self._wanted, None, error)
        else:
            _settle(self._wanted, None, StopAsyncIteration())


def _settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        if isinstance(error, StopIteration):  # awaiting a future, it would pass for a result: futures refuse it
            cause, error = error, RuntimeError(f"{type(error).__name__} was raised where nothing iterates")
            error.__cause__ = cause
        future.set_exception(error)
        future.exception()  # retrieved: whoever waited may have gone


_lock = threading.RLock()  # re-entrant, since the garbage collector may close a stream while it is held
_current: LoopThread | None = None
_lost: list[tuple[LoopThread, set[asyncio.Task[Any]]]] = []


def loop_thread() -> LoopThread:
    """Returns the loop thread of this process, started if there is none.

    Raises:
        SteadError: This is the loop's own thread, or the process is exiting.
    """
    global _current  # noqa: PLW0603 - one thread a process is the point
    with _lock:
        if _current is None:
            _current = LoopThread()
            atexit.register(_current.close)
        if _current.is_own_thread():
            raise SteadError("a blocking call on the event loop's own thread would never return; await it instead")
        if _current.closed:
            raise SteadError("stead.sync was closed, since the process is exiting")
        return _current


def _forget_after_fork() -> None:
    # The thread does not exist in the child. Its loop and tasks are kept for ever: the tasks cannot be finished, and
    # closing the loop would take the parent's descriptors out of the epoll set that both share.
    global _current, _lock  # noqa: PLW0603 - see above
    _lock = threading.RLock()
    if _current is not None:
        _lost.append((_current, asyncio.all_tasks(_current.loop)))
        _current.closed = True
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
