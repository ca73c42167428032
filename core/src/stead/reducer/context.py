"""What both phases share: settings, texts, stores, the tools that read, and who is told."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from stead.errors import ConfigError
from stead.reducer.budget import ERROR_CHARS, Budget, budget_for
from stead.reducer.calls import Decision, Phase, ToolCall
from stead.reducer.config import PathGenerator, ReducerConfig
from stead.reducer.estimate import estimate_tokens
from stead.reducer.notices import Notices
from stead.reducer.rules import Rule, rule_for
from stead.reducer.store import SessionStore

__all__ = ["Context", "Undo", "approximate_tokens", "lines_in", "one_line", "own_path"]

_COUNTED_CHARS = 1_000_000
Undo = Sequence[tuple[str | None, str | None]]
"""Text of each block of a result before it was reduced, and after; as `stead.reducer.blocks.Texts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One reducer's settings and means, as its phases see them."""

    config: ReducerConfig
    session: str
    notices: Notices
    store: SessionStore | None
    """Where offloads go; None in a reducer without an environment."""
    tool_stores: dict[str, SessionStore] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)
    """Tools that read offloads back."""
    report: Callable[[Decision], Awaitable[None]]
    rules: dict[tuple[Phase, str, bool], Rule | str] = field(default_factory=dict)
    pending: set[asyncio.Task[Any]] = field(default_factory=set)
    """Writes that go on although nobody waits for them."""
    undo: dict[str, Undo] = field(default_factory=dict)
    """Results whose text could not be stored in the background, by the hash of the texts that were given out."""
    failures: list[Exception] = field(default_factory=list)
    """Errors of background writes since the last `flush`."""

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work that `settle` waits for."""
        task = asyncio.create_task(work)
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)

    async def finish_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Awaits `work`; if the caller is cancelled meanwhile, it goes on, and `settle` waits for it."""
        task = asyncio.create_task(work)
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)
        await asyncio.shield(task)

    async def settle(self) -> None:
        """Waits for all writes that nobody waits for."""
        while self.pending:
            await asyncio.wait(self.pending)

    async def flush(self) -> None:
        """Waits for all background writes.

        Raises:
            SteadError: One failed, and the policy is `"raise"`.
        """
        await self.settle()
        failures, self.failures[:] = list(self.failures), []
        if failures and self.config.on_offload_error == "raise":
            raise failures[0]

    def rule(self, phase: Phase, tool: str) -> Rule | str:
        """The rule of a tool in a phase, or the reason why its results are left alone."""
        key = (phase, tool, tool in self.readers)
        if key not in self.rules:
            self.rules[key] = rule_for(self.config, phase, tool, self.readers)
        return self.rules[key]

    def store_for(self, tool: str) -> SessionStore | None:
        """Where a tool's offloads go."""
        return self.tool_stores.get(tool, self.store)

    def stores(self) -> list[SessionStore]:
        """All stores, the reducer's own last."""
        return [*self.tool_stores.values(), *([] if self.store is None else [self.store])]

    def needed_store(self, call: ToolCall) -> SessionStore:
        """Where a call's offload goes.

        Raises:
            ConfigError: There is no environment for it.
        """
        store = self.store_for(call.name)
        if store is None:
            raise ConfigError(f"the result of {call.name!r} is to be stored, but there is no environment")
        return store

    def budget(self, call: ToolCall, path: str | None) -> Budget:
        """The sizes of a truncated answer."""
        store = self.store_for(call.name)
        folder = store.folder if store is not None else ""
        return budget_for(self.config, self.notices, tool=call.name, folder=folder, path=path)


async def own_path(generate: PathGenerator | None, call: ToolCall) -> str | None:
    """The path that the caller's generator wants, or None without one."""
    if generate is None:
        return None
    path = generate(call)
    return await path if inspect.isawaitable(path) else path


def approximate_tokens(text: str, size: int | None = None) -> int:
    """Tokens of a text, by estimate; of a very long one, as many a character as in its beginning.

    Args:
        text: The text, or its beginning.
        size: Characters of the whole; None is the text's length.
    """
    size = len(text) if size is None else size
    sample = text[:_COUNTED_CHARS]
    return estimate_tokens(sample) * size // len(sample) if sample else 0


def lines_in(text: str) -> int:
    """Lines of a text; an unterminated last one counts."""
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def one_line(error: Exception) -> str:
    """An error's text for a notice: one line, bounded."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= ERROR_CHARS else f"{text[: ERROR_CHARS - 3]}..."
