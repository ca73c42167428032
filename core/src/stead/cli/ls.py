"""`stead ls`: what is in a directory."""

from typing import Annotated

import typer

from stead.cli.common import ConfigOption, EnvOption, JsonOption, open_named, plain, printable, printable_json
from stead.results import FileInfo

__all__ = ["ls"]


def ls(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The directory.")] = ".",
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Also what is below its directories.")] = False,
    env: EnvOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List a directory, sorted: size in bytes, time of the last change (UTC), path."""
    with open_named(env, config) as environment:
        count = 0
        for info in environment.list_files(path, recursive=recursive):
            if json:  # one array, printed as it comes
                print("[" if count == 0 else ",", printable_json(plain(info)))
            else:
                print(_line(info))
            count += 1
        if json:
            print("]" if count else "[]")


def _line(info: FileInfo) -> str:
    time = info.modified.strftime("%Y-%m-%d %H:%M:%S") if info.modified else "-"
    size = "-" if info.kind == "directory" else str(info.size)
    return f"{size:>12}  {time:19}  {printable(info.path)}{'/' if info.kind == 'directory' else ''}"
