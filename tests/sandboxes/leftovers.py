"""Which processes are still there."""

import contextlib
import os
import time
from pathlib import Path

# What a command leaves behind looks around once a second, and ends then.
_PATIENCE = 15.0


def lives(pid: str) -> bool:
    """Says whether a process runs; one that nobody has collected does not."""
    try:
        return Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def in_folder(folder: Path) -> list[str]:
    """Starts of the command lines of the processes that work in a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if Path(os.readlink(place)).is_relative_to(folder) and lives(place.parent.name):
                found.append(
                    (place.parent / "cmdline").read_bytes()[:80].replace(b"\0", b" ").decode("utf-8", "replace")
                )
    return found


def nobody_left_in(folder: Path) -> None:
    """Fails if processes that work in a folder do not end within some seconds."""
    until = time.monotonic() + _PATIENCE
    while left := in_folder(folder):
        assert time.monotonic() < until, f"processes are left in {folder}: {left}"
        time.sleep(0.1)
