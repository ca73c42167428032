"""The blocking facade: the contract's methods, streams that close, interrupts, loops, threads, forks and exits."""

import asyncio
import gc
import inspect
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from contextvars import ContextVar
from typing import Any

import pytest

import stead.sync
from stead import Environment
from stead.environments import MemoryEnvironment
from stead.errors import EnvironmentClosed, FileMissing, SteadError, Unsupported
from stead.loop_thread import loop_thread
from stead.results import LineRange
from stead.sync import SyncEnvironment


class Watched(MemoryEnvironment):
    """Streams endless chunks, and remembers what was opened, closed and cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = 0
        self.cleaned_up = False
        self.scope_task: asyncio.Task[Any] | None = None
        self.same_task = False

    async def read_file_stream(self, path, *, offset=0, length=None) -> AsyncGenerator[bytes, None]:
        self.opened += 1
        self.scope_task = asyncio.current_task()
        try:
            while True:
                yield b"chunk"
        finally:
            self.same_task = self.scope_task is asyncio.current_task()
            self.closed += 1

    async def read_file(self, path) -> bytes:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            self.cleaned_up = True
        return b""


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]


def public(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_it_has_exactly_the_methods_of_the_contract():
    """No method is missing and none is invented."""
    assert public(SyncEnvironment) == public(Environment)


@pytest.mark.parametrize("name", sorted(public(Environment)))
def test_each_method_takes_the_parameters_of_the_contract(name):
    """Names, kinds and defaults are equal."""
    assert parameters(getattr(SyncEnvironment, name)) == parameters(getattr(Environment, name))


def test_all_methods_work():
    """Every file method answers as the environment behind it."""
    with SyncEnvironment(MemoryEnvironment()) as env:
        info = env.write_file("a/b.txt", "one\ntwo\n")
        assert env.read_file("a/b.txt") == b"one\ntwo\n"
        assert env.stat("a/b.txt") == info
        assert b"".join(env.read_file_stream("a/b.txt", offset=4)) == b"two\n"
        assert [item.path for item in env.list_files(recursive=True)] == ["/a", "/a/b.txt"]
        assert env.read_lines("a/b.txt", LineRange(start=2)).lines == "two"
        env.delete_file("a/b.txt")
        with pytest.raises(FileMissing):
            env.read_file("a/b.txt")
        with pytest.raises(Unsupported):
            env.execute("true")
        with pytest.raises(Unsupported):
            list(env.execute_stream("true"))
        assert env.capabilities == MemoryEnvironment.capabilities
        assert str(env.working_dir) == "/"


def test_use_after_close_is_refused():
    """The facade adds nothing to the environment's own rule, and closing twice is fine."""
    env = SyncEnvironment(MemoryEnvironment())
    env.start()
    env.close()
    env.close()
    with pytest.raises(EnvironmentClosed):
        env.read_file("a")
    with pytest.raises(EnvironmentClosed):
        next(env.read_file_stream("a"))


def test_a_for_loop_that_leaves_early_closes_the_stream():
    """Break and an exception in the body both release at once, in the task that opened."""
    inner = Watched()
    with SyncEnvironment(inner) as env:
        for _ in env.read_file_stream("a"):
            break
        assert (inner.opened, inner.closed, inner.same_task) == (1, 1, True)
        with pytest.raises(RuntimeError):
            for _ in env.read_file_stream("a"):
                raise RuntimeError
        gc.collect()
        assert (inner.opened, inner.closed) == (2, 2)


def test_a_kept_iterator_is_closed_by_closing():
    """`contextlib.closing` releases what a name still holds."""
    inner = Watched()
    with SyncEnvironment(inner) as env, closing(env.read_file_stream("a")) as stream:
        assert next(stream) == b"chunk"
        stream.close()
        assert inner.closed == 1
        assert list(stream) == []


