"""EditFile: one exact replacement, on the version that was read."""

import asyncio
import re
from contextlib import aclosing
from functools import partial

from pydantic import Field

from stead.environment import Environment
from stead.errors import FileChanged
from stead.results import FileInfo
from stead.tools.replacing import (
    Replacement,
    ResultTooLargeError,
    TextNotFoundError,
    TooManyMatchesError,
    replace_text,
)
from stead.tools.tool import Arguments, Tool, ToolError, ToolResult, make_tool
from stead.tools.toolkit import Toolkit

__all__ = ["MAX_EDIT_BYTES", "edit_file_tool"]

MAX_EDIT_BYTES = 64 << 20
"""Largest file, before and after, that is edited: it is held in memory."""
_TRIES = 3
_IN_A_THREAD = 1 << 16
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)


class _EditFile(Arguments):
    path: str = Field(description="The file, absolute or relative to the working directory.")
    old_text: str = Field(description="Text to replace, exactly as in the file, without line numbers.")
    new_text: str = Field(description="Text to put in its place.")
    replace_all: bool = Field(False, description="Replace every occurrence instead of the only one.")


def edit_file_tool(kit: Toolkit) -> Tool:
    """The tool EditFile."""
    return make_tool(
        name=kit.names["EditFile"],
        description=(
            "Replaces text in a file. old_text must be in it exactly once: add lines around it until it is, or set "
            "replace_all. Both texts are literal. All other bytes of the file stay as they are."
        ),
        arguments=_EditFile,
        run=lambda arguments: _edit_file(kit, arguments),
        explain=kit.explain,
    )


async def _edit_file(kit: Toolkit, arguments: _EditFile) -> ToolResult:
    if not arguments.old_text:
        write = kit.using("WriteFile")
        raise ToolError(
            "old_text is empty, which names no place." + (f" To write a whole file use {write}." if write else "")
        )
    if arguments.old_text == arguments.new_text:
        raise ToolError("There is nothing to change: old_text and new_text are equal.")
    async with kit.lock(arguments.path):
        for attempt in range(_TRIES):
            try:
                return await _edit_once(kit, arguments)
            except FileChanged:
                continue
            except ToolError as error:
                if attempt == 0:
                    raise
                raise ToolError(f"Conflict: the file was changed by something else meanwhile. {error}") from None
    raise ToolError("Conflict: the file is being changed by something else, and nothing was written. Read it again.")


async def _edit_once(kit: Toolkit, arguments: _EditFile) -> ToolResult:
    env, path = kit.env, arguments.path
    before = await env.stat(path) if env.capabilities.stat else None
    data = await _read(kit, path)
    replaced = await _replace(kit, arguments, data)
    version = before.version if before is not None and env.capabilities.conditional_write else None
    info = await _write(env, path, replaced.data, read=data, version=version)
    return {
        "path": kit.shown(info.path),
        "replacements": replaced.count,
        "line": replaced.line,
        "size": info.size,
        "version": info.version,
        "conditional": version is not None,
    }


async def _read(kit: Toolkit, path: str) -> bytes:
    pieces, size = [], 0
    async with aclosing(kit.env.read_file_stream(path)) as chunks:
        async for chunk in chunks:
            pieces.append(chunk)
            size += len(chunk)
            if size > MAX_EDIT_BYTES:
                raise _too_large(kit, path)
    return b"".join(pieces)


async def _replace(kit: Toolkit, arguments: _EditFile, data: bytes) -> Replacement:
    old, new = arguments.old_text.encode(), arguments.new_text.encode()
    replace = partial(replace_text, data, old, new, replace_all=arguments.replace_all, max_size=MAX_EDIT_BYTES)
    try:
        return replace() if len(data) < _IN_A_THREAD else await asyncio.to_thread(replace)
    except ResultTooLargeError:
        raise _too_large(kit, arguments.path) from None
    except TextNotFoundError:
        raise ToolError(_not_found(kit, arguments)) from None
    except TooManyMatchesError as error:
        lines = ", ".join(map(str, error.lines)) + (", ..." if error.count > len(error.lines) else "")
        raise ToolError(
            f"old_text is in {error.count} places, which start on lines {lines}. Add text around it until it is in one, "
            "or set replace_all.",
            matches=error.count,
            lines=error.lines,
        ) from None


async def _write(env: Environment, path: str, content: bytes, *, read: bytes, version: str | None) -> FileInfo:
    if version is not None:
        return await env.write_file(path, content, if_version=version)
    # Not atomic, but all that such an environment allows: a change before this read is seen, one after it is not.
    if await env.read_file(path) != read:
        raise FileChanged(f"{path!r} changed", path=path)
    return await env.write_file(path, content)


def _not_found(kit: Toolkit, arguments: _EditFile) -> str:
    message = f"old_text is not in {arguments.path!r}."
    if "\ufffd" in arguments.old_text:
        return message + " The character U+FFFD stands for bytes that are no UTF-8, and matches none: leave it out."
    if _NUMBERED.match(arguments.old_text):
        return message + " Leave out the line numbers and the tab after each."
    read = kit.using("ReadFile")
    again = f" Read the place again with {read} and copy it." if read else ""
    return message + " Spaces, tabs and case must be the same." + again


def _too_large(kit: Toolkit, path: str) -> ToolError:
    run = kit.using("Execute")
    return ToolError(
        f"{path!r} is, or would become, larger than {MAX_EDIT_BYTES >> 20} MiB, too large to edit here."
        + (f" Use a command with {run}, such as sed." if run else "")
    )
