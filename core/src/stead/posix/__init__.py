"""The contract on a POSIX machine that only runs commands and moves files: what sandbox backends share.

A backend supplies a `Machine`. Everything else is done by small shell scripts, kept as data in `scripts/`, that need a POSIX
shell and the programs of a minimal Linux image.
"""

from stead.posix.calls import Throttled, TookTooLong
from stead.posix.environment import PlaceOptions, PosixEnvironment
from stead.posix.machine import COMMAND, Machine

__all__ = ["COMMAND", "Machine", "PlaceOptions", "PosixEnvironment", "Throttled", "TookTooLong"]
