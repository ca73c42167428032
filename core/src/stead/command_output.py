"""What a result shows of a command's output when not all of it fits. For authors of environments."""

import codecs
from dataclasses import dataclass

__all__ = ["CutStream", "marker_line", "shown_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutStream:
    """One stream of a command, as far as it was kept."""

    name: str
    """`stdout` or `stderr`."""
    total: int
    """Bytes that the command wrote."""
    head: bytes
    """All of it, or its beginning."""
    tail: bytes = b""
    """Its end, if it was cut."""
    path: str | None = None
    """Where it was spilled, or None."""
    error: str | None = None
    """Why the spill is missing or ends early, or None."""


def shown_text(stream: CutStream) -> str:
    """Returns the stream as text: whole, or head, one marker line and tail, both cut between characters.

    Nothing at all is shown of a stream of which nothing was to be kept (`output_limit=0`).
    """
    head, tail = stream.head, stream.tail
    if len(head) + len(tail) == stream.total:
        return (head + tail).decode(errors="replace")
    if not head and not tail:
        return ""
    head, tail = _without_cut_character(head), _from_next_character(tail)
    marker = marker_line(stream, stream.total - len(head) - len(tail))
    before = "" if not head or head.endswith(b"\n") else "\n"
    return f"{head.decode(errors='replace')}{before}{marker}\n{tail.decode(errors='replace')}"


def marker_line(stream: CutStream, left_out: int) -> str:
    """The one line that stands between head and tail of a stream that was cut.

    Args:
        stream: Which.
        left_out: Bytes of it that are not shown.
    """
    count = f"{left_out} of {stream.total} bytes of {stream.name} left out"
    if stream.path is None:
        where = f"and not kept: {stream.error}"
    elif stream.error is not None:
        where = f"see {stream.path}, which is not complete: {stream.error}"
    else:
        where = f"all of it is in {stream.path}"
    return f"[stead: {count}; {where}]"


def _without_cut_character(data: bytes) -> bytes:
    """Drops the beginning of a character that goes on behind the cut."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.decode(data[-4:])
    return data[: len(data) - len(decoder.getstate()[0])]


def _from_next_character(data: bytes) -> bytes:
    """Drops the rest of a character that began before the cut, three bytes at most."""
    rest = 0
    while rest < len(data) and data[rest] & 0xC0 == 0x80:
        rest += 1
    return data[rest:] if rest <= 3 else data  # else it is no UTF-8 anyway
