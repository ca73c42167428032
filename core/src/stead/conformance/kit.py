"""The kit that tries a law: it owns the event loop, the time limit, the gate, the waivers and the cleaning up."""

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pytest

from stead.adapt import adapt
from stead.conformance.child import in_child
from stead.conformance.doors import Faults, RawDoor
from stead.conformance.folder import Folder, clean_folder
from stead.conformance.law import FIXTURES, Law, Locked, Refusal, refuse
from stead.conformance.peak import Peak, can_reset
from stead.environment import Environment

if TYPE_CHECKING:
    from stead.conformance.audit import Audit

__all__ = ["Kit", "LawHung", "LawSettings"]

T = TypeVar("T")
Body = Callable[[dict[str, Any]], Awaitable[None]]
_CLOSING_SECONDS = 10.0
_BLOCKED_SECONDS = 3.0


class LawHung(Exception):
    """A law took longer than its limit."""


class LawSettings:
    """What a test class of an environment may set. The defaults fit an environment on this machine."""

    waivers: ClassVar[Mapping[str, str]] = {}
    """Law id -> why this environment cannot hold it. Strict: a waived law that holds fails the run."""
    root: ClassVar[str | None] = None
    """The root that paths may not leave, where it is not `working_dir`; `"/"` says that nothing lies outside."""
    backend: ClassVar[str | None] = None
    """The name under which the environment's plugin registers it."""
    law_seconds: ClassVar[float] = 20.0
    """Seconds that one law may take before it fails."""
    margin: ClassVar[float] = 2.0
    """Seconds by which an answer may be late, such as that to a timeout."""
    large_file: ClassVar[int] = 256 << 20
    """Bytes of the file in laws about memory; at least 64 MiB."""


