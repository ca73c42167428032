"""Keeps big tool results and old history out of the model's context, and every byte of them in an environment."""

from stead.reducer.calls import Decision, Outcome, Reduced, Report, ToolCall, current_call_id
from stead.reducer.config import ReducerConfig, ToolConfig
from stead.reducer.handlers import handler
from stead.reducer.notices import Notices
from stead.reducer.offloads import Offloads
from stead.reducer.records import OffloadRecord
from stead.reducer.reducer import Reducer

__all__ = [
    "Decision",
    "Notices",
    "OffloadRecord",
    "Offloads",
    "Outcome",
    "Reduced",
    "Reducer",
    "ReducerConfig",
    "Report",
    "ToolCall",
    "ToolConfig",
    "current_call_id",
    "handler",
]
