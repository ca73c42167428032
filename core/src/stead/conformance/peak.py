"""Peak memory of this process, measured by the kernel: what counts is what was resident, not who allocated it."""

import ctypes
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stead.conformance.law import Locked

__all__ = ["Growth", "Peak"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(slots=True)
class Growth:
    """By how many bytes the resident memory rose above where it began; known once the block is left."""

    bytes: int = -1


class Peak:
    """Measures how much memory a block needs at most."""

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Growth]:
        """Measures the peak of the block.

        Raises:
            Locked: The kernel does not let this process reset its peak.
        """
        growth = Growth()
        _give_back()
        before = _reset()
        try:
            yield growth
        finally:
            growth.bytes = _read("VmHWM") - before


def _reset() -> int:
    try:
        _CLEAR.write_text("5")
        return _read("VmHWM")
    except OSError as error:
        raise Locked(f"the peak of memory cannot be measured here: {error}") from error


def _read(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise Locked(f"the peak of memory cannot be measured here: no {field} in {_STATUS}")


def _give_back() -> None:
    """Returns freed memory to the kernel, or a later peak would hide in what an earlier one left behind."""
    gc.collect()
    if os.name == "posix":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
