"""WriteFile: a whole file, replaced or made."""

from pydantic import Field

from stead.tools.tool import Arguments, Tool, ToolResult, make_tool
from stead.tools.toolkit import Toolkit

__all__ = ["write_file_tool"]


class _WriteFile(Arguments):
    path: str = Field(description="The file, absolute or relative to the working directory.")
    content: str = Field(description="All of its new text.")


def write_file_tool(kit: Toolkit) -> Tool:
    """The tool WriteFile."""
    edit = kit.using("EditFile")
    return make_tool(
        name=kit.names["WriteFile"],
        description=(
            "Writes a whole file: replaces it, or makes it and its directories."
            + (f" To change a part of a file use {edit}." if edit else "")
        ),
        arguments=_WriteFile,
        run=lambda arguments: _write_file(kit, arguments),
        explain=kit.explain,
    )


async def _write_file(kit: Toolkit, arguments: _WriteFile) -> ToolResult:
    async with kit.lock(arguments.path):
        info = await kit.env.write_file(arguments.path, arguments.content)
    return {"path": kit.shown(info.path), "size": info.size, "version": info.version}
