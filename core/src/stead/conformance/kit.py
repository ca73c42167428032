"""The kit that tries a law: it owns the event loop, the gate, the waivers and the cleaning up."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import pytest

from stead.adapt import adapt
from stead.conformance.child import in_child
from stead.conformance.doors import Faults, RawDoor
from stead.conformance.folder import Folder, clean_folder
from stead.conformance.law import FIXTURES, Law, Locked, refuse
from stead.conformance.limits import LawHung, close_runner, run_limited
from stead.conformance.peak import Peak, can_reset
from stead.conformance.privileges import drop_override, passes_over_permissions
from stead.conformance.settings import LawSettings
from stead.environment import Environment

if TYPE_CHECKING:
    from stead.conformance.audit import Audit

__all__ = ["Kit", "Went"]

T = TypeVar("T")
Body = Callable[[dict[str, Any]], Awaitable[None]]
_CLOSING_SECONDS = 10.0


class Went(NamedTuple):
    """How one try of a law went."""

    outcome: str
    """`held`, `failed` or `locked`."""
    reason: str = ""
    error: BaseException | None = None


class Kit:
    """Tries one law on one environment."""

    def __init__(self, settings: LawSettings, report: Callable[[str, str], None]) -> None:
        self.settings = settings
        self.audited: Audit | None = None
        """The I/O that happened while the fixtures were made."""
        self._report = report
        self._runner = asyncio.Runner()
        self._threads = ThreadPoolExecutor(thread_name_prefix="stead-law")
        self._fixtures: list[AsyncGenerator[Any, Any]] = []
        self._hung = False

    def __enter__(self) -> Self:
        self._runner.get_loop().set_default_executor(self._threads)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            for generator in reversed(self._fixtures):
                with suppress(StopAsyncIteration):
                    self._run(anext(generator))
        finally:
            if self._hung:
                # A thread that never returns would hold the loop's own closing for ever: leave it behind.
                self._threads.shutdown(wait=False, cancel_futures=True)
                self._runner.get_loop().set_default_executor(ThreadPoolExecutor())
            close_runner(self._runner)

    def resolve(self, value: Any) -> Any:
        """Returns what a fixture means: an async fixture's coroutine or generator is run on the kit's loop."""
        if inspect.isasyncgen(value):
            self._fixtures.append(value)
            return self._run(anext(value))
        return self._run(value) if inspect.isawaitable(value) else value

    def hold(self, spec: Law, body: Body, environment: Any, extra: dict[str, Any]) -> None:
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
        waiver = self.settings.waivers.get(spec.id)
        refusal = refuse(spec, env.capabilities, fixtures)
        if refusal is None:
            self._conclude(self._try(spec, body, env, fixtures), waiver)
        elif waiver is not None and refusal.outcome != "locked":
            self._fail(f"the waiver is needless, since the law is {refusal.outcome} here: {refusal.reason}")
        else:
            self._skip(refusal.outcome, refusal.reason)

    def _conclude(self, went: Went, waiver: str | None) -> None:
        __tracebackhide__ = True
        if went.outcome == "locked":
            self._skip("locked", went.reason)
        if went.outcome == "held" and waiver is not None:
            self._fail(f"the law holds, so its waiver must go: {waiver}")
        if went.outcome == "failed" and waiver is not None:
            self._tell("waived", waiver)
            pytest.xfail(waiver)
        self._tell(went.outcome, went.reason)
        if went.error is not None:
            raise went.error

    def _tell(self, outcome: str, reason: str) -> None:
        self._report("stead_outcome", outcome)
        self._report("stead_reason", reason)

    def _skip(self, outcome: str, reason: str) -> None:
        __tracebackhide__ = True
        self._tell(outcome, reason)
        pytest.skip(f"{outcome}: {reason}")

    def _fail(self, reason: str) -> None:
        __tracebackhide__ = True
        self._tell("failed", reason)
        pytest.fail(reason, pytrace=False)

    def _try(self, spec: Law, body: Body, env: Environment, fixtures: dict[str, Any]) -> Went:
        here = Folder.of(spec.id)
        values = {
            "env": env,
            "here": here,
            "kit": self,
            "peak": Peak(),
            "raw": RawDoor(fixtures.get(FIXTURES["raw"])),
            "faulty": Faults(fixtures.get(FIXTURES["faulty"])),
            "second": fixtures.get(FIXTURES["second"]),
            "sandboxes": fixtures.get(FIXTURES["sandboxes"]),
        }

        async def step() -> None:
            if spec.started:
                await env.start()
            await body(values)

        if spec.imports is not None:
            with suppress(ModuleNotFoundError):
                import_module(spec.imports)
        # An isolated environment has users of its own; and an SDK with threads does not survive a fork.
        as_root = env.capabilities.isolation == "none" and passes_over_permissions()
        alone = (spec.measured and not can_reset()) or (spec.permissions and as_root)
        return self._try_in_child(spec, step, env, here) if alone else self._attempt(step, env, here)

    def _attempt(self, step: Callable[[], Awaitable[None]], env: Environment, here: Folder) -> Went:
        try:
            run_limited(self._runner, self.settings.law_seconds, step)
        except Locked as locked:
            return Went("locked", str(locked))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as failure:  # noqa: BLE001  # pytest's own outcomes derive from BaseException
            self._hung = self._hung or isinstance(failure, LawHung)
            for task in asyncio.all_tasks(self._runner.get_loop()):
                # What a law that failed left running may well fail when the environment closes; that is no news then.
                task.add_done_callback(_look_at)
            told = [f"{type(failure).__name__}: {failure}".strip(), *getattr(failure, "__notes__", ())]
            return Went("failed", "\n".join(told)[:4000], failure)
        finally:
            for end in (lambda: clean_folder(env, here.path), env.close):
                # What a broken environment does here is for the laws about closing and deleting to say.
                with suppress(Exception):
                    run_limited(self._runner, _CLOSING_SECONDS, end)
        return Went("held")

    def _try_in_child(self, spec: Law, step: Callable[[], Awaitable[None]], env: Environment, here: Folder) -> Went:
        """Tries a law in a process of its own: with a peak that is its own, or bound by permissions although root."""

        def attempt() -> tuple[str, str]:
            if spec.permissions and passes_over_permissions() and not drop_override():
                return "locked", "running as root, who passes over all permissions"
            self._runner = asyncio.Runner()
            went = self._attempt(step, env, here)
            return went.outcome, went.reason

        outcome, reason = in_child(attempt)
        return Went(outcome, reason, AssertionError(reason) if outcome == "failed" else None)

    def _run(self, awaitable: Awaitable[T]) -> T:
        return self._runner.run(_await(awaitable))


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable
