"""Glob: files by the pattern of their path."""

import posixpath
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from pydantic import Field

from stead.results import FileInfo
from stead.tools.listing import MAX_ENTRIES, shown_part, within_time
from stead.tools.patterns import Anything, Component, compile_pattern, matches
from stead.tools.tool import Arguments, Tool, ToolError, ToolResult, make_tool
from stead.tools.toolkit import Toolkit

__all__ = ["glob_tool"]

_SPECIAL = frozenset("*?[")


class _Glob(Arguments):
    pattern: str = Field(description="Such as `src/**/*.py`: `**` is any directories, `*`, `?` and `[abc]` one name.")
    path: str = Field(".", description="Directory where the pattern starts. The default is the working directory.")


def glob_tool(kit: Toolkit) -> Tool:
    """The tool Glob."""
    return make_tool(
        name=kit.names["Glob"],
        description=(
            f"Finds files and directories by pattern; at most {MAX_ENTRIES} paths, sorted, directories end in /. "
            "`*.py` finds only those in the directory itself, `**/*.py` those below it too. count is how many there are."
        ),
        arguments=_Glob,
        run=lambda arguments: _glob(kit, arguments),
        explain=kit.explain,
    )


async def _glob(kit: Toolkit, arguments: _Glob) -> ToolResult:
    search = _plan(kit, arguments)
    found: list[str] = []
    count = 0

    def take(info: FileInfo) -> None:
        nonlocal count
        if search.directories_only and info.kind != "directory":
            return
        count += 1
        if count <= MAX_ENTRIES:
            found.append(kit.shown(info.path) + ("/" if info.kind == "directory" else ""))

    finished = await within_time(kit, _walk(kit, search, take))
    paths = [{"path": path} for path in sorted(found)]
    shown = [item["path"] for item in shown_part(paths, kit.options.max_output_chars, "path")]
    answer: ToolResult = {"paths": shown, "count": count, "truncated": len(shown) < count}
    if not finished:
        answer.update(truncated=True, count_is_exact=False)
    if answer["truncated"]:
        answer["hint"] = "Only a part is shown. Narrow the pattern, or start it in a directory further down."
    return answer


@dataclass(frozen=True, slots=True)
class _Search:
    base: str
    components: list[Component]
    directories_only: bool
    named: str | None = None
    """The path that a pattern without wildcards is."""
    linked: bool = True
    """Whether `base` may be a link: only if it was named, not if a wildcard led to it."""


def _plan(kit: Toolkit, arguments: _Glob) -> _Search:
    # Components without wildcards in front are a directory: only what is below it is listed.
    parts = [part for part in arguments.pattern.split("/") if part not in ("", ".")]
    if not parts:
        raise ToolError("The pattern is empty. To list a directory use the pattern '*' or '**'.")
    fixed = 0
    while fixed < len(parts) - 1 and not _SPECIAL.intersection(parts[fixed]):
        fixed += 1
    if ".." in parts[fixed:]:
        raise ToolError("'..' may stand only at the start of a pattern, before any wildcard.")
    start = "/" if arguments.pattern.startswith("/") else arguments.path
    base = posixpath.join(start, *parts[:fixed])
    return _Search(
        base=base,
        components=compile_pattern("/".join(parts[fixed:]), case_sensitive=kit.env.capabilities.case_sensitive),
        directories_only=arguments.pattern.endswith("/"),
        named=None if _SPECIAL.intersection(parts[-1]) else posixpath.join(base, parts[-1]),
    )


async def _walk(kit: Toolkit, search: _Search, take: Callable[[FileInfo], None]) -> None:
    # Only from `**` on is everything listed; before it, only the directories that match.
    components = search.components
    recursive = isinstance(components[0], Anything)
    async with aclosing(kit.entries(search.base, recursive=recursive, named=search.named)) as entries:
        async for entry in entries:
            if not search.linked and posixpath.join(search.base, entry.below) != entry.info.path:
                return  # what a link leads to is told by its own path, under which it is found anyway
            if recursive or len(components) == 1:
                if matches(components, entry.below):
                    take(entry.info)
            elif entry.info.kind == "directory" and matches(components[:1], entry.below):
                further = replace(search, base=entry.info.path, components=components[1:], linked=False)
                # It may have gone since it was listed, or be closed to us: the rest still counts.
                with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    await _walk(kit, further, take)