class Kit:
    """Tries one law on one environment."""

    def __init__(self, settings: LawSettings, report: Callable[[str, str], None]) -> None:
        self.settings = settings
        self._report = report
        self._runner = asyncio.Runner()
        self._threads = ThreadPoolExecutor(thread_name_prefix="stead-law")
        self._finalizers: list[AsyncGenerator[Any, Any]] = []
        self._hung = False
        self.audited: Audit | None = None

    def __enter__(self) -> Self:
        self._runner.get_loop().set_default_executor(self._threads)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with suppress(StopAsyncIteration):
            for generator in reversed(self._finalizers):
                self.run(anext(generator))
        if self._hung:
            # A thread that never returns would hold the loop's own closing for ever: leave it behind.
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._runner.get_loop().set_default_executor(ThreadPoolExecutor())
        self._runner.close()

    def run(self, awaitable: Awaitable[T]) -> T:
        """Runs an awaitable on the kit's loop."""
        return self._runner.run(_await(awaitable))

    def resolve(self, value: Any) -> Any:
        """Returns what a fixture means: an async fixture's coroutine or generator is run on the kit's loop."""
        if inspect.isasyncgen(value):
            self._finalizers.append(value)
            return self.run(anext(value))
        return self.run(value) if inspect.isawaitable(value) else value

    def hold(
        self,
        spec: Law,
        body: Body,
        environment: Any,
        extra: dict[str, Any],
    ) -> None:
        """Tries a law and reports how it went, to pytest and to the report.

        Args:
            spec: The law.
            body: Makes its coroutine from the values of its parameters.
            environment: What the fixture gave: an unstarted environment, or anything that `stead.adapt` takes.
            extra: Values of the optional fixtures.
        """
        __tracebackhide__ = True
        env = adapt(self.resolve(environment))
        fixtures = {name: self.resolve(value) for name, value in extra.items()}
        self._report("stead_capabilities", ",".join(env.capabilities.declared()))
        refusal = refuse(spec, env.capabilities, fixtures)
        waiver = self.settings.waivers.get(spec.id)
        if refusal is None:
            failure, refusal = self._try(spec, body, env, fixtures)
            self._conclude(failure, refusal, waiver)
        elif waiver is not None and refusal.outcome != "locked":
            self._fail(f"the waiver is needless, since the law is {refusal.outcome} here: {refusal.reason}")
        if refusal is not None:
            self._report("stead_outcome", refusal.outcome)
            self._report("stead_reason", refusal.reason)
            pytest.skip(f"{refusal.outcome}: {refusal.reason}")

    def _conclude(self, failure: BaseException | None, refusal: Refusal | None, waiver: str | None) -> None:
        __tracebackhide__ = True
        if refusal is not None:
            return
        if failure is None and waiver is None:
            self._report("stead_outcome", "held")
        elif failure is None:
            self._fail(f"the law holds, so its waiver must go: {waiver}")
        elif waiver is not None:
            self._report("stead_outcome", "waived")
            self._report("stead_reason", waiver)
            pytest.xfail(waiver)
        else:
            self._report("stead_outcome", "failed")
            told = [f"{type(failure).__name__}: {failure}".strip(), *getattr(failure, "__notes__", ())]
            self._report("stead_reason", "\n".join(told)[:4000])
            raise failure

    def _fail(self, reason: str) -> None:
        __tracebackhide__ = True
        self._report("stead_outcome", "failed")
        self._report("stead_reason", reason)
        pytest.fail(reason, pytrace=False)

    def _try(
        self, spec: Law, body: Body, env: Environment, fixtures: dict[str, Any]
    ) -> tuple[BaseException | None, Refusal | None]:
        here = Folder.of(spec.id)
        values = {
            "env": env,
            "here": here,
            "kit": self,
            "peak": Peak(),
            "raw": RawDoor(fixtures.get(FIXTURES["raw"])),
            "faulty": Faults(fixtures.get(FIXTURES["faulty"])),
            "second": fixtures.get(FIXTURES["second"]),
        }
        if spec.measured and not can_reset():
            return self._try_in_child(lambda: self._start_and(body, values, start=spec.started))
        try:
            self._run_limited(self.settings.law_seconds, lambda: self._start_and(body, values, start=spec.started))
        except Locked as locked:
            return None, Refusal("locked", str(locked))
        except LawHung as hung:
            self._hung = True
            return hung, None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as failure:  # noqa: BLE001  # pytest's own outcomes derive from BaseException
            return failure, None
        finally:
            for end in (lambda: clean_folder(env, here.path), env.close):
                # What a broken environment does here is for the laws about closing and deleting to say.
                with suppress(Exception):
                    self._run_limited(_CLOSING_SECONDS, end)
        return None, None

    def _try_in_child(self, step: Callable[[], Awaitable[None]]) -> tuple[BaseException | None, Refusal | None]:
        """Tries a law about memory in a process whose peak is not that of all laws before."""

        def attempt() -> tuple[str, str]:
            self._runner = asyncio.Runner()
            try:
                self._run_limited(self.settings.law_seconds, step)
            except Locked as locked:
                return "locked", str(locked)
            except BaseException as failure:  # noqa: BLE001  # the parent raises it
                return "failed", f"{type(failure).__name__}: {failure}"
            return "held", ""

        outcome, reason = in_child(attempt)
        if outcome == "locked":
            return None, Refusal("locked", reason)
        return (AssertionError(reason) if outcome == "failed" else None), None

    @staticmethod
    async def _start_and(body: Body, values: dict[str, Any], *, start: bool) -> None:
        if start:
            await values["env"].start()
        await body(values)

    def _run_limited(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    await step()
            except TimeoutError:
                if limit.expired():
                    raise LawHung(f"it did not end within {seconds:g} s") from None
                raise

        with _alarm(seconds + _BLOCKED_SECONDS):
            self._runner.run(limited())


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Ends a law that blocks the event loop itself, which no asyncio timeout can. Only in the main thread of a POSIX."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise LawHung(f"it blocked the event loop for {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        # Another user of the timer, such as pytest-timeout, gets back what it had.
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler)


async def collect(stream: AsyncGenerator[bytes, None]) -> bytes:
    """Joins a stream and closes it."""
    async with aclosing(stream) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def pieces(*parts: Any) -> AsyncIterator[bytes]:
    """Yields its arguments, whatever their type: what a write makes of them is the question."""
    for part in parts:
        yield part
