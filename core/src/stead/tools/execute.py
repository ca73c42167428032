"""Execute: a command, its exit code, and as much of its output as fits, with the rest in files."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from stead.environment import PathLike
from stead.errors import SteadError, Unsupported
from stead.results import ExecutionResult
from stead.tools.spilling import keep_output
from stead.tools.tool import Arguments, Tool, ToolResult, make_tool
from stead.tools.toolkit import Toolkit

__all__ = ["execute_tool"]

_MAX_BYTES_PER_CHAR = 4


def _seconds(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"must be a number of seconds, not {value!r}")  # noqa: TRY004  (pydantic collects ValueErrors)
    return value


class _Execute(Arguments):
    command: str = Field(description="The command, as for a shell.")
    timeout: Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Seconds after which it is ended."
    )
    cwd: str | None = Field(None, description="Directory to run in. The default is the working directory.")


def execute_tool(kit: Toolkit) -> Tool:
    """The tool Execute."""
    options = kit.options
    usual = "no limit" if options.default_timeout is None else f"{options.default_timeout:g} s"
    read = kit.using("ReadFile")
    return make_tool(
        name=kit.names["Execute"],
        description=(
            f"Runs a shell command to its end and returns exit_code, stdout and stderr. Timeout: {usual} unless given, at "
            f"most {options.max_timeout:g} s; what it printed until then is returned, with timed_out. Output beyond "
            f"{options.max_output_chars} characters is cut in the middle; all of it is then in the files stdout_path "
            "and stderr_path" + (f", which {read} can read." if read else ".")
        ),
        arguments=_Execute,
        run=lambda arguments: _execute(kit, arguments),
        explain=kit.explain,
    )


async def _execute(kit: Toolkit, arguments: _Execute) -> ToolResult:
    timeout = kit.options.default_timeout
    if arguments.timeout is not None:
        timeout = min(arguments.timeout, kit.options.max_timeout)
    result = await _run(kit, arguments.command, timeout, arguments.cwd)
    answer: ToolResult = {
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "timed_out": result.timed_out,
        "duration": round(result.duration, 3),
        "truncated": False,
    }
    if result.limit_hit is not None:
        answer["limit_hit"] = result.limit_hit
    if result.spill_error is not None:
        answer["spill_error"] = result.spill_error
    await _fit(kit, result, answer)
    hints = _hints(kit, answer, timeout)
    if hints:
        answer["hint"] = " ".join(hints)
    return answer


async def _run(kit: Toolkit, command: str, timeout: float | None, cwd: PathLike | None) -> ExecutionResult:
    # Enough that what would be shown whole comes whole, whatever the characters.
    limit = kit.options.max_output_chars * _MAX_BYTES_PER_CHAR
    try:
        return await kit.env.execute(command, timeout=timeout, cwd=cwd, output_limit=limit)
    except Unsupported:
        # Raised before anything ran, as by a class for the older contract, which returns all output.
        return await kit.env.execute(command, timeout=timeout, cwd=cwd)


async def _fit(kit: Toolkit, result: ExecutionResult, answer: ToolResult) -> None:
    """Cuts both streams to `max_output_chars` together, and sees that nothing is lost by it."""
    limit = kit.options.max_output_chars
    # Each may have half; what one leaves, the other gets.
    stderr_room = min(len(result.stderr), max(limit // 2, limit - len(result.stdout)))
    rooms = {"stdout": limit - stderr_room, "stderr": stderr_room}
    paths = {"stdout": result.stdout_path, "stderr": result.stderr_path}
    sizes = {"stdout": result.stdout_bytes, "stderr": result.stderr_bytes}
    for name, room in rooms.items():
        text, path = answer[name], paths[name]
        if len(text) > room:
            if path is None and result.spill_error is None:
                try:
                    path = await keep_output(kit, name, text)
                except (SteadError, OSError) as error:
                    answer["spill_error"] = str(error)
            size = max(sizes[name], len(text))
            where = "" if path is None else f"; all of it is in {path}"
            if path is not None and paths[name] is None and len(text.encode("utf-8", "replace")) != size:
                # What came was decoded already: the file has no more than that.
                where += " as text, with what is no UTF-8 replaced"
            answer[name] = _head_and_tail(text, room, f"\n[... cut here: {name} has {size} bytes{where} ...]\n")
            answer["truncated"] = True
        if path is not None:
            answer[f"{name}_path"] = path
            answer["truncated"] = True


def _head_and_tail(text: str, room: int, marker: str) -> str:
    kept = room - len(marker)
    if kept < 2:
        return text[:room]
    return text[: kept - kept // 2] + marker + text[-(kept // 2) :]


def _hints(kit: Toolkit, answer: ToolResult, timeout: float | None) -> list[str]:
    hints = []
    if answer["timed_out"] and timeout is not None:
        longest = kit.options.max_timeout
        more = f"; timeout can be up to {longest:g}" if timeout < longest else ", the longest timeout allowed"
        hints.append(f"The command was ended after {timeout:g} s{more}.")
    kept = [name for name in ("stdout_path", "stderr_path") if name in answer]
    if kept:
        read = kit.using("ReadFile")
        hints.append(
            f"All of the output is in the file of {' and '.join(kept)}" + (f": read it with {read}." if read else ".")
        )
    return hints
