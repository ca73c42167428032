"""How many characters an answer may have, known before the result is: streams decide with the same numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from stead.reducer.config import ReducerConfig
from stead.reducer.names import PATH_NAME_CHARS
from stead.reducer.notices import DIGITS, Notices
from stead.reducer.preview import weight_in_chars

__all__ = ["ERROR_CHARS", "Budget", "budget_for", "fill", "hint_for", "shown_name"]

ERROR_CHARS = 200
TOOL_CHARS = 64
_LEAST_PREVIEW = 200
_SUFFIX_CHARS = 24
_SIZED = ("truncated", "shaped", "streamed", "unsaved", "streamed_unsaved")


@dataclass(frozen=True, slots=True)
class Budget:
    """Sizes of one call's answer, in characters."""

    limit: int
    frame: int
    """What a notice may take beside its preview."""

    @property
    def threshold(self) -> int:
        """A longer result is reduced, and its answer is no longer than this: the limit, if a notice fits into it."""
        fits = self.limit >= self.frame + _LEAST_PREVIEW
        return self.limit if fits else self.limit + self.frame

    @property
    def preview(self) -> int:
        """Characters of the original that an answer may show."""
        return self.threshold - self.frame


def budget_for(config: ReducerConfig, notices: Notices, *, tool: str, folder: str, path: str | None) -> Budget:
    """The sizes of one call's answer.

    Args:
        config: The settings.
        notices: Their texts.
        tool: The tool's name.
        folder: The session's folder; its default paths are of a bounded length.
        path: The path, where it is not a default one.
    """
    # Digits weigh most of all that a name may have.
    name = path or f"{folder}/trunc/".ljust(len(folder) + 7 + PATH_NAME_CHARS + _SUFFIX_CHARS, "0")
    longest = {
        "path": name,
        "hint": hint_for(config, notices, name),
        "error": "x" * ERROR_CHARS,
        "incomplete": notices.incomplete,
    }
    frames = [fill(getattr(notices, template), tool, longest) for template in _SIZED]
    return Budget(config.max_length_for_trunc, max(map(weight_in_chars, frames)))


def hint_for(config: ReducerConfig, notices: Notices, path: str) -> str:
    """The sentence that says how to read on; empty if the reducer knows no reading tool."""
    reader = config.read_file_tool_name
    return notices.hint.format(reader=reader, path=path) if reader else ""


def shown_name(tool: str) -> str:
    """A tool's name as notices have it: a long one is cut."""
    return tool[:TOOL_CHARS]


def fill(template: str, tool: str, values: Mapping[str, str | int]) -> str:
    """Fills a template; a number that is not given counts as twelve digits, a text as empty.

    Args:
        template: One of `Notices`.
        tool: The tool's name; a long one is cut.
        values: Its other fields.
    """
    if "error" in values:
        values = {**values, "error": _bounded(str(values["error"]))}
    texts = {"head": "", "tail": "", "path": "", "hint": "", "error": "", "incomplete": "", "shape": "", "media": ""}
    numbers = dict.fromkeys(("characters", "lines", "omitted", "head_characters", "tail_characters"), DIGITS)
    return template.format(**{**texts, **numbers, **values, "tool": shown_name(tool)})


def _bounded(error: str) -> str:
    """An error's text that weighs no more than was reckoned with."""
    while weight_in_chars(error) > ERROR_CHARS:
        error = f"{error[: len(error) * 9 // 10 - 3]}..."
    return error
