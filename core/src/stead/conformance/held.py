"""What this process holds: open descriptors and child processes."""

import os
from contextlib import suppress
from pathlib import Path

from stead.conformance.law import Locked

__all__ = ["child_processes", "open_files"]


def open_files() -> int:
    """Counts the open descriptors of this process.

    Raises:
        Locked: The system does not show them.
    """
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    raise Locked("this system does not show which descriptors are open")


def child_processes() -> frozenset[int]:
    """Returns the ids of this process's children; empty where the system does not show them."""
    with suppress(OSError):
        lists = [task.joinpath("children").read_text() for task in Path("/proc/self/task").iterdir()]
        return frozenset(int(pid) for text in lists for pid in text.split())
    return frozenset()
