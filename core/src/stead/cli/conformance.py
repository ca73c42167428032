"""`stead conformance`: tries every law on an environment, without a line of code."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.common import ConfigOption, printable
from stead.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.conformance.report import ConformanceReport
    from stead.conformance.run import Progress

__all__ = ["conformance"]

_EXTRA = "the conformance suite needs pytest: pip install 'stead[conformance]'"
_Words = list[str]


def conformance(
    target: Annotated[
        str | None, typer.Argument(help="An environment of the configuration, a backend, or package.module:Class.")
    ] = None,
    option: Annotated[
        _Words | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="An option; the value is TOML or text, {tmp} a new folder a law."
        ),
    ] = None,
    waive: Annotated[
        _Words | None, typer.Option("--waive", metavar="LAW=REASON", help="Waive a law; it must then fail.")
    ] = None,
    law: Annotated[
        _Words | None, typer.Option("--law", metavar="LAW", help="Try this law only; repeat for more.")
    ] = None,
    report: Annotated[
        _Words | None,
        typer.Option(
            "--report",
            metavar="FORMAT|FILE",
            help="json, junit, markdown or badge to stdout, or a file ending in .json, .xml, .md or .svg.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A law that stays locked fails the run too.")] = False,
    list_laws: Annotated[bool, typer.Option("--list", help="List the laws and end.")] = False,
    config: ConfigOption = None,
) -> None:
    """Try every law of the contract on an environment.

    Exit codes: 0 it conforms, 1 a law failed, 2 wrong usage, 3 no law held, so nothing was shown.
    """
    try:
        import pytest  # noqa: F401 - looked for here, used by the run
    except ModuleNotFoundError:
        raise ConfigError(_EXTRA) from None
    if list_laws:
        _print_laws()
        return
    if target is None:
        raise ConfigError("name what to try, such as: stead conformance local --option root={tmp}")
    from stead.conformance.report import exit_code
    from stead.conformance.run import run_laws
    from stead.conformance.target import Target, parse_options, parse_waivers

    styles, files = _destinations(report or [])
    sys.path.insert(0, "")  # a class beside the caller, as `python -m` would find it
    chosen = Target(target, parse_options(option or []), config)
    print(f"stead: {printable(chosen.describe())}", file=sys.stderr)
    with _progress(len(law or []) or None) as progress:
        found = run_laws(chosen, waivers=parse_waivers(waive or []), only=law or [], progress=progress)
    written = _write(found, styles, files)
    raise typer.Exit(exit_code(found, strict=strict) if written else 1)


def _destinations(words: _Words) -> tuple[list[str], list[Path]]:
    from stead.conformance.writing import SUFFIXES, check_path

    styles = [word for word in words if word in SUFFIXES.values()]
    files = [Path(word) for word in words if word not in styles]
    for file in files:
        check_path(file)
    return styles, files


def _write(found: "ConformanceReport", styles: list[str], files: list[Path]) -> bool:
    from stead.conformance.writing import rendered, write_report

    problems = []
    for file in files:
        try:
            write_report([found], file)
        except OSError as error:  # the other reports still count
            problems.append(f"stead: {printable(str(file))}: {error.strerror or error}")
    for style in styles:
        print(rendered([found], style), end="")
    if not styles:
        _print_table(found)
    for problem in problems:
        print(problem, file=sys.stderr)
    return not problems


def _print_laws() -> None:
    from stead.conformance.environment_laws import LAWS

    for spec in LAWS.values():
        print(f"{spec.number:4} {spec.id}: {spec.text}")


def _print_table(found: "ConformanceReport") -> None:
    from rich.console import Console
    from rich.table import Table

    from stead.conformance.report import OUTCOMES, shown

    table = Table("LAWS", *(shown(outcome).upper() for outcome in OUTCOMES), box=None, pad_edge=False)
    for group, counts in [*found.groups().items(), ("all", found.counts())]:
        table.add_row(group, *(str(counts[outcome] or "-") for outcome in OUTCOMES))
    Console(markup=False, highlight=False).print(table)
    for verdict in found.of("failed", "waived", "locked"):
        print(_line(verdict.law, verdict.outcome, verdict.reason))
    print(f"{printable(found.target)}: {found.summary()} (contract {found.contract}, suite {found.suite})")


def _line(law: str, outcome: str, reason: str) -> str:
    return f"{outcome:7} {law}: {printable(reason.splitlines()[0] if reason else '')}"


@contextmanager
def _progress(total: int | None) -> "Iterator[Progress]":
    """Shows how far the run is: a bar on a terminal, else a line for each law that fails."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    # While a law runs, pytest holds descriptor 2: what is shown goes to a copy of it.
    with os.fdopen(os.dup(2), "w") as stream:
        console = Console(file=stream, markup=False, highlight=False)
        if not console.is_terminal:
            yield (
                lambda law, outcome, reason: (
                    print(_line(law, outcome, reason), file=stream, flush=True) if (outcome == "failed") else None
                )
            )
            return
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
            task = bar.add_task("", total=total)

            def advance(law: str, outcome: str, reason: str) -> None:
                # Not before: pytest must be running when the laws are imported.
                from stead.conformance.environment_laws import LAWS

                bar.update(task, advance=1, total=total or len(LAWS), description=law, refresh=True)
                if outcome == "failed":
                    bar.console.print(_line(law, outcome, reason))

            yield advance
