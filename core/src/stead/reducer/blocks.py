"""Results as text and opaque parts: what of a tool's result is text, and how to put another text in its place."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Parts", "block_text", "is_blocks", "parts_of", "with_text"]

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})


@dataclass(frozen=True, slots=True)
class Parts:
    """A result taken apart."""

    blocks: Sequence[Any]
    """The result's blocks; a plain text is one block."""
    texts: tuple[str | None, ...]
    """Text of each block; None for an opaque one (image, audio, file)."""
    plain: bool
    """True if the result is a text or becomes one, False if it is a list of blocks."""
    length: int
    """Characters of all text blocks together; of data, of the compact JSON text that a model would be shown."""

    def joined(self) -> str:
        """The text blocks as one text, each begun on a line of its own."""
        pieces: list[str] = []
        for text in self.texts:
            if text is None:
                continue
            if pieces and pieces[-1] and not pieces[-1].endswith("\n"):
                pieces.append("\n")
            pieces.append(text)
        return "".join(pieces)


def parts_of(result: Any) -> Parts | None:
    """Takes a result apart; None if there is nothing in it that could be reduced (None, numbers, bytes, []).

    Args:
        result: What a tool returned: text, a list of blocks, or data (a dict or list), which counts as its JSON text.
    """
    if isinstance(result, str):
        return Parts((result,), (result,), plain=True, length=len(result))
    if is_blocks(result):
        texts = tuple(block_text(block) for block in result)
        return Parts(result, texts, plain=False, length=sum(len(text) for text in texts if text))
    if isinstance(result, (dict, list, tuple)) and result:
        return _data_parts(result)
    return None


def is_blocks(result: Any) -> bool:
    """True for a list of content blocks: dicts or objects with a `type`, perhaps with plain strings between them."""
    if not isinstance(result, list):
        return False
    kinds = [None if isinstance(item, str) else _type_of(item) for item in result]
    return any(kind is not None for kind in kinds) and all(
        kind is not None or isinstance(item, str) for kind, item in zip(kinds, result, strict=True)
    )


def block_text(block: Any) -> str | None:
    """The text of a block, or None if it is opaque.

    Args:
        block: A string, or a dict or object with `type` and `text`.
    """
    if isinstance(block, str):
        return block
    if _type_of(block) not in _TEXT_TYPES:
        return None
    text = block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None)
    return text if isinstance(text, str) else None


def with_text(block: Any, text: str) -> Any:
    """A copy of a text block with another text; the block itself is not changed.

    Args:
        block: A block of which `block_text` is not None.
        text: Its new text.
    """
    if isinstance(block, str):
        return text
    if isinstance(block, Mapping):
        return {**block, "text": text}
    from stead.reducer.copying import replaced

    return replaced(block, "text", text)


def _data_parts(data: Any) -> Parts | None:
    try:
        # One item a line is what can be paged; the compact form is what a model would have been shown.
        text = json.dumps(data, ensure_ascii=False, indent=1, default=str)
        shown = json.dumps(data, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return None
    return Parts((text,), (text,), plain=True, length=len(shown))


def _type_of(block: Any) -> str | None:
    kind = block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)
    return kind if isinstance(kind, str) else None
