"""From a script's report to an `ExecutionResult`."""

from dataclasses import dataclass

from stead.command_output import CutStream, shown_text
from stead.posix.calls import Reply
from stead.results import ExecutionResult

__all__ = ["to_result"]


@dataclass(frozen=True, slots=True)
class _Stream:
    name: str
    total: int
    kept: int
    reason: str | None
    path: str | None

    def shown(self, limit: int) -> tuple[int, int]:
        """Bytes of its head and of its tail that come with the report."""
        if self.total <= limit:
            return self.kept, 0
        return min(self.kept, limit - limit // 2), min(self.kept, limit // 2)

    def text(self, data: bytes, limit: int) -> str:
        head = self.shown(limit)[0]
        return shown_text(
            CutStream(
                name=self.name,
                total=self.total,
                head=data[:head],
                tail=data[head:],
                path=self.path,
                error=self.reason,
            )
        )


def to_result(reply: Reply, limit: int, *, timed_out: bool = False) -> tuple[ExecutionResult, str]:
    """Builds the result of a command.

    Args:
        reply: The report.
        limit: The output limit that it was made with.
        timed_out: That it is known from elsewhere to have timed out.

    Returns:
        The result, and what ended the command: nothing, `timed-out`, `stopped` or `abandoned`.

    Raises:
        Unavailable: The report has parts missing.
    """
    (code, how, ticks, *told), data = reply.fields(11)
    out, err = (
        _Stream(name, int(total), int(kept), reason or None, path or None)
        for name, (total, kept, reason, path) in (("stdout", told[:4]), ("stderr", told[4:]))
    )
    cut = sum(out.shown(limit))
    timed_out = timed_out or how == "timed-out"
    result = ExecutionResult(
        exit_code=124 if timed_out else int(code),
        stdout=out.text(data[:cut], limit),
        stderr=err.text(data[cut:], limit),
        timed_out=timed_out,
        duration=max(0, int(ticks)) / 100,
        stdout_bytes=out.total,
        stderr_bytes=err.total,
        stdout_path=out.path,
        stderr_path=err.path,
        spill_error="; ".join(f"{s.name}: {s.reason}" for s in (out, err) if s.reason) or None,
    )
    return result, how