def test_an_unused_iterator_opens_nothing():
    """Nothing is acquired before the first step."""
    inner = Watched()
    with SyncEnvironment(inner) as env:
        env.read_file_stream("a").close()
    assert (inner.opened, inner.closed) == (0, 0)


def test_errors_rise_at_the_first_step():
    """A missing file is never an empty stream."""
    with SyncEnvironment(MemoryEnvironment()) as env, pytest.raises(FileMissing):
        list(env.read_file_stream("none"))


def test_a_stream_dropped_on_the_loop_thread_is_closed():
    """The garbage collector may run there; it must neither wait nor leak."""
    inner = Watched()
    with SyncEnvironment(inner) as env:
        held = [env.read_file_stream("a")]
        next(held[0])
        loop_thread().loop.call_soon_threadsafe(held.clear)
        wait_until(lambda: inner.closed == 1)


def test_pieces_may_come_from_a_plain_iterable_in_the_calling_thread():
    """So one environment's stream can be written to another, and the pieces are made where the caller is."""
    threads = []

    def pieces():
        threads.append(threading.get_ident())
        yield b"abc"
        yield memoryview(b"def")

    with SyncEnvironment(MemoryEnvironment()) as one, SyncEnvironment(MemoryEnvironment()) as other:
        assert one.write_file("a", pieces()).size == 6
        other.write_file("b", one.read_file_stream("a"))
        assert other.read_file("b") == b"abcdef"
        other.write_file("c", [])
        assert other.read_file("c") == b""
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("bad", [[b"new", "text"], [b"new", None], 5])
def test_other_content_is_refused_with_the_old_file_intact(bad):
    """Strings are no pieces, and None does not end the file early."""
    with SyncEnvironment(MemoryEnvironment()) as env:
        env.write_file("a", b"old")
        with pytest.raises(TypeError):
            env.write_file("a", bad)
        assert env.read_file("a") == b"old"


def test_an_error_of_the_iterable_reaches_the_caller():
    """It is the same error, and the old file is intact."""
    error = RuntimeError("source failed")

    def pieces():
        yield b"new"
        raise error

    with SyncEnvironment(MemoryEnvironment()) as env:
        env.write_file("a", b"old")
        with pytest.raises(RuntimeError) as caught:
            env.write_file("a", pieces())
        assert caught.value is error
        assert env.read_file("a") == b"old"


@pytest.mark.parametrize("error", [StopIteration, type("Stop", (StopIteration,), {}), StopAsyncIteration, SystemExit])
def test_no_error_of_the_iterable_leaves_the_caller_waiting(error):
    """Those that mean an end where something iterates become others, since the file is not whole."""

    class Content:
        def __iter__(self):
            raise error

    expected = SystemExit if error is SystemExit else RuntimeError
    with SyncEnvironment(MemoryEnvironment()) as env:
        env.write_file("a", b"old")
        with pytest.raises(expected):
            env.write_file("a", Content())
        assert env.read_file("a") == b"old"


def test_a_stream_that_cannot_be_made_leaves_nobody_waiting():
    """Whatever it raises."""

    class Odd(MemoryEnvironment):
        def read_file_stream(self, path, *, offset=0, length=None):
            raise StopIteration

    with SyncEnvironment(Odd()) as env, pytest.raises(RuntimeError, match="StopIteration"):
        next(env.read_file_stream("a"))


def test_work_that_is_cancelled_from_inside_is_told_apart_from_an_exit():
    """The process is not about to end."""

    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    with pytest.raises(SteadError) as caught:
        stead.sync.run(cancel_itself())
    assert caught.value.message == "the work was cancelled"


def test_it_works_inside_a_running_loop():
    """As in a notebook cell."""

    async def cell() -> bytes:
        with SyncEnvironment(MemoryEnvironment()) as env:
            env.write_file("a", b"x")
            return b"".join(env.read_file_stream("a"))

    assert asyncio.run(cell()) == b"x"


