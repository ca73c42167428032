"""Peak memory of a process, measured by the kernel: what counts is what was resident, not who allocated it."""

import ctypes
import gc
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stead.conformance.law import Locked

__all__ = ["Growth", "Peak", "can_reset"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(slots=True)
class Growth:
    """By how many bytes the resident memory rose above where it began; known once the block is left."""

    bytes: int = -1


class Peak:
    """Measures how much memory a block needs at most.

    Linux lets a process reset its own peak. Elsewhere the kit runs the law in a child process, whose peak starts low;
    what the law itself needed before the block then counts as if the block had needed it already.
    """

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Growth]:
        """Measures the peak of the block.

        Raises:
            Locked: The system shows no peak.
        """
        growth = Growth()
        _give_back()
        before = _begin()
        try:
            yield growth
        finally:
            growth.bytes = _peak() - before


def can_reset() -> bool:
    """Returns whether this process can reset its own peak."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def _begin() -> int:
    can_reset()
    return _peak()


def _peak() -> int:
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ModuleNotFoundError:
        raise Locked("this system does not show the peak of a process's memory") from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _give_back() -> None:
    """Returns freed memory to the kernel, or a later peak would hide in what an earlier one left behind."""
    gc.collect()
    if os.name == "posix":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
