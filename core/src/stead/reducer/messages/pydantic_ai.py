"""Pydantic AI messages: requests and responses of parts, as objects or as the dicts of its own type adapter."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import (
    block_media,
    block_strings,
    content_media,
    content_strings,
    items,
    json_text,
    put,
    read,
    render_arguments,
    word,
)
from stead.reducer.messages.codec import Content, View, check_edits
from stead.reducer.messages.parts import Parts

__all__ = ["PydanticAI"]


class PydanticAI:
    """The codec for `ModelRequest` and `ModelResponse`.

    A request's `instructions` are not counted: the library sends those of the last request only.
    """

    name = "pydantic-ai"
    splits_turns = False

    def view(self, message: Any) -> View:
        """See `Codec.view`."""
        kind = word(message, "kind")
        parts = Parts()
        for part in items(message, "parts"):
            _add(parts, part)
        if kind == "response":
            return parts.view("assistant")
        if kind != "request":
            return parts.view("other")
        kinds = {word(part, "part_kind") for part in items(message, "parts")}
        return parts.view("system" if kinds == {"system-prompt"} else "user")

    def replace(
        self, message: Any, *, results: Mapping[int, Content] | None = None, arguments: Mapping[int, Any] | None = None
    ) -> Any:
        """See `Codec.replace`."""
        if not results and not arguments:
            return message
        results, arguments = results or {}, arguments or {}
        view = self.view(message)
        check_edits(view, results, arguments)
        parts: list[Any] = []
        calls = answers = 0
        for part in items(message, "parts"):
            new = part
            if _is_call(part):
                if calls in arguments:
                    new = put(part, {"args": render_arguments(arguments[calls], view.calls[calls].form)})
                calls += 1
            elif _is_result(part):
                if answers in results:
                    new = put(part, {"content": results[answers]})
                answers += 1
            parts.append(new)
        return put(message, {"parts": parts})


def _is_call(part: Any) -> bool:
    return word(part, "part_kind") == "tool-call" and not _is_bookkeeping(part)


def _is_result(part: Any) -> bool:
    kind = word(part, "part_kind")
    if kind == "retry-prompt":
        return read(part, "tool_name") is not None
    return kind == "tool-return" and not _is_bookkeeping(part)


def _is_bookkeeping(part: Any) -> bool:
    """Whether the framework reads the part back itself, and insists on its shape (tool search, loaded capabilities)."""
    return read(part, "tool_kind") is not None


def _add(parts: Parts, part: Any) -> None:
    kind = word(part, "part_kind")
    if _is_call(part):
        parts.call(word(part, "tool_call_id"), word(part, "tool_name"), read(part, "args"))
    elif _is_result(part):
        failed = kind == "retry-prompt" or word(part, "outcome") in {"failed", "denied", "retried"}
        content = _content(read(part, "content"))
        parts.result(word(part, "tool_call_id"), word(part, "tool_name"), content, is_error=failed)
    elif kind == "thinking":
        parts.signed = True
        parts.reasoning += filter(None, [word(part, "content")])
    elif kind == "file":
        parts.media += filter(None, [block_media(read(part, "content"))])
    else:
        content = read(part, "content", "args")
        parts.texts += content_strings(content if isinstance(content, str | list | tuple) else list(_strings(content)))
        parts.media += content_media(content)


def _strings(value: Any) -> list[str]:
    return [] if value is None else list(block_strings(value))


def _content(content: Any) -> Content:
    """Text as it is, a list with media as blocks, and any other value as the JSON that the model reads."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        blocks = list(content)
        return blocks if content_media(blocks) else json_text(blocks)
    media = block_media(content)
    return [content] if media is not None else json_text(content)
