"""What `StagedEnvironment` tells about one command: what was moved, what was kept beside, and what could not be moved."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stead.errors import EnvironmentClosed, EnvironmentLost, SteadError, Unavailable

__all__ = ["Conflict", "Moves", "SyncFailure", "SyncReport", "Unsettled", "log_troubles"]

_log = logging.getLogger("stead.wrappers.staged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A file that was changed on the machine and by somebody else in the store. Nothing of either is lost."""

    path: str
    """The file; in the store it holds the other's content."""
    kept_as: str | None
    """Where the machine's content was written in the store; None if it had been deleted on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFailure:
    """A file that could not be moved. It stays as it is on both sides, and the next command tries again."""

    path: str
    """The file, or the one that was to be made or deleted."""
    error: SteadError
    """What the side that refused it raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What one command moved between store and machine. Paths are those of the environment."""

    staged: tuple[str, ...] = ()
    """Written to the machine before the command."""
    written: tuple[str, ...] = ()
    """Written back to the store after it."""
    deleted: tuple[str, ...] = ()
    """Deleted in the store, since the command had deleted them."""
    conflicts: tuple[Conflict, ...] = ()
    """Changed on both sides; the machine's content is kept beside the store's."""
    failures: tuple[SyncFailure, ...] = ()
    """Not moved, since one side refused them."""


class Unsettled(Exception):
    """The file to be moved is gone, or is being written: the next command gets it."""


@dataclass(slots=True)
class Moves:
    """A report in the making."""

    staged: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    failures: list[SyncFailure] = field(default_factory=list)

    @contextmanager
    def apart(self, path: str) -> Iterator[None]:
        """Notes what goes wrong with one file, so that the others are moved all the same.

        Raises:
            EnvironmentClosed: One side was closed. This and the next are not about one file.
            EnvironmentLost: One side is gone.
            Unavailable: One side gives no answer.
        """
        try:
            yield
        except Unsettled:
            return
        except (EnvironmentClosed, EnvironmentLost, Unavailable):
            raise
        except SteadError as error:
            self.failures.append(SyncFailure(path=path, error=error))

    def report(self) -> SyncReport:
        """Returns it as it is now."""
        return SyncReport(
            staged=tuple(self.staged),
            written=tuple(self.written),
            deleted=tuple(self.deleted),
            conflicts=tuple(self.conflicts),
            failures=tuple(self.failures),
        )


def log_troubles(report: SyncReport) -> None:
    """Logs each conflict and each failure as a warning."""
    for conflict in report.conflicts:
        kept = "(a deletion) was not done" if conflict.kept_as is None else f"is kept as {conflict.kept_as!r}"
        _log.warning("%r was changed in the store while a command ran; the command's own %s", conflict.path, kept)
    for failure in report.failures:
        _log.warning("%r could not be moved between store and machine: %s", failure.path, failure.error)
