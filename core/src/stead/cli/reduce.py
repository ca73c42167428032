"""`stead reduce`: what the reducer makes of a saved conversation."""

import dataclasses
import json as json_module
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stead import sync
from stead.cli.common import ConfigOption, EnvOption, JsonOption, open_named, print_json, printable
from stead.cli.transcript import Replay, read_transcript, replay
from stead.config import load_config
from stead.errors import SteadError
from stead.reducer import Decision, ReducerConfig
from stead.reducer.messages.detect import FORMATS

__all__ = ["reduce"]


def reduce(  # noqa: PLR0913, PLR0917 - one parameter an option
    transcript: Annotated[Path, typer.Argument(metavar="TRANSCRIPT", help="JSON or JSON lines; - is standard input.")],
    message_format: Annotated[
        str | None, typer.Option("--format", "-f", metavar="FORMAT", help=f"One of {', '.join(FORMATS)}; else found.")
    ] = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page that shows all of it.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the reduced conversation.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", metavar="N", help="Characters above which a result is truncated.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Tokens above which old results are cleared.")
    ] = None,
    target_tokens: Annotated[
        int | None, typer.Option("--target-tokens", metavar="N", help="Tokens down to which they are cleared.")
    ] = None,
    keep_rounds: Annotated[
        int | None, typer.Option("--keep-rounds", metavar="N", help="Newest rounds that are never cleared.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Where the offloads go; else a new session.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Reduce a saved conversation, turn by turn, as an agent would have.

    The full texts are stored in the environment; what the model would have seen is printed as numbers, and written to
    --output and --report. Settings come from [reducer] of the configuration, and from the options.
    """
    given = {
        "max_length_for_trunc": max_length,
        "max_tokens_for_clear": max_tokens,
        "clear_target_tokens": target_tokens,
        "clear_retention_suffix_limit": keep_rounds,
        "session_id": session,
        "message_format": message_format,
    }
    section = load_config(config).reducer
    source = read_transcript(transcript)
    settings = _settings(section, given)
    name = env or section.get("environment")
    with open_named(None if name is None else str(name), config) as environment:
        found = sync.run(lambda: replay(environment.environment, settings, source))
    if output is not None:
        _write(output, json_module.dumps(source.with_messages(found.reduced), indent=1) + "\n")
    if report is not None:
        from stead.cli.report_page import report_page

        _write(report, report_page(found, title=str(transcript)))
    if json:
        print_json(_as_data(found))
    else:
        _print(found, [path for path in (output, report) if path is not None])


def _settings(section: Mapping[str, object], given: Mapping[str, Any]) -> ReducerConfig:
    from stead.config.reducing import ReducerSection

    settings = ReducerSection.of(section, "[reducer]").settings()
    wanted = {name: value for name, value in given.items() if value is not None}
    if "max_tokens_for_clear" in wanted and "clear_target_tokens" not in {*wanted, *section}:
        wanted["clear_target_tokens"] = None
    return dataclasses.replace(settings, **wanted)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SteadError(f"{path}: {error.strerror}") from error


def _as_data(found: Replay) -> dict[str, Any]:
    return {
        "format": found.codec.name,
        "messages": len(found.originals),
        "turns": [dataclasses.asdict(turn) for turn in found.turns],
        "decisions": [decision._asdict() for decision in found.decisions],
        "warnings": found.warnings,
    }


def _print(found: Replay, written: list[Path]) -> None:
    for decision in found.decisions:
        if decision.action != "kept":
            print(_line(decision))
    for line in found.warnings:
        print(printable(f"warning: {line}"))
    last, peak = found.turns[-1], max(turn.before for turn in found.turns)
    counts = [sum(1 for decision in found.decisions if decision.action == action) for action in ("reduced", "failed")]
    print(f"{found.codec.name}: {len(found.originals)} messages, {len(found.turns)} calls of the model")
    print(f"next request: {last.before:,} -> {last.after:,} tokens{_percent(last.before, last.after)}")
    print(f"largest request: {peak:,} -> {max(turn.after for turn in found.turns):,} tokens")
    print(f"reduced {counts[0]}, failed {counts[1]}, stored {_stored(found)} texts")
    for path in written:
        print(printable(f"wrote {path}"))


def _line(decision: Decision) -> str:
    verb = {"truncate": "truncated", "clear": "cleared"}[decision.phase] if decision.action == "reduced" else "FAILED"
    sizes = f"{decision.before_chars:>10,} -> {decision.after_chars:,} characters"
    where = decision.path or decision.reason
    return printable(f"{verb:9} {decision.tool} {decision.call_id or '-'} {sizes}  {where}")


def _stored(found: Replay) -> int:
    return len({decision.path for decision in found.decisions if decision.path})


def _percent(before: int, after: int) -> str:
    return f" ({(after - before) / before:+.0%})" if before else ""
