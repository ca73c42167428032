"""Pydantic AI messages: requests and responses of parts, as objects or as the dicts of its own type adapter."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import (
    block_media,
    block_strings,
    content_media,
    content_strings,
    json_text,
    put,
    read,
    render_arguments,
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
        kind = read(message, "kind")
        parts = Parts()
        for part in read(message, "parts") or ():
            _add(parts, part)
        if kind == "response":
            return parts.view("assistant")
        if kind != "request":
            return parts.view("other")
        kinds = {read(part, "part_kind") for part in read(message, "parts") or ()}
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
        for part in read(message, "parts"):
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
    return read(part, "part_kind") == "tool-call" and not _is_bookkeeping(part)


def _is_result(part: Any) -> bool:
    kind = read(part, "part_kind")
    if kind == "retry-prompt":
        return read(part, "tool_name") is not None
    return kind == "tool-return" and not _is_bookkeeping(part)


def _is_bookkeeping(part: Any) -> bool:
    """Whether the framework reads the part back itself, and insists on its shape (tool search, loaded capabilities)."""
    return read(part, "tool_kind") is not None


def _add(parts: Parts, part: Any) -> None:
    kind = read(part, "part_kind")
    if _is_call(part):
        parts.call(read(part, "tool_call_id"), read(part, "tool_name"), read(part, "args"))
    elif _is_result(part):
        failed = kind == "retry-prompt" or read(part, "outcome") in {"failed", "denied", "retried"}
        content = _content(read(part, "content"))
        parts.result(read(part, "tool_call_id"), read(part, "tool_name"), content, is_error=failed)
    elif kind == "thinking":
        parts.signed = True
        parts.reasoning += filter(None, [read(part, "content")])
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
