"""Reports as files: the suffix says the format."""

import json
from collections.abc import Sequence
from pathlib import Path

from stead.conformance.badge import badge
from stead.conformance.report import FORMATS, ConformanceReport
from stead.errors import ConfigError

__all__ = ["SUFFIXES", "check_path", "rendered", "write_report"]

SUFFIXES = {".json": "json", ".xml": "junit", ".md": "markdown", ".svg": "badge"}
"""File suffix -> format."""


def rendered(reports: Sequence[ConformanceReport], style: str) -> str:
    """Renders reports in one format; several only where the format can hold them.

    Raises:
        ConfigError: The format is unknown.
    """
    if style == "badge":
        return badge(reports[0])
    if style not in FORMATS:
        raise ConfigError(f"a report is {', '.join(FORMATS)} or badge, not {style!r}")
    if len(reports) == 1:
        return FORMATS[style](reports[0])
    if style == "json":
        return json.dumps([json.loads(report.to_json()) for report in reports], indent=2, ensure_ascii=False) + "\n"
    if style == "junit":
        suites = [report.to_junit().partition("?>")[2].strip() for report in reports]
        return "<?xml version='1.0' encoding='utf-8'?>\n<testsuites>\n" + "\n".join(suites) + "\n</testsuites>\n"
    return "\n".join(FORMATS[style](report) for report in reports)


def check_path(path: Path) -> str:
    """Returns the format that a file's suffix says.

    Raises:
        ConfigError: It says none.
    """
    style = SUFFIXES.get(path.suffix)
    if style is None:
        raise ConfigError(f"{path}: a report's file ends in {', '.join(SUFFIXES)}")
    return style


def write_report(reports: Sequence[ConformanceReport], path: Path) -> None:
    """Writes reports to a file, its folder included.

    Raises:
        ConfigError: The suffix says no format.
        OSError: The file cannot be written.
    """
    data = rendered(reports, check_path(path)).encode("utf-8", "backslashreplace")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
