"""`stead write`: standard input, or a text, into a file."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, cast

import typer

from stead.cli.common import ConfigOption, EnvOption, JsonOption, open_named, plain, print_json, printable

if TYPE_CHECKING:
    from io import BufferedReader

__all__ = ["write"]

_CHUNK = 1 << 16


def write(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The file, relative to the working directory of the environment.")
    ],
    text: Annotated[
        str | None, typer.Option("--text", "-t", help="What to write, as UTF-8 and nothing added; else standard input.")
    ] = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Replace a file, or make it and its parents, in one step."""
    with open_named(env, config) as environment:
        info = environment.write_file(path, _standard_input() if text is None else text)
        if json:
            print_json(plain(info))
        else:
            print(f"{printable(info.path)}: {info.size} bytes")


def _standard_input() -> Iterator[bytes]:
    source = cast("BufferedReader", sys.stdin.buffer)
    while chunk := source.read1(_CHUNK):
        yield chunk
