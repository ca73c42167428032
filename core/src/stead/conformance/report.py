"""What a run of the suite found, as plain data, and as a table, JSON, JUnit and Markdown."""

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from xml.etree import ElementTree as ET

from stead.conformance import SUITE
from stead.environment import CONTRACT

__all__ = ["FORMATS", "OUTCOMES", "ConformanceReport", "Verdict", "exit_code", "shown"]

OUTCOMES = ("held", "waived", "unsupported", "unclaimed", "locked", "failed")
"""How a law can go. `unsupported`: an operation it needs is not declared. `unclaimed`: a quality it is about is not
declared. `locked`: it could not be tried here. `waived`: it failed, as its waiver says."""


def shown(outcome: str) -> str:
    """Returns what people read for an outcome."""
    return "not claimed" if outcome == "unclaimed" else outcome


def _version() -> str:
    from importlib.metadata import version

    return version("stead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one law went."""

    law: str
    number: str
    group: str
    text: str
    outcome: str
    reason: str = ""
    """Why it was not held; empty if it was."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """How all laws went on one environment."""

    target: str
    """What was tried: a test class, or what the name on the command line stood for."""
    capabilities: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    contract: str = CONTRACT
    suite: str = SUITE
    stead: str = field(default_factory=_version)
    python: str = field(default_factory=platform.python_version)
    system: str = field(default_factory=lambda: f"{platform.system()} {platform.release()}")

    def counts(self) -> dict[str, int]:
        """Returns how many laws went which way, in the order of `OUTCOMES`."""
        found = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    def groups(self) -> dict[str, dict[str, int]]:
        """Returns the counts of each group of laws."""
        names = dict.fromkeys(verdict.group for verdict in self.verdicts)
        return {
            name: {o: sum(v.group == name and v.outcome == o for v in self.verdicts) for o in OUTCOMES}
            for name in names
        }

    def conforms(self) -> bool:
        """Returns True if some law held and none failed."""
        return exit_code(self) == 0

    def summary(self) -> str:
        """Returns the counts in one line."""
        return ", ".join(f"{count} {shown(name)}" for name, count in self.counts().items() if count)

    def of(self, *outcomes: str) -> Iterable[Verdict]:
        """Yields the verdicts with these outcomes."""
        return (verdict for verdict in self.verdicts if verdict.outcome in outcomes)

    def to_json(self) -> str:
        """Returns everything as JSON."""
        data = {"conforms": self.conforms(), "counts": self.counts(), **asdict(self)}
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def to_junit(self) -> str:
        """Returns JUnit XML: a failed law is a failure, one that was not tried is skipped."""
        counts = self.counts()
        skipped = len(self.verdicts) - counts["held"] - counts["failed"]
        suite = ET.Element(
            "testsuite",
            name=f"stead conformance of {self.target}",
            tests=str(len(self.verdicts)),
            failures=str(counts["failed"]),
            skipped=str(skipped),
            time=f"{sum(v.seconds for v in self.verdicts):.3f}",
        )
        properties = ET.SubElement(suite, "properties")
        for name, value in self._facts().items():
            ET.SubElement(properties, "property", name=name, value=value)
        for verdict in self.verdicts:
            _junit_case(suite, verdict)
        ET.indent(suite)
        return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

    def to_markdown(self) -> str:
        """Returns a page: the facts, the counts by group, and every law that was not simply held."""
        lines = [f"# Conformance of {self.target}", ""]
        lines += [f"- {name}: {value}" for name, value in self._facts().items()]
        lines += ["", *self.group_table(), ""]
        for outcome in ("failed", "waived", "locked", "unclaimed", "unsupported"):
            rows = [f"| `{v.law}` | {_cell(v.text)} | {_cell(v.reason)} |" for v in self.of(outcome)]
            if rows:
                title = shown(outcome).capitalize()
                lines += [f"## {title}", "", "| law | what it says | why |", "|---|---|---|", *rows, ""]
        return "\n".join(lines)

    def group_table(self) -> list[str]:
        """Returns the lines of a Markdown table: laws by group and outcome."""
        head = [shown(outcome) for outcome in OUTCOMES]
        rows = [f"| {group} | {' | '.join(str(n[o] or '') for o in OUTCOMES)} |" for group, n in self.groups().items()]
        total = f"| **all** | {' | '.join(str(count or '') for count in self.counts().values())} |"
        return [f"| laws | {' | '.join(head)} |", "|---" * (len(OUTCOMES) + 1) + "|", *rows, total]

    def _facts(self) -> Mapping[str, str]:
        return {
            "contract": self.contract,
            "suite": self.suite,
            "stead": self.stead,
            "python": self.python,
            "system": self.system,
            "capabilities": ", ".join(self.capabilities) or "none",
            "result": self.summary(),
        }


def exit_code(report: ConformanceReport, *, strict: bool = False) -> int:
    """Returns what a run means to a shell.

    Args:
        report: The run.
        strict: Also ask that no law stayed locked.

    Returns:
        0: conforms. 1: a law failed, or was locked and `strict`. 3: no law held, so nothing was shown.
    """
    counts = report.counts()
    if counts["failed"] or (strict and counts["locked"]):
        return 1
    return 0 if counts["held"] else 3


FORMATS: dict[str, Callable[[ConformanceReport], str]] = {
    "json": ConformanceReport.to_json,
    "junit": ConformanceReport.to_junit,
    "markdown": ConformanceReport.to_markdown,
}
"""Formats of a report by name."""


def _junit_case(suite: ET.Element, verdict: Verdict) -> None:
    case = ET.SubElement(suite, "testcase", classname=verdict.group, name=verdict.law, time=f"{verdict.seconds:.3f}")
    if verdict.outcome == "failed":
        ET.SubElement(case, "failure", message=_xml(verdict.reason)).text = _xml(verdict.text)
    elif verdict.outcome != "held":
        ET.SubElement(case, "skipped", message=_xml(f"{verdict.outcome}: {verdict.reason}"))


def _xml(text: str) -> str:
    # XML 1.0 has no way to write most control characters, and file names in messages can hold any.
    return "".join(
        c if c in "\t\n" or " " <= c < "\ud800" or "\ue000" <= c < "\ufffe" or c > "\uffff" else "?" for c in text
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]
