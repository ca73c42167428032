"""What goes into the reducer and what comes out: a tool call, what a handler answers, and the report of a decision."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

__all__ = ["Action", "Decision", "Outcome", "Phase", "Reduced", "Report", "ToolCall", "current_call_id"]

Phase = Literal["truncate", "clear"]
Action = Literal["reduced", "kept", "failed"]

current_call_id: ContextVar[str | None] = ContextVar("stead_current_call_id", default=None)
"""Id of the tool call that runs in this context; `Reducer.wrap` takes it where no other id was given."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The tool call that a result belongs to."""

    id: str | None
    """The provider's id. It need not be unique, and is never used as a file name as it is."""
    name: str
    """The tool's name."""
    arguments: Mapping[str, Any] | str | None = None
    """An object, or its JSON text."""
    phase: Phase = "truncate"
    """For handlers: which phase asks."""
    session_id: str = ""
    """For handlers: the reducer's session."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A handler's answer: what the model sees, and what is stored before it does."""

    result: Any
    """The new result, of the old one's shape. A text may hold `{path}`: the path of what was stored."""
    arguments: Mapping[str, Any] | str | None = None
    """Clear phase: the call's new arguments, an object or its JSON text; None leaves them."""
    offload: str | bytes | None = None
    """What to store; None stores nothing."""
    path: str | None = None
    """Where to store it; None is the reducer's own path. What another call stored there is never replaced."""


class Decision(NamedTuple):
    """What was done with one result, and why."""

    phase: Phase
    tool: str
    call_id: str | None
    action: Action
    """`"reduced"`, `"kept"` (left as it was), or `"failed"` (the offload could not be stored; see `reason`)."""
    reason: str
    before_chars: int = 0
    """Characters (code points) of text before."""
    after_chars: int = 0
    before_tokens: int = 0
    """By the reducer's counter or estimate; 0 where nothing was counted."""
    after_tokens: int = 0
    path: str | None = None
    """Where the full text is, if it was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one `truncate` or `clear` did."""

    phase: Phase
    decisions: Sequence[Decision] = ()
    before_tokens: int = 0
    """Clear phase: tokens of the whole request, tool schemas included, before."""
    after_tokens: int = 0
    warnings: tuple[str, ...] = ()
    """What the caller should know: over budget with nothing left to clear, a stray result, a counter that raised."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `clear` answers."""

    messages: list[Any]
    """A new list. Messages that were not changed are the caller's own objects."""
    report: Report

    @property
    def changed(self) -> bool:
        """True if any message differs from what was passed in."""
        return any(decision.action == "reduced" for decision in self.report.decisions)
