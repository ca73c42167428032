"""Reports: what happened, in every format, and what it means to a shell."""

import json
from xml.etree import ElementTree as ET

import pytest

from stead.conformance.badge import badge
from stead.conformance.report import ConformanceReport, Verdict, exit_code
from stead.conformance.writing import rendered, write_report
from stead.errors import ConfigError


def verdict(law, outcome, reason=""):
    """One law's way."""
    return Verdict(
        law=law, number="B1", group="write", text=f"States {law}.", outcome=outcome, reason=reason, seconds=0.5
    )


def report(*outcomes):
    """A run with these outcomes."""
    verdicts = tuple(verdict(f"law-{n}", outcome, outcome and f"why | {n}") for n, outcome in enumerate(outcomes))
    return ConformanceReport(target="Mine <1>", capabilities=("stat", "execute"), verdicts=verdicts)


@pytest.mark.parametrize(
    ("outcomes", "strict", "expected"),
    [
        (("held", "waived", "unsupported", "unclaimed", "locked"), False, 0),
        (("held", "locked"), True, 1),
        (("held", "failed"), False, 1),
        (("locked", "unsupported"), False, 3),
        (("waived",), False, 3),
    ],
)
def test_exit_code(outcomes, strict, expected):
    """A failed law is 1, a locked one only if strict, and a run in which nothing held is never green."""
    assert exit_code(report(*outcomes), strict=strict) == expected


def test_json():
    """JSON has the versions, the capabilities, the counts and every verdict."""
    data = json.loads(report("held", "failed").to_json())

    assert (data["contract"], data["suite"], data["conforms"]) == ("1.0", "1.0", False)
    assert data["capabilities"] == ["stat", "execute"]
    assert data["counts"] == {"held": 1, "waived": 0, "unsupported": 0, "unclaimed": 0, "locked": 0, "failed": 1}
    assert data["verdicts"][1]["reason"] == "why | 1"


def test_junit():
    """JUnit counts failures and skips, and survives characters that XML has no way to write."""
    text = rendered([report("held", "failed", "locked")], "junit")
    suite = ET.fromstring(text)

    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert {p.get("name"): p.get("value") for p in suite.iter("property")}["capabilities"] == "stat, execute"
    odd = ConformanceReport(target="x", capabilities=(), verdicts=(verdict("a", "failed", "\0\x0b\ufffe ok"),))
    assert ET.fromstring(odd.to_junit()).find("testcase/failure").get("message") == "??? ok"


def test_markdown():
    """Markdown has a table by group, and a row with its reason for each law that was not held."""
    text = report("held", "locked").to_markdown()

    assert "| write | 1 |  |  |  | 1 |  |" in text
    assert "| `law-1` | States law-1. | why \\| 1 |" in text
    assert "law-0" not in text


def test_badge():
    """The badge is well-formed, counts what was tried, and is red as soon as a law failed."""
    good, bad = (ET.fromstring(badge(report(*outcomes))) for outcomes in (["held"] * 3, ["held", "failed"]))
    colours = [[rect.get("fill") for rect in each if rect.tag.endswith("rect")][1] for each in (good, bad)]

    assert [list(each)[-1][-1].text for each in (good, bad)] == ["3/3 laws", "1/2 laws"]
    assert colours == ["#4c1", "#e05d44"]


def test_several_reports(tmp_path):
    """Several classes in one run share one file."""
    both = [report("held"), report("failed")]
    for name in ("r.json", "r.xml", "r.md"):
        write_report(both, tmp_path / "new" / name)

    assert len(json.loads((tmp_path / "new/r.json").read_text())) == 2
    assert len(ET.fromstring((tmp_path / "new/r.xml").read_text())) == 2
    assert (tmp_path / "new/r.md").read_text().count("# Conformance of") == 2


def test_unknown_suffix(tmp_path):
    """A file whose suffix says no format is refused, naming those that do."""
    with pytest.raises(ConfigError, match=r"\.json, \.xml, \.md, \.svg"):
        write_report([report("held")], tmp_path / "r.txt")
