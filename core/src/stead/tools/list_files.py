"""ListFiles: what is in a directory."""

from contextlib import aclosing
from typing import Any

from pydantic import Field

from stead.tools.listing import MAX_ENTRIES, shown_part, within_time
from stead.tools.tool import Arguments, Tool, ToolResult, make_tool
from stead.tools.toolkit import Toolkit

__all__ = ["list_files_tool"]


class _ListFiles(Arguments):
    path: str = Field(".", description="The directory. The default is the working directory.")
    recursive: bool = Field(False, description="Also list all that is below its directories.")


def list_files_tool(kit: Toolkit) -> Tool:
    """The tool ListFiles."""
    find = kit.using("Glob")
    return make_tool(
        name=kit.names["ListFiles"],
        description=(
            f"Lists a directory: path, kind and, of files, size in bytes; at most {MAX_ENTRIES} entries, sorted. "
            "count is how many there are." + (f" To find files by name use {find}." if find else "")
        ),
        arguments=_ListFiles,
        run=lambda arguments: _list_files(kit, arguments),
        explain=kit.explain,
    )


async def _list_files(kit: Toolkit, arguments: _ListFiles) -> ToolResult:
    found: list[dict[str, Any]] = []
    count = 0

    async def collect() -> None:
        nonlocal count
        async with aclosing(kit.entries(arguments.path, recursive=arguments.recursive)) as entries:
            async for entry in entries:
                count += 1
                if count <= MAX_ENTRIES:
                    size = {"size": entry.info.size} if entry.info.kind == "file" else {}
                    found.append({"path": kit.shown(entry.info.path), "kind": entry.info.kind, **size})

    finished = await within_time(kit, collect())
    shown = shown_part(sorted(found, key=lambda item: str(item["path"])), kit.options.max_output_chars, "path")
    answer: ToolResult = {"path": arguments.path, "entries": shown, "count": count, "truncated": len(shown) < count}
    if not finished:
        answer.update(truncated=True, count_is_exact=False)
    if answer["truncated"]:
        answer["hint"] = "Only a part is shown. List a directory further down" + (
            f", or find files by name with {kit.using('Glob')}." if kit.using("Glob") else "."
        )
    return answer
