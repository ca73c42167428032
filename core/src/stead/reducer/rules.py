"""Which handler, environment and preview a tool has in a phase: the one place where settings are resolved."""

from dataclasses import dataclass

from stead.reducer.calls import Phase
from stead.reducer.config import Handler, ReducerConfig, ToolConfig
from stead.reducer.preview import Preview

__all__ = ["Rule", "rule_for"]

_NONE = ToolConfig()


@dataclass(frozen=True, slots=True)
class Rule:
    """How one tool's results are reduced."""

    handler: Handler | None
    """None is the built-in way."""
    preview: Preview


def rule_for(config: ReducerConfig, phase: Phase, tool: str, readers: frozenset[str] | set[str]) -> Rule | str:
    """The rule of a tool in a phase, or the reason why its results are left alone.

    Exclusion beats everything, a tool's own skip beats its handler, and what a tool does not say is the reducer's.

    Args:
        config: The settings.
        phase: Which phase asks.
        tool: The tool's name.
        readers: Tools that read offloads back; truncating their pages would never end.
    """
    own = config.tool_config.get(tool, _NONE)
    truncating = phase == "truncate"
    excluded = config.trunc_exclude_tools if truncating else config.clear_exclude_tools
    if tool in excluded:
        return "the tool is excluded"
    if truncating and tool in readers:
        return "the tool reads offloads; its own paging bounds it"
    skip = own.skip_truncation if truncating else own.skip_clear
    if skip is None:
        skip = config.skip_truncation if truncating else config.skip_clear
    if skip:
        return "the phase is skipped for this tool"
    handler = own.trunc_handler if truncating else own.clear_handler
    if handler is None:
        handler = config.trunc_handler if truncating else config.clear_handler
    return Rule(handler, own.preview or config.preview)
