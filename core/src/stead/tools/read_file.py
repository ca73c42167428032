"""ReadFile: a range of lines, numbered, in bounded memory, with the exact place to go on."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from stead.environment import Environment
from stead.errors import FileChanged, SteadError
from stead.results import LineRange, LineWindow
from stead.tools.tool import Arguments, Tool, ToolError, ToolResult, Whole, make_tool
from stead.tools.toolkit import Toolkit

__all__ = ["read_file_tool"]

_BOM = "\ufeff"


class _ReadFile(Arguments):
    path: str = Field(description="The file, absolute or relative to the working directory.")
    start_line: Whole | None = Field(None, description="First line, from 1. Default: 1.")
    end_line: Whole | None = Field(None, description="Last line, inclusive. Default: the end of the file.")
    start_column: Whole | None = Field(
        None, description="First character of start_line, from 1, to go on inside a very long line. Default: 1."
    )


def read_file_tool(kit: Toolkit) -> Tool:
    """The tool ReadFile."""
    numbered = "each after its number and a tab, " if kit.options.number_lines else ""
    return make_tool(
        name=kit.names["ReadFile"],
        description=(
            f"Reads lines of a text file, {numbered}at most {kit.options.max_output_chars} characters at once. A longer "
            "answer has truncated: true; call again with its next_start_line and next_start_column to go on. "
            "has_more says whether the file goes on after what is shown; total_lines is its number of lines."
        ),
        arguments=_ReadFile,
        run=lambda arguments: _read_file(kit, arguments),
        explain=kit.explain,
        is_reader=True,
    )


async def _read_file(kit: Toolkit, arguments: _ReadFile) -> ToolResult:
    start = max(arguments.start_line or 1, 1)
    end = arguments.end_line or None
    if end is not None and end < 0:
        raise ToolError(f"end_line is {end}; give a line number from 1, or leave it out for the end of the file.")
    if end is not None and end < start:
        raise ToolError(f"start_line {start} is after end_line {end}; swap them.")
    env = kit.environment_of(arguments.path)
    window = LineRange(
        start=start,
        end=end,
        start_column=max(arguments.start_column or 1, 1),
        max_chars=kit.options.max_output_chars,
        count_total=await _counts_total(kit, env, arguments.path),
    )
    try:
        found = await _read_lines(env, arguments.path, window)
    except FileChanged:
        found = await _read_lines(env, arguments.path, window)
    if found.last_line < start and start > 1:
        raise _after_the_end(start, found.total_lines)
    page = cut_page(found, window.start_column, kit.options.max_output_chars, numbered=kit.options.number_lines)
    return _answer(kit, arguments.path, found, page)


async def _counts_total(kit: Toolkit, env: Environment, path: str) -> bool:
    # Where the file is not, counting means to transfer it all.
    if not kit.options.count_total or env.capabilities.lines_at_source or not env.capabilities.stat:
        return kit.options.count_total
    return (await env.stat(path)).size <= kit.options.scan_limit


async def _read_lines(env: Environment, path: str, window: LineRange) -> LineWindow:
    try:
        return await env.read_lines(path, window)
    except SteadError:
        raise
    except ValueError as error:
        raise ToolError(f"{error}. Start at a column inside the line, or at the next line.") from error


def _after_the_end(start: int, total: int | None) -> ToolError:
    if total is None:
        return ToolError(f"start_line {start} is after the end of the file. Start earlier.", total_lines=None)
    lines = "1 line" if total == 1 else f"{total} lines"
    return ToolError(f"start_line {start} is after the end of the file, which has {lines}.", total_lines=total)


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown of a window, and where the next one starts."""

    content: str
    end_line: int
    complete: bool
    cut: bool
    next: tuple[int, int] | None
    """Line and column; None if nothing is left and the last line is complete."""


def cut_page(window: LineWindow, start_column: int, limit: int, *, numbered: bool) -> Page:
    """Writes a window with its line numbers, at most `limit` characters in all.

    At least one character of the file is shown, or one empty line, so that every page goes forward.
    """
    place = None if window.next_start_line is None else (window.next_start_line, window.next_start_column or 1)
    lines = window.lines.split("\n") if window.last_line >= window.first_line else []
    # A third of the time of formatting each line: most of what a page of thousands costs.
    labels = [str(number).rjust(6) for number in range(window.first_line, window.first_line + len(lines))]
    whole = "\n".join(map("\t".join, zip(labels, lines, strict=True)) if numbered else lines)
    if len(whole) <= limit and not (window.first_line == 1 and window.lines.startswith(_BOM)):
        return Page(whole, window.last_line, window.last_line_complete, window.truncated, place)
    parts: list[str] = []
    room = limit
    for number, line in enumerate(lines, window.first_line):
        first = number == window.first_line
        prefix = ("" if first else "\n") + (f"{number:6d}\t" if numbered else "")
        column = start_column if first else 1
        # A byte order mark is no text, yet it is column 1: columns are those of the file.
        hidden = 1 if number == 1 and column == 1 and line.startswith(_BOM) else 0
        if first:
            room = max(room, len(prefix) + 1)
        fits = min(len(line) - hidden, room - len(prefix))
        if fits < 0 or (fits == 0 and len(line) > hidden):
            return Page("".join(parts), number - 1, complete=True, cut=True, next=(number, 1))
        parts += (prefix, line[hidden : hidden + fits])
        room -= len(prefix) + fits
        if hidden + fits < len(line):
            return Page("".join(parts), number, complete=False, cut=True, next=(number, column + hidden + fits))
    return Page("".join(parts), window.last_line, window.last_line_complete, window.truncated, place)


def _answer(kit: Toolkit, path: str, window: LineWindow, page: Page) -> ToolResult:
    # An unterminated last line is named again, as it may still grow; nothing follows it now.
    unterminated = page.next == (page.end_line, 1) and not page.complete
    answer: dict[str, Any] = {
        "path": path,
        "content": page.content,
        "total_lines": window.total_lines,
        "start_line": window.first_line,
        "end_line": page.end_line,
        "has_more": page.next is not None and not unterminated,
        "truncated": page.cut,
        "last_line_complete": page.complete,
    }
    if page.next is not None:
        answer["next_start_line"], answer["next_start_column"] = page.next
    if page.cut and page.next is not None:
        line, column = page.next
        inside = f"inside line {line}; go on with start_line={line}, start_column={column}"
        between = f"after line {page.end_line}; go on with start_line={line}"
        limit = kit.options.max_output_chars
        answer["hint"] = f"Cut at {limit} characters, {inside if column > 1 else between}."
    return answer
