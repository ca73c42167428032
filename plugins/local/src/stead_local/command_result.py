"""From a keeper's answer to an `ExecutionResult`."""

from stead.command_output import CutStream, shown_text
from stead.results import ExecutionResult, LimitHit
from stead_local.keeper.messages import Final, StreamEnd

__all__ = ["to_result"]

_LIMIT_HITS: dict[str | None, LimitHit | None] = {
    None: None,
    "cpu_seconds": "cpu_seconds",
    "file_size": "file_size",
}


def to_result(final: Final) -> ExecutionResult:
    """Builds the result of a command."""
    stdout, stderr = _stream("stdout", final["stdout"]), _stream("stderr", final["stderr"])
    errors = [f"{stream.name}: {stream.error}" for stream in (stdout, stderr) if stream.error is not None]
    return ExecutionResult(
        exit_code=final["exit_code"],
        stdout=shown_text(stdout),
        stderr=shown_text(stderr),
        timed_out=final["timed_out"],
        duration=final["duration"],
        stdout_bytes=stdout.total,
        stderr_bytes=stderr.total,
        stdout_path=stdout.path,
        stderr_path=stderr.path,
        spill_error="; ".join(errors) or None,
        limit_hit=_LIMIT_HITS[final["limit_hit"]],
    )


def _stream(name: str, end: StreamEnd) -> CutStream:
    return CutStream(
        name=name, total=end["total"], head=end["head"], tail=end["tail"], path=end["path"], error=end["error"]
    )
