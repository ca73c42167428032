"""From a keeper's answer to an `ExecutionResult`."""

import codecs

from stead.results import ExecutionResult, LimitHit
from stead_local.keeper.messages import Final, StreamEnd

__all__ = ["marker_line", "to_result"]

_LIMIT_HITS: dict[str | None, LimitHit | None] = {
    None: None,
    "cpu_seconds": "cpu_seconds",
    "file_size": "file_size",
}


def to_result(final: Final) -> ExecutionResult:
    """Builds the result of a command."""
    errors = [
        f"{name}: {end['error']}"
        for name, end in (("stdout", final["stdout"]), ("stderr", final["stderr"]))
        if end["error"] is not None
    ]
    return ExecutionResult(
        exit_code=final["exit_code"],
        stdout=_text("stdout", final["stdout"]),
        stderr=_text("stderr", final["stderr"]),
        timed_out=final["timed_out"],
        duration=final["duration"],
        stdout_bytes=final["stdout"]["total"],
        stderr_bytes=final["stderr"]["total"],
        stdout_path=final["stdout"]["path"],
        stderr_path=final["stderr"]["path"],
        spill_error="; ".join(errors) or None,
        limit_hit=_LIMIT_HITS[final["limit_hit"]],
    )


def marker_line(stream: str, end: StreamEnd, left_out: int) -> str:
    """The one line that stands between head and tail of a stream that was cut.

    Args:
        stream: `stdout` or `stderr`.
        end: How the stream ended.
        left_out: Bytes of it that are not shown.
    """
    count = f"{left_out} of {end['total']} bytes of {stream} left out"
    if end["path"] is None:
        where = f"and not kept: {end['error']}"
    elif end["error"] is not None:
        where = f"see {end['path']}, which is not complete: {end['error']}"
    else:
        where = f"all of it is in {end['path']}"
    return f"[stead: {count}; {where}]"


def _text(stream: str, end: StreamEnd) -> str:
    head, tail = end["head"], end["tail"]
    if len(head) + len(tail) == end["total"]:
        return head.decode(errors="replace")
    if not head and not tail:
        return ""  # output_limit=0: nothing is wanted, not even the marker
    head, tail = _without_cut_character(head), _from_next_character(tail)
    before = "" if not head or head.endswith(b"\n") else "\n"
    marker = marker_line(stream, end, end["total"] - len(head) - len(tail))
    return f"{head.decode(errors='replace')}{before}{marker}\n{tail.decode(errors='replace')}"


def _without_cut_character(data: bytes) -> bytes:
    """Drops the beginning of a character that goes on behind the cut."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.decode(data[-4:])
    return data[: len(data) - len(decoder.getstate()[0])]


def _from_next_character(data: bytes) -> bytes:
    """Drops the rest of a character that began before the cut, three bytes at most."""
    for start, byte in enumerate(data[:4]):
        if byte & 0xC0 != 0x80:
            return data[start:]
    return data  # no UTF-8 anyway
