"""`stead offloads`: list, show, gc."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from stead import sync
from stead.cli.common import (
    ConfigOption,
    EnvOption,
    JsonOption,
    age_of,
    number_of,
    open_named,
    plain,
    print_json,
    printable,
)
from stead.config import load_config
from stead.config.reducing import ReducerSection
from stead.reducer import OffloadRecord, Offloads

__all__ = ["app"]

T = TypeVar("T")
app = typer.Typer(help="What the reducer has stored: list, show, remove.", no_args_is_help=True)

SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Only of this session; else of all below the root.")
]
RootOption = Annotated[
    str | None, typer.Option("--root", metavar="DIR", help="Folder of all offloads; else the configuration's.")
]
SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@app.command("list")
def list_offloads(
    session: SessionOption = None,
    root: RootOption = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List the offloads, oldest first: time (UTC), bytes, session, tool, kind, path."""
    records = _with_offloads(lambda offloads: offloads.list(), (session, root, env, config))
    if json:
        print_json([plain(record) for record in records])
        return
    for record in records:
        print(_line(record))


@app.command()
def show(
    path: Annotated[str, typer.Argument(metavar="PATH", help="As its notice names it.")],
    root: RootOption = None,
    env: EnvOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the full text of one offload, byte for byte as it was stored; a compressed one is decoded."""
    content = _with_offloads(lambda offloads: offloads.read(path), (None, root, env, config))
    sys.stdout.buffer.write(content)
    sys.stdout.flush()


@app.command()
def gc(
    age: Annotated[
        str | None, typer.Option("--age", metavar="AGE", help="Remove what is older: 30d, 12h, 90m, 45s, 2w.")
    ] = None,
    quota: Annotated[
        str | None, typer.Option("--quota", metavar="SIZE", help="Remove the oldest until the rest fits: 500MB, 2GB.")
    ] = None,
    session: SessionOption = None,
    root: RootOption = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Remove old offloads, and nothing that the reducer did not write.

    Notices that name a removed offload lead nowhere. Content that a killed process left without a record goes too, once
    it is a day old.
    """
    limit = None if age is None else age_of(age, "--age")
    most = None if quota is None else number_of(quota, SIZES, "--quota", "500MB or 2GB")
    removed = _with_offloads(lambda offloads: offloads.expire(age=limit, quota=most), (session, root, env, config))
    if json:
        print_json({"removed": removed})
        return
    for path in removed:
        print(printable(f"removed {path}"))
    print(f"{len(removed)} removed")


def _with_offloads(
    work: Callable[[Offloads], Coroutine[Any, Any, T]], where: tuple[str | None, str | None, str | None, Path | None]
) -> T:
    """Runs work on the offloads that the options name."""
    session, root, env, config = where
    section = load_config(config).reducer
    name = env or section.get("environment")
    root_dir = root or ReducerSection.of(section, "[reducer]").settings().root_dir
    with open_named(None if name is None else str(name), config) as environment:
        offloads = Offloads(environment.environment, root_dir=root_dir, session=session)
        found: T = sync.run(lambda: work(offloads))
    return found


def _line(record: OffloadRecord) -> str:
    time = record.stored_at.strftime("%Y-%m-%d %H:%M:%S")
    kind = record.kind if record.complete else f"{record.kind}, incomplete"
    return printable(f"{time}  {record.size:>12,}  {record.session}  {record.tool}  {kind}  {record.path}")
