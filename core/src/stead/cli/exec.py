"""`stead exec`: a command, with its output as it comes and its exit code."""

import sys
from typing import Annotated

import typer

from stead.cli.common import ConfigOption, EnvOption, JsonOption, open_named, plain, print_json
from stead.results import ExecutionResult
from stead.sync import SyncEnvironment

__all__ = ["exec_command"]


def exec_command(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", help="One word is shell text; several are argv.")
    ],
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Kill the whole process tree after it.")
    ] = None,
    cwd: Annotated[str | None, typer.Option(help="Where to run it, instead of the working directory.")] = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Run a command, print its output while it runs, and exit with its code.

    Ctrl-C ends the command and everything it started. Its standard input is empty. After a timeout the code is 124.
    With --json the result is printed when the command has ended.
    """
    words: str | list[str] = command[0] if len(command) == 1 else command
    with open_named(env, config) as environment:
        if json or not environment.capabilities.execute_stream:
            result = environment.execute(words, timeout=timeout, cwd=cwd)
        else:
            result = _stream(environment, words, timeout, cwd)
        _print_rest(result, json=json, streamed=not json and environment.capabilities.execute_stream)
    if result.timed_out:
        print(f"stead: the command was killed after {timeout:g} seconds", file=sys.stderr)
    raise typer.Exit(result.exit_code)


def _stream(
    environment: SyncEnvironment, words: str | list[str], timeout: float | None, cwd: str | None
) -> ExecutionResult:
    result = None
    for item in environment.execute_stream(words, timeout=timeout, cwd=cwd):
        if isinstance(item, ExecutionResult):
            result = item
            continue
        out = sys.stdout if item.stream == "stdout" else sys.stderr
        out.buffer.write(item.data)
        out.buffer.flush()
    assert result is not None  # noqa: S101 - the contract: the last item is the result
    return result


def _print_rest(result: ExecutionResult, *, json: bool, streamed: bool) -> None:
    if json:
        print_json(plain(result))
    elif not streamed:
        sys.stdout.write(result.stdout)
        sys.stderr.write(result.stderr)
    sys.stdout.flush()
