"""How many descriptors this process has open."""

import os

from stead.conformance.law import Locked

__all__ = ["open_files"]


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
