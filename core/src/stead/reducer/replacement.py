"""How a record keeps the exact text of a notice without keeping its preview twice."""

from typing import Any

__all__ = ["pack", "unpack"]


def pack(replacement: str, head: str, tail: str) -> Any:
    """The replacement as a record keeps it: the preview as lengths, since its text is in the stored content.

    Args:
        replacement: The exact text that stands in the result's place.
        head: The preview of the beginning, as it is in `replacement`.
        tail: The preview of the end.
    """
    if not head or head not in replacement:
        return replacement
    before, _, rest = replacement.partition(head)
    between, after = rest, ""
    if tail:
        between, found, after = rest.rpartition(tail)
        if not found:
            return replacement
    return {"around": [before, between, after], "head": len(head), "tail": len(tail)}


def unpack(packed: Any, stored: str) -> str | list[str | None] | None:
    """The exact replacement again; None if it cannot be had.

    Args:
        packed: What `pack` gave: text, a list of texts, or a mapping.
        stored: The text that was stored.
    """
    if not isinstance(packed, dict):
        return packed if isinstance(packed, (str, list)) else None
    before, between, after = packed["around"]
    head, tail = stored[: packed["head"]], stored[len(stored) - packed["tail"] :]
    return f"{before}{head}{between}{tail}{after}"
