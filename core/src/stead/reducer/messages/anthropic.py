"""Anthropic messages: calls and results are blocks, the results in user messages beside other blocks."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import as_content, block_media, block_strings, put, read, render_arguments, word
from stead.reducer.messages.codec import Content, View, check_edits
from stead.reducer.messages.openai_chat import ROLES
from stead.reducer.messages.parts import Parts

__all__ = ["Anthropic"]


class Anthropic:
    """The codec for Anthropic messages: dicts, with the SDK's own block objects in them or around them."""

    name = "anthropic"
    splits_turns = False

    def view(self, message: Any) -> View:
        """See `Codec.view`."""
        role = ROLES.get(word(message, "role"), "other")
        content = read(message, "content")
        if isinstance(content, str):
            return View(role, texts=(content,) if content else ())
        if not isinstance(content, list | tuple):
            return View(role)
        parts = Parts()
        for block in content:
            _add(parts, block)
        return parts.view(role)

    def replace(
        self, message: Any, *, results: Mapping[int, Content] | None = None, arguments: Mapping[int, Any] | None = None
    ) -> Any:
        """See `Codec.replace`."""
        if not results and not arguments:
            return message
        results, arguments = results or {}, arguments or {}
        view = self.view(message)
        check_edits(view, results, arguments)
        blocks: list[Any] = []
        seen = {"tool_result": 0, "tool_use": 0}
        for block in read(message, "content"):
            kind = word(block, "type")
            ordinal = seen.get(kind, 0)
            if kind in seen:
                seen[kind] += 1
            if kind == "tool_result" and ordinal in results:
                blocks.append(put(block, {"content": results[ordinal]}))
            elif kind == "tool_use" and ordinal in arguments:
                blocks.append(put(block, {"input": render_arguments(arguments[ordinal], view.calls[ordinal].form)}))
            else:
                blocks.append(block)
        return put(message, {"content": blocks})


def _add(parts: Parts, block: Any) -> None:
    kind = word(block, "type")
    if kind == "tool_use":
        parts.call(word(block, "id"), word(block, "name"), read(block, "input"))
    elif kind == "tool_result":
        content = as_content(read(block, "content"))
        parts.result(word(block, "tool_use_id"), None, content, is_error=read(block, "is_error") is True)
    elif kind in {"thinking", "redacted_thinking"}:
        parts.signed = True
        parts.reasoning += filter(None, [word(block, "thinking")])
    elif (media := block_media(block)) is not None:
        parts.media.append(media)
    else:
        parts.texts += block_strings(block)