def test_a_call_from_its_own_thread_is_refused():
    """It would wait for itself for ever; the coroutine it was given is closed."""
    with SyncEnvironment(MemoryEnvironment()) as env:

        async def inside() -> None:
            env.stat(".")

        async def nested() -> None:
            stead.sync.run(asyncio.sleep(0))

        for work in (inside, nested):
            with pytest.raises(SteadError, match="own thread"):
                stead.sync.run(work)
        assert env.stat(".").kind == "directory"


def test_run_takes_a_coroutine_or_a_function():
    """It returns the result, raises the error itself, and keeps the caller's context variables."""
    name: ContextVar[str] = ContextVar("name", default="none")
    name.set("caller")

    async def read() -> str:
        await asyncio.sleep(0)
        return name.get()

    async def fail(error: BaseException) -> None:
        raise error

    assert stead.sync.run(read()) == "caller"
    assert stead.sync.run(read) == "caller"
    for error in (KeyError("x"), SystemExit(3), StopAsyncIteration()):
        with pytest.raises(type(error)) as caught:
            stead.sync.run(fail(error))
        assert caught.value is error
    assert stead.sync.run(read) == "caller"


def test_threads_share_one_environment():
    """Eight threads write and read their own files through one facade."""
    failures: list[BaseException] = []

    def work(env: SyncEnvironment, number: int) -> None:
        try:
            for turn in range(20):
                env.write_file(f"{number}", f"{turn}")
                assert env.read_file(f"{number}") == f"{turn}".encode()
        except BaseException as error:
            failures.append(error)

    with SyncEnvironment(MemoryEnvironment()) as env:
        threads = [threading.Thread(target=work, args=(env, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert sum(thread.name == "stead.sync" for thread in threading.enumerate()) == 1


def interrupt_when(condition: Callable[[], bool]) -> None:
    """Sends Ctrl-C to this process's main thread as soon as the condition holds."""

    def wait_and_send() -> None:
        wait_until(condition)
        time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=wait_and_send).start()


def test_an_interrupt_cancels_the_call_and_waits_for_its_clean_up():
    """When KeyboardInterrupt arrives, what was started has already ended."""
    inner = Watched()
    with SyncEnvironment(inner) as env:
        env.start()
        interrupt_when(lambda: True)
        with pytest.raises(KeyboardInterrupt):
            env.read_file("a")
        assert inner.cleaned_up
        assert env.stat(".").kind == "directory"


def test_an_interrupt_in_a_stream_closes_it():
    """A step that waits is cancelled, and the generator has cleaned up when the loop is left."""

    class Waiting(Watched):
        async def read_file_stream(self, path, *, offset=0, length=None):
            try:
                yield b"first"
                await asyncio.sleep(60)
            finally:
                self.closed += 1

    inner = Waiting()
    seen = []
    with SyncEnvironment(inner) as env:
        interrupt_when(lambda: seen == [b"first"])
        with pytest.raises(KeyboardInterrupt):
            seen.extend(env.read_file_stream("a"))
        assert inner.closed == 1


def test_an_interrupt_before_the_first_step_runs_nothing():
    """The loop is busy, so the work has not begun: it never does, and its coroutine is closed."""
    ran = []

    async def work() -> None:
        ran.append(1)

    loop_thread().loop.call_soon_threadsafe(time.sleep, 0.3)
    interrupt_when(lambda: True)
    with pytest.raises(KeyboardInterrupt):
        stead.sync.run(work())
    assert ran == []


def test_an_interrupt_in_the_iterable_cancels_the_write():
    """The pieces run in the calling thread, so Ctrl-C meets them there; the old file is intact."""

    def pieces():
        yield b"new"
        raise KeyboardInterrupt

    with SyncEnvironment(MemoryEnvironment()) as env:
        env.write_file("a", b"old")
        with pytest.raises(KeyboardInterrupt):
            env.write_file("a", pieces())
        assert env.read_file("a") == b"old"


def test_clean_up_that_never_ends_is_waited_for_only_so_long(monkeypatch):
    """An interrupted caller gets away."""
    monkeypatch.setattr("stead.loop_thread.CLEAN_UP_SECONDS", 0.2)
    release = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await release.wait()
            raise

    interrupt_when(lambda: True)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stead.sync.run(stubborn)
    assert time.monotonic() - started < 5
    loop_thread().loop.call_soon_threadsafe(release.set)


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


SCRIPT = """
import asyncio, atexit, os, sys, time
from stead.environments import MemoryEnvironment
from stead.errors import SteadError
from stead.sync import SyncEnvironment
import stead.sync

class Loud(MemoryEnvironment):
    async def _close(self):
        {close}
        print("closed", flush=True)

env = SyncEnvironment(Loud())
env.write_file("a", b"x")
"""


def test_what_is_open_at_exit_is_closed():
    """A program that forgets `close()` leaves nothing behind."""
    done = python(SCRIPT.format(close="await asyncio.sleep(0.01)"))
    assert (done.stdout, done.stderr, done.returncode) == ("closed\n", "", 0)


def test_closing_at_exit_may_use_worker_threads():
    """Although Python has ended its pools by then."""
    done = python(SCRIPT.format(close="await asyncio.to_thread(print, 'in a thread')"))
    assert (done.stdout, done.stderr, done.returncode) == ("in a thread\nclosed\n", "", 0)


def test_exit_waits_at_most_five_seconds():
    """An environment that hangs in close does not hold the interpreter."""
    started = time.monotonic()
    done = python(SCRIPT.format(close="await asyncio.sleep(60)"))
    assert (done.stdout, done.returncode) == ("", 0)
    assert time.monotonic() - started < 15


def test_use_after_the_exit_began_is_refused():
    """A late handler gets an error at once instead of a hang."""
    late = """
def late():
    try:
        env.read_file("a")
    except SteadError as error:
        print("refused:", error)
"""
    script = SCRIPT.format(close="pass").replace("env = Sync", late + "atexit.register(late)\nenv = Sync")
    done = python(script)
    assert done.stdout.splitlines() == ["closed", "refused: stead.sync was closed, since the process is exiting"]
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_forked_child_is_refused_the_old_and_may_open_new():
    """An environment opened before the fork raises at once, a new one works, and the parent's goes on."""
    fork = """
stream = env.read_file_stream("a")
next(stream)
pid = os.fork()
if pid == 0:
    try:
        env.read_file("a")
    except SteadError as error:
        print("child:", error, flush=True)
    del stream
    with SyncEnvironment(MemoryEnvironment()) as other:
        print("child:", other.write_file("b", b"yz").size, flush=True)
    sys.exit(0)
os.waitpid(pid, 0)
print("parent:", env.read_file("a"), list(stream), flush=True)
"""
    done = python(SCRIPT.format(close="pass") + fork)
    assert done.stdout.splitlines() == [
        "child: this environment was opened before the process forked; create another in the child",
        "child: 2",
        "parent: b'x' []",
        "closed",
    ]
    assert (done.stderr, done.returncode) == ("", 0)


def test_dropping_the_facade_drops_the_environment():
    """Nothing but the caller keeps an environment alive; one that was never closed is reported."""
    held = [SyncEnvironment(MemoryEnvironment())]
    held[0].start()
    with pytest.warns(ResourceWarning, match="never closed"):
        held.clear()


def test_a_call_costs_little():
    """At most four times what asyncio's own way from thread to loop costs, in the same run (about as much was measured)."""

    async def nothing() -> None:
        pass

    def seconds(call: Callable[[], object]) -> float:
        started = time.perf_counter()
        for _ in range(200):
            call()
        return time.perf_counter() - started

    loop = loop_thread().loop
    bare = min(seconds(lambda: asyncio.run_coroutine_threadsafe(nothing(), loop).result()) for _ in range(5))
    ours = min(seconds(lambda: stead.sync.run(nothing)) for _ in range(5))
    assert ours < 4 * bare
