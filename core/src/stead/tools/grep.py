"""Grep: lines that match a pattern."""

import posixpath
from contextlib import aclosing
from typing import Any

from pydantic import Field

from stead.environment import Environment
from stead.errors import FileChanged, InvalidPath, PathOutsideRoot, StreamInterrupted, Unsupported
from stead.tools.line_search import CPU_SECONDS, EXCERPT
from stead.tools.listing import shown_part, within_time
from stead.tools.matching import SLOW_ADVICE, Matcher, PatternError
from stead.tools.patterns import Component, compile_pattern, matches
from stead.tools.tool import Arguments, Tool, ToolError, ToolResult, make_tool
from stead.tools.toolkit import Entry, Toolkit

__all__ = ["MAX_MATCHES", "grep_tool"]

MAX_MATCHES = 200
"""Most lines that one answer shows."""
_SKIPPED_TOLD = 10
_TOO_SLOW = f"given up, the pattern takes more than {CPU_SECONDS:g} s for 1 MiB of this file"
# What may befall one file of many: the search goes on without it, and says so.
_OF_ONE_FILE = (
    FileChanged,
    FileNotFoundError,
    InvalidPath,
    IsADirectoryError,
    NotADirectoryError,
    PathOutsideRoot,
    PermissionError,
    StreamInterrupted,
    Unsupported,
)


class _Grep(Arguments):
    pattern: str = Field(description="Regular expression of Python's re, tried on each line.")
    path: str = Field(".", description="A file, or a directory that is searched with all below it.")
    glob: str | None = Field(None, description="Only files like this: a name (`*.py`) or a path (`src/**/*.py`).")
    ignore_case: bool = Field(False, description="Treat upper and lower case as equal.")


def grep_tool(kit: Toolkit) -> Tool:
    """The tool Grep."""
    read = kit.using("ReadFile")
    return make_tool(
        name=kit.names["Grep"],
        description=(
            f"Searches files for a pattern, line by line: path, line, column and text of at most {MAX_MATCHES} lines, in "
            "order. count is how many lines match."
            + (
                f" Of a line over {EXCERPT} characters a part is shown; read on at line and column with {read}."
                if read
                else ""
            )
        ),
        arguments=_Grep,
        run=lambda arguments: _grep(kit, arguments),
        explain=kit.explain,
    )


async def _grep(kit: Toolkit, arguments: _Grep) -> ToolResult:
    run = _Run(kit, arguments)
    try:
        async with Matcher(arguments.pattern, ignore_case=arguments.ignore_case, keep=MAX_MATCHES) as matcher:
            finished = await within_time(kit, run.search(matcher))
            found = await matcher.finish()
    except PatternError as error:
        raise ToolError(str(error)) from None
    for path in found["slow"]:
        run.skip(path, _TOO_SLOW)
    if found["slow"] and run.searched == 1 and not found["count"]:
        raise ToolError(f"{found['slow'][0]!r}: {_TOO_SLOW}. {SLOW_ADVICE}")
    return _answer(kit, run, found, finished=finished)


class _Run:
    def __init__(self, kit: Toolkit, arguments: _Grep) -> None:
        self._kit = kit
        self._path = arguments.path
        self._filter = None if arguments.glob is None else _filter(kit, arguments.glob)
        self.searched = 0
        self.skipped = 0
        self.reasons: list[dict[str, str]] = []

    async def search(self, matcher: Matcher) -> None:
        env = self._kit.environment_of(self._path)
        if env is not self._kit.env:
            await self._file(matcher, env, self._path)
            return
        try:
            await self._tree(matcher)
        except NotADirectoryError:
            if self.searched or self.skipped:
                raise
            await self._file(matcher, env, self._path)

    def skip(self, path: str, reason: str) -> None:
        self.skipped += 1
        if self.skipped <= _SKIPPED_TOLD:
            self.reasons.append({"path": path, "error": reason})

    async def _tree(self, matcher: Matcher) -> None:
        childless: set[str] = set()
        async with aclosing(self._kit.entries(self._path, recursive=True)) as entries:
            async for entry in entries:
                childless.discard(posixpath.dirname(entry.info.path))
                if entry.info.kind == "directory":
                    childless.add(entry.info.path)
                if entry.info.kind != "file" or not self._wanted(entry):
                    continue
                try:
                    await self._file(matcher, self._kit.env, entry.info.path)
                except _OF_ONE_FILE as error:
                    self.skip(self._kit.shown(entry.info.path), str(error))

        if self._kit.env.capabilities.modes:
            await self._tell_closed(childless)

    async def _tell_closed(self, directories: set[str]) -> None:
        # A recursive listing leaves out what is below a directory that may not be listed: it looks like an empty one.
        for path in sorted(directories):
            try:
                async with aclosing(self._kit.env.list_files(path)) as entries:
                    await anext(entries, None)
            except PermissionError as error:
                self.skip(self._kit.shown(path), str(error))
            except (FileNotFoundError, NotADirectoryError, InvalidPath, PathOutsideRoot):
                continue  # gone, or a name that cannot be asked for

    def _wanted(self, entry: Entry) -> bool:
        if self._filter is None:
            return True
        # A pattern without a slash is for the name alone, as in every grep.
        return matches(self._filter, entry.below if len(self._filter) > 1 else entry.below.rpartition("/")[2])

    async def _file(self, matcher: Matcher, env: Environment, path: str) -> None:
        async with aclosing(env.read_file_stream(path)) as chunks:
            await matcher.begin(self._kit.shown(path))
            async for chunk in chunks:
                await matcher.feed(chunk)
        self.searched += 1


def _filter(kit: Toolkit, pattern: str) -> list[Component]:
    components = compile_pattern(pattern, case_sensitive=kit.env.capabilities.case_sensitive)
    if not components:
        raise ToolError("glob is empty; leave it out to search all files.")
    return components


def _answer(kit: Toolkit, run: _Run, found: dict[str, Any], *, finished: bool) -> ToolResult:
    order = sorted(found["matches"], key=lambda match: (match["path"], match["line"]))
    shown = shown_part(order, kit.options.max_output_chars, "path", "text")
    answer: ToolResult = {
        "matches": shown,
        "count": found["count"],
        "files_with_matches": found["files"],
        "files_searched": run.searched,
        "truncated": len(shown) < found["count"] or not finished,
    }
    if not finished:
        answer["count_is_exact"] = False
    if run.skipped:
        answer.update(files_skipped=run.skipped, skipped=run.reasons)
    hints = [f"The search ended after {kit.options.default_timeout:g} s."] if not finished else []
    if answer["truncated"]:
        hints.append("Only a part is shown: narrow the pattern, the path or the glob.")
    if found["slow"]:
        hints.append(f"The pattern is slow. {SLOW_ADVICE}")
    if hints:
        answer["hint"] = " ".join(hints)
    return answer
