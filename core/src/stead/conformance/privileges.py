"""Giving up what makes root different: the right to pass over permission bits."""

import ctypes
import os
import sys

__all__ = ["drop_override", "passes_over_permissions"]

_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_PR_CAPBSET_DROP = 24
_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words for each set


def passes_over_permissions() -> bool:
    """Returns whether this process is root on Linux, where `drop_override` works."""
    return sys.platform == "linux" and os.geteuid() == 0


def drop_override() -> bool:
    """Makes permission bits hold for this process, its threads to come and its children, though it is root.

    Never undone: call it in a child process.

    Returns:
        Whether it worked.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    dropped = (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH)
    # From the bounding set too, or a program that root executes would get them back.
    if any(libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) for number in dropped):
        return False
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper words
    if libc.capget(header, sets):
        return False
    kept = ~sum(1 << number for number in dropped)
    for index in range(3):
        sets[index] &= kept & 0xFFFFFFFF
    return not libc.capset(header, sets)
