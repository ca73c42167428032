"""`stead sandboxes`: list, clean. Only those that stead made."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stead.cli.common import ConfigOption, JsonOption, age_of, plain, print_json, printable
from stead.config import load_config
from stead.errors import ConfigError
from stead.posix.sandbox import SandboxEnvironment, SandboxInfo

__all__ = ["app"]

app = typer.Typer(help="The cloud sandboxes that stead made: list, remove.", no_args_is_help=True)

NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A backend such as e2b or daytona, or an environment of the configuration."),
]


@app.command("list")
def list_sandboxes(name: NameArgument, config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the sandboxes of these credentials that stead made: id, state, start (UTC), owner."""
    found = asyncio.run(_open(name, config).list_sandboxes())
    if json:
        print_json([plain(info) for info in found])
        return
    for info in sorted(found, key=lambda info: info.id):
        print(_line(info))


@app.command()
def clean(
    name: NameArgument,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Remove what was started before: 12h, 90m, 2d.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove all, those that somebody uses right now included.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Remove sandboxes that stead made and nobody let go, such as those of a process that was killed.

    A provider cannot tell whether a sandbox is in use, so say how old they must be, or --all.
    """
    if (older_than is None) == (not everything):
        raise typer.BadParameter("say --older-than AGE, or --all")
    before = None if older_than is None else datetime.now(UTC) - age_of(older_than, "--older-than")
    removed = asyncio.run(_clean(_open(name, config), before, dry_run=dry_run))
    if json:
        print_json({"removed": [] if dry_run else removed, "would_remove": removed if dry_run else []})
        return
    for sandbox in removed:
        print(printable(f"{'would remove' if dry_run else 'removed'} {sandbox}"))


async def _clean(environment: SandboxEnvironment, before: datetime | None, *, dry_run: bool) -> list[str]:
    removed = []
    for info in await environment.list_sandboxes():
        # One that does not tell its age is not known to be old enough.
        if before is not None and (info.started is None or info.started > before):
            continue
        if not dry_run:
            await environment.remove_sandbox(info.id)
        removed.append(info.id)
    return removed


def _open(name: str, config: Path | None) -> SandboxEnvironment:
    settings = load_config(config)
    found = settings.locate(name)
    print(f"stead: {printable(str(found))}", file=sys.stderr)
    environment = settings.create_environment(found.name)
    if not isinstance(environment, SandboxEnvironment):
        raise ConfigError(f"{name!r} has no sandboxes; name a backend such as e2b or daytona")
    return environment


def _line(info: SandboxInfo) -> str:
    started = info.started.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if info.started else "-"
    return printable(f"{info.id}  {info.state:8}  {started:19}  {info.labels.get('stead-owner', '-')}")
