"""Results as text and opaque parts: what of a tool's result is text, and how to put another text in its place."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stead.reducer.messages.blocks import block_media, block_text, put, read, with_text
from stead.reducer.records import hash_text

__all__ = ["Parts", "Texts", "carried", "is_blocks", "parts_of"]

Texts = list[str | None]
"""A text for each block of a result. None: for an opaque block nothing changes, a text block is left out."""

_RESULT_KEYS = frozenset({"role", "tool_call_id", "tool_use_id", "is_error", "isError", "structuredContent"})


@dataclass(frozen=True, slots=True)
class Parts:
    """A result taken apart."""

    blocks: Sequence[Any]
    """The result's blocks; a plain text is one block."""
    texts: Sequence[str | None]
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

    def source_hash(self) -> str:
        """Hash by which the same result is known again."""
        return texts_hash(self.texts)

    def assemble(self, texts: Texts) -> Any:
        """The result with other texts: text for text, a new list for blocks.

        Args:
            texts: As many as there are blocks.
        """
        if self.plain:
            return texts[0]
        kept = []
        for block, old, new in zip(self.blocks, self.texts, texts, strict=True):
            if old is None or new == old:
                kept.append(block)
            elif new is not None:
                kept.append(with_text(block, new))
        return kept


def texts_hash(texts: Sequence[str | None]) -> str:
    """Hash of the texts of a result; that of a plain text is the hash of the text itself.

    Args:
        texts: Text of each block, None for an opaque one.
    """
    return hash_text("\0".join(["\1" if text is None else text for text in texts]))


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
    """True for a list of content blocks: text and media, perhaps with other typed blocks and strings between them."""
    if not isinstance(result, list):
        return False
    known = False
    for item in result:
        if isinstance(item, str):
            continue
        if not isinstance(read(item, "type", "kind"), str):
            return False
        # Records of some data have a `type` too; a list of blocks has at least one of a type that we know.
        known = known or block_text(item) is not None or block_media(item) is not None
    return known


def carried(result: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The content of a result, and how to make a result of another content.

    Args:
        result: Content as it is, or a message or result object that holds it as `content`, such as LangChain's
            `ToolMessage`, MCP's `CallToolResult`, or a dict with `role` or `is_error` beside its `content`.
    """
    if isinstance(result, Mapping):
        if isinstance(result.get("content"), (str, list)) and not _RESULT_KEYS.isdisjoint(result):
            return result["content"], lambda content: put(result, {"content": content})
    elif not isinstance(result, (str, bytes, list, tuple, int, float, type(None))):
        content = getattr(result, "content", None)
        if isinstance(content, (str, list)):
            return content, lambda new: put(result, {"content": new})
    return result, lambda content: content


def _data_parts(data: Any) -> Parts | None:
    try:
        # One item a line is what can be paged; the compact form is what a model would have been shown.
        text = json.dumps(data, ensure_ascii=False, indent=1, default=str)
        shown = json.dumps(data, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return None
    return Parts((text,), (text,), plain=True, length=len(shown))
