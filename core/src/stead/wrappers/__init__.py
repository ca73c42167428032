"""Environments made of other environments. Each is an environment like any other, and passes the same laws."""

from stead.wrappers.base import Wrapper
from stead.wrappers.mounts import MountsEnvironment
from stead.wrappers.read_only import ReadOnlyEnvironment
from stead.wrappers.scoped import ScopedEnvironment
from stead.wrappers.staged import StagedEnvironment
from stead.wrappers.sync_report import Conflict, SyncFailure, SyncReport

__all__ = [
    "Conflict",
    "MountsEnvironment",
    "ReadOnlyEnvironment",
    "ScopedEnvironment",
    "StagedEnvironment",
    "SyncFailure",
    "SyncReport",
    "Wrapper",
]
