"""A state machine that compares an environment with the in-memory one: any calls, in any order, the same answers.

Needs hypothesis (extra `conformance`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from stead.conformance.folder import Folder
from stead.conformance.streams import collect
from stead.environment import Environment
from stead.environments.memory import MemoryEnvironment
from stead.errors import SteadError
from stead.results import FileInfo, LineRange

__all__ = ["compare_with_memory"]

# Directories are never emptied: whether an empty one exists is each backend's own affair.
_KEPT = ("d/kept", "d/e/kept", "file")
_PATHS = st.sampled_from(["a", "b", "d/a", "d/e/b", "\u754c x", "d/../a", "./b", "d", "file/below", "d/a/", "..a"])
_FOLDERS = st.sampled_from([".", "d", "d/e", "d/", "nowhere", "file"])
# Characters that matter, by hand: to draw from all of Unicode, hypothesis first computes tables for seconds.
_CHARACTERS = st.sampled_from("ab \n\n\r\0\t\x0c\x85\u2028\ufeff\ufffd\u00e9\u0301\u754c\U0001f600")
_TEXT = st.lists(_CHARACTERS, max_size=60).map("".join)
_CONTENT = st.one_of(st.binary(max_size=50), _TEXT, _TEXT.map(lambda text: text * 40))
_OFFSETS = st.integers(min_value=0, max_value=300)
_Call = Callable[[Environment], Coroutine[Any, Any, Any]]


async def compare_with_memory(env: Environment, here: Folder, *, examples: int = 10, steps: int = 20) -> None:
    """Makes random calls to an environment and to the in-memory one, and compares every answer.

    The calls are the same in each run, and a sequence that fails is not made shorter: that could take minutes.

    Args:
        env: The environment, open on the running loop.
        here: A folder of its own; each sequence of calls has one below it.
        examples: How many sequences of calls.
        steps: How many calls in each, at most.

    Raises:
        AssertionError: An answer differs. The calls that led to it are in the error's notes.
    """
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    async with MemoryEnvironment() as model:
        pair = _Pair(env, model, here, asyncio.get_running_loop())
        machine: type[_Machine] = type("_Bound", (_Machine,), {"pair": pair})
        # A state machine is synchronous: it drives this loop from a thread.
        await asyncio.to_thread(run_state_machine_as_test, machine, settings=chosen)


@dataclass(slots=True)
class _Pair:
    env: Environment
    model: Environment
    here: Folder
    loop: asyncio.AbstractEventLoop

    def same(self, told: str, call: _Call) -> None:
        """Makes one call to both."""
        coroutines = (_answer(each, call) for each in (self.env, self.model))
        found, expected = (asyncio.run_coroutine_threadsafe(each, self.loop).result() for each in coroutines)
        if found != expected:
            raise AssertionError(f"{told} gave {found!r}, and in memory {expected!r}")


def _can(capability: str) -> Callable[[Any], bool]:
    # No lambda: hypothesis looks for the source of each one, which takes seconds.
    def declared(machine: Any) -> bool:
        return bool(getattr(machine.pair.env.capabilities, capability))

    return declared


class _Machine(RuleBasedStateMachine):
    pair: ClassVar[_Pair]
    _numbers = count()

    def __init__(self) -> None:
        super().__init__()
        self.folder = self.pair.here / str(next(self._numbers))

    def _same(self, method: str, path: str, call: _Call) -> None:
        self.pair.same(f"{method}({path!r})", call)

    @initialize()
    def begin(self) -> None:
        for path in _KEPT:
            self._write(path, "kept")

    def _write(self, path: str, content: str | bytes, *, if_absent: bool = False) -> None:
        where = f"{self.folder}/{path}"
        self._same("write_file", path, lambda e: e.write_file(where, content, if_absent=if_absent))

    @rule(path=_PATHS, content=_CONTENT)
    def write_file(self, path: str, content: str | bytes) -> None:
        self._write(path, content)

    @precondition(_can("create_only"))
    @rule(path=_PATHS, content=_CONTENT)
    def create(self, path: str, content: str | bytes) -> None:
        self._write(path, content, if_absent=True)

    @rule(path=_PATHS)
    def read_file(self, path: str) -> None:
        self._same("read_file", path, lambda e: e.read_file(f"{self.folder}/{path}"))

    @rule(path=_PATHS, offset=_OFFSETS, length=st.none() | _OFFSETS)
    def read_file_stream(self, path: str, offset: int, length: int | None) -> None:
        where = f"{self.folder}/{path}"
        self._same("read_file_stream", path, lambda e: collect(e.read_file_stream(where, offset=offset, length=length)))

    @rule(path=_PATHS, start=st.integers(1, 9), more=st.none() | st.integers(0, 9), budget=st.integers(1, 400))
    def read_lines(self, path: str, start: int, more: int | None, budget: int) -> None:
        window = LineRange(start=start, end=None if more is None else start + more, max_chars=budget)
        self._same("read_lines", path, lambda e: e.read_lines(f"{self.folder}/{path}", window))

    @precondition(_can("delete_file"))
    @rule(path=_PATHS)
    def delete_file(self, path: str) -> None:
        self._same("delete_file", path, lambda e: e.delete_file(f"{self.folder}/{path}"))

    @precondition(_can("stat"))
    @rule(path=_PATHS)
    def stat(self, path: str) -> None:
        self._same("stat", path, lambda e: e.stat(f"{self.folder}/{path}"))

    @precondition(_can("list_files"))
    @rule(path=_FOLDERS, recursive=st.booleans())
    def list_files(self, path: str, recursive: bool) -> None:
        self._same("list_files", path, lambda e: _listed(e, f"{self.folder}/{path}", recursive=recursive))


async def _listed(env: Environment, path: str, *, recursive: bool) -> list[FileInfo]:
    async with aclosing(env.list_files(path, recursive=recursive)) as entries:
        return [entry async for entry in entries]


async def _answer(env: Environment, call: _Call) -> Any:
    """What a call came to, without what may differ: time, version, and where the working directory is."""
    try:
        value = await call(env)
    except (SteadError, ValueError) as error:
        return type(error).__name__
    if isinstance(value, FileInfo):
        return _plain(env, value)
    return [_plain(env, item) for item in value] if isinstance(value, list) else value


def _plain(env: Environment, info: FileInfo) -> tuple[str, str, int]:
    return info.path.removeprefix(str(env.working_dir)).lstrip("/"), info.kind, info.size
