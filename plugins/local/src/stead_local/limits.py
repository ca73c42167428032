"""What commands may use, set by the system's own means (setrlimit)."""

from dataclasses import dataclass, fields

__all__ = ["Limits"]

_MOST = (1 << 63) - 2  # the system's numbers are signed, and processor time needs one more as its hard limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process of a command may use. None is no limit of ours; a limit of the host stays in force.

    With any of them a command costs a millisecond or two more to start.

    Raises:
        TypeError: A value is not an int.
        ValueError: A value is less than 1, or beyond what the system can hold.
    """

    cpu_seconds: int | None = None
    """Processor time of each process, in seconds. Reaching it ends the process; the result then has `limit_hit`."""
    memory: int | None = None
    """Address space of each process, in bytes: allocations fail beyond it. Programs that reserve much more than they
    use (JVM, Go, Node) need a generous value."""
    processes: int | None = None
    """Processes and threads that the host's user may have in all, the host's own included. Root is not limited."""
    file_size: int | None = None
    """Largest file that a process may write, in bytes. Reaching it ends the process, unless it ignores SIGXFSZ as
    Python does; the result then has `limit_hit`."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
            if value > _MOST:
                raise ValueError(f"{name} must be at most {_MOST}")

    def given(self) -> dict[str, int]:
        """Returns the limits that are set, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
