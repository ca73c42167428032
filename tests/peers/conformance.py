"""Runs the laws on the environments of other libraries and writes the page of the results.

    python tests/peers/conformance.py [--write docs/reference/peers-conformance.md] [--only NAME]

`nox -s peers` does it with the versions of `tests/peers/constraints.txt`. The interpreter needs `stead[cli,conformance]`,
and the peers that are to be run: google-adk, deepagents, pydantic-ai-slim, fsspec. Each runs in a process of its own, one
after the other: some laws are about time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
MAIN = "from stead.cli import main; main()"


@dataclass(frozen=True)
class Peer:
    """One environment of another library."""

    title: str
    distribution: str
    factory: str
    emulated: frozenset[str] = frozenset()
    """Laws about what the other side does not have, and the adapter spells in the shell text."""


CWD = frozenset({"execute-cwd", "execute-cwd-wrong"})
VARIABLES = frozenset({"execute-variables", "execute-variables-wrong"})
PEERS = (
    Peer("ADK LocalEnvironment", "google-adk", "adk_local", CWD | VARIABLES),
    Peer("deepagents LocalShellBackend", "deepagents", "deepagents_shell", CWD | VARIABLES),
    Peer("deepagents FilesystemBackend", "deepagents", "deepagents_files"),
    Peer("Pydantic AI LocalWorkspaceBackend", "pydantic-ai-slim", "pydantic_ai_local", CWD),
    Peer("fsspec LocalFileSystem", "fsspec", "fsspec_local"),
    Peer("fsspec MemoryFileSystem", "fsspec", "fsspec_memory"),
)

# What differs from run to run in what was seen: temporary folders, the marks of laws' own folders, addresses, times.
NOISE = re.compile(r"/[^ '\"]*stead-conformance-\w+/|(?<=-)[0-9a-f]{6}(?=/)|0x[0-9a-f]+|\b\d+\.\d{6,}")

INTRO = """\
# Conformance of other libraries' environments

Written by `nox -s peers`, not by hand: the laws of [laws.md](laws.md) on environments of other libraries, through the
adapters of `stead.conformance.adapters`. An adapter translates and repairs nothing. These environments were written for
contracts of their own, so a law that one does not hold is a difference to this contract, which may be just what its
makers want; the table is here so that nobody has to guess.

`held`: the law holds. `failed`: it does not. `not offered`: it needs an argument that the other side does not have, such
as stdin, or is about one that the adapter spells in the shell text because the other side does not have it, such as a
command's directory. `unsupported`: it needs an operation that the other side does not have. `not claimed`: it is about a
quality that the other side does not promise. `locked`: it could not be tried, for want of a back door, of faults to
inject, or of a root that is not `/`. Laws about races (a cancelled read or write, two writers of one path) can go either
way from run to run where nothing guards against them.
"""


def main() -> int:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="the page to write; without it, it is printed")
    parser.add_argument("--only", action="append", help="factory to run, such as adk_local")
    given = parser.parse_args()
    wanted = [peer for peer in PEERS if not given.only or peer.factory in given.only]
    found = {peer: run(peer) for peer in wanted}
    page = render({peer: report for peer, report in found.items() if report is not None})
    if given.write:
        given.write.write_text(page, encoding="utf-8")
    else:
        print(page)
    return 0 if all(found.values()) else 1


def run(peer: Peer) -> dict | None:
    """Returns the report of one peer, None if it is not installed or could not be run."""
    if _version(peer) is None:
        print(f"{peer.title}: {peer.distribution} is not installed", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        option = "folder=/peers" if peer.factory == "fsspec_memory" else "folder={tmp}/work"
        command = ["conformance", f"peers_environments:{peer.factory}", "--option", option, "--report", str(report)]
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *command], cwd=HERE, env=_environment(), capture_output=True, text=True,
            timeout=3000, check=False,
        )  # fmt: skip
        if not report.exists():
            print(f"{peer.title}: {done.stderr}", file=sys.stderr)
            return None
        return json.loads(report.read_text())


def render(found: dict[Peer, dict]) -> str:
    """Writes the page."""
    if not found:
        return INTRO
    outcomes = ("held", "failed", "not offered", "unsupported", "unclaimed", "locked")
    lines = [INTRO, "| environment | version | " + " | ".join(_shown(name) for name in outcomes) + " |"]
    lines.append("|---" * (len(outcomes) + 2) + "|")
    ways = {peer: {v["law"]: _outcome(peer, v) for v in report["verdicts"]} for peer, report in found.items()}
    for peer, laws in ways.items():
        counts = [str(list(laws.values()).count(name)) for name in outcomes]
        lines.append(f"| {peer.title} | {peer.distribution} {_version(peer)} | {' | '.join(counts)} |")
    first = next(iter(found.values()))
    lines += ["", f"Contract {first['contract']}, suite {first['suite']}, Python {first['python']}, Linux."]
    for peer, report in found.items():
        lines += ["", f"## {peer.title}", "", *_list(peer, report)]
    return "\n".join([*lines, ""])


def _list(peer: Peer, report: dict) -> list[str]:
    """The laws that one peer fails, with what was seen, and those that need what it does not offer."""
    failed = [v for v in report["verdicts"] if _outcome(peer, v) == "failed"]
    absent = [f"`{v['law']}`" for v in report["verdicts"] if _outcome(peer, v) == "not offered"]
    lines = [f"- `{v['law']}`: {v['text']} Seen: `{_seen(v['reason'])}`" for v in failed]
    return lines + (["", f"Not offered: {', '.join(absent)}."] if absent else [])


def _outcome(peer: Peer, verdict: dict) -> str:
    lacking = verdict["reason"].startswith("Unsupported") or verdict["law"] in peer.emulated
    return "not offered" if verdict["outcome"] == "failed" and lacking else verdict["outcome"]


def _shown(outcome: str) -> str:
    return "not claimed" if outcome == "unclaimed" else outcome


def _seen(reason: str) -> str:
    text = NOISE.sub("…", reason.splitlines()[0].replace(str(HERE), "…")).replace("`", "'")
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    text = re.sub(r"(.)\1{9,}", r"\1\1\1…", text)
    return (text[:137] + "…") if len(text) > 138 else text


def _version(peer: Peer) -> str | None:
    try:
        return version(peer.distribution)
    except PackageNotFoundError:
        return None


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))}


if __name__ == "__main__":
    raise SystemExit(main())
