"""`stead read`: a file, or some of its lines."""

import re
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from stead.cli.common import ConfigOption, EnvOption, JsonOption, open_named, print_json
from stead.errors import SteadError
from stead.results import LineRange, LineWindow
from stead.sync import SyncEnvironment

__all__ = ["read"]


def read(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The file, relative to the working directory of the environment.")
    ],
    lines: Annotated[
        str | None,
        typer.Option("--lines", "-l", metavar="A:B", help="Lines A to B, from 1, inclusive: 5:9, 5:, :9, 5."),
    ] = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print a file as it is, or some of its lines as UTF-8.

    Both run in bounded memory; --json holds what it prints.
    """
    wanted = _range(lines, count_total=json)
    with open_named(env, config) as environment:
        if wanted is None and not json:
            for chunk in environment.read_file_stream(path):
                sys.stdout.buffer.write(chunk)
        else:
            _print_lines(environment, path, wanted or LineRange(count_total=json), json=json)
        sys.stdout.flush()


def _range(text: str | None, *, count_total: bool) -> LineRange | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d*)(:?)(\d*)", text)
    if match is None or text in ("", ":"):
        raise typer.BadParameter(f"{text!r} is no range of lines; write A:B, A:, :B or A", param_hint="--lines")
    first, colon, last = match.groups()
    start = int(first or 1)
    end = int(last) if last else None if colon else start
    if start < 1 or (end is not None and end < start):
        raise typer.BadParameter(f"{text!r}: lines begin with 1, and A is not after B", param_hint="--lines")
    return LineRange(start=start, end=end, count_total=count_total)


def _print_lines(environment: SyncEnvironment, path: str, wanted: LineRange, *, json: bool) -> None:
    windows = _windows(environment, path, wanted)
    if not json:
        for window in windows:
            sys.stdout.buffer.write(_text(window).encode())
        return
    first = last = next(windows)
    texts = [_text(first)]
    for last in windows:
        texts.append(_text(last))
    print_json(
        {
            "path": path,
            "first_line": first.first_line,
            "last_line": last.last_line,
            "total_lines": first.total_lines,
            "last_line_complete": last.last_line_complete,
            "content": "".join(texts).removesuffix("\n"),
        }
    )


def _text(window: LineWindow) -> str:
    """The text of a page with the newline after it, unless a line goes on in the next page or the file has none."""
    if window.last_line < window.first_line:
        return ""
    if window.truncated:
        return window.lines if (window.next_start_column or 1) > 1 else f"{window.lines}\n"
    return f"{window.lines}\n" if window.last_line_complete else window.lines


def _windows(environment: SyncEnvironment, path: str, wanted: LineRange) -> Iterator[LineWindow]:
    """The pages of a range, one after the other."""
    window = environment.read_lines(path, wanted)
    if window.last_line < window.first_line and wanted.start > 1:
        raise SteadError(f"{path!r} has {window.total_lines} lines; line {wanted.start} is past its end")
    yield window
    while window.truncated and window.next_start_line is not None:
        window = environment.read_lines(
            path,
            LineRange(
                start=window.next_start_line,
                end=wanted.end,
                start_column=window.next_start_column or 1,
                count_total=False,
            ),
        )
        yield window
