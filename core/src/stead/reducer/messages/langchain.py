"""LangChain messages: objects, and the dicts that `message_to_dict` and `model_dump` make of them."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import (
    as_content,
    block_media,
    block_strings,
    items,
    put,
    read,
    render_arguments,
    word,
)
from stead.reducer.messages.codec import Content, Role, View, check_edits
from stead.reducer.messages.openai_chat import OpenAIChat
from stead.reducer.messages.parts import Parts

__all__ = ["LangChain"]

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
# Blocks that repeat a call of `tool_calls`, and the field with their arguments.
CALL_BLOCKS = {
    "tool_use": "input",
    "tool_call": "args",
    "tool_call_chunk": "args",
    "function_call": "arguments",
    "custom_tool_call": "input",
}
THINKING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
SIGNATURES = "__gemini_function_call_thought_signatures__"
CHAT = OpenAIChat()


class LangChain:
    """The codec for LangChain: message objects, their dict forms, and the OpenAI dicts that it takes among them."""

    name = "langchain"
    splits_turns = False

    def view(self, message: Any) -> View:
        """See `Codec.view`."""
        if _is_chat_dict(message):
            return CHAT.view(message)
        data = _data(message)
        role = _role(message)
        parts = Parts()
        content = read(data, "content")
        if role == "tool":
            failed = read(data, "status") == "error"
            parts.result(word(data, "tool_call_id"), word(data, "name"), as_content(content), is_error=failed)
            return parts.view("tool")
        for block in [content] if isinstance(content, str) else items(data, "content"):
            _add_block(parts, block)
        if role == "assistant":
            _add_calls(parts, data)
        return parts.view(role)

    def replace(
        self, message: Any, *, results: Mapping[int, Content] | None = None, arguments: Mapping[int, Any] | None = None
    ) -> Any:
        """See `Codec.replace`."""
        if not results and not arguments:
            return message
        if _is_chat_dict(message):
            return CHAT.replace(message, results=results, arguments=arguments)
        view = self.view(message)
        check_edits(view, results or {}, arguments or {})
        data = _data(message)
        updates: dict[str, Any] = {"content": results[0]} if results else {}
        edits = {
            call.ordinal: render_arguments(arguments[call.ordinal], call.form)
            for call in view.calls
            if arguments and call.ordinal in arguments and not call.signed
        }
        if edits:
            updates |= _edited_calls(data, edits)
        new = put(data, updates)
        return new if data is message else put(message, {"data": new})


def _is_chat_dict(message: Any) -> bool:
    return isinstance(message, Mapping) and "role" in message and "type" not in message


def _data(message: Any) -> Any:
    """The message's fields: of the message itself, or of `message_to_dict`'s inner dict."""
    nested = message.get("data") if isinstance(message, Mapping) else None
    return nested if isinstance(nested, Mapping) else message


def _role(message: Any) -> Role:
    kind = word(message, "type").removesuffix("MessageChunk").lower()
    if kind == "chat":
        kind = word(_data(message), "role")
    return ROLES.get(kind, "other")


def _add_block(parts: Parts, block: Any) -> None:
    kind = "" if isinstance(block, str) else word(block, "type")
    if kind in CALL_BLOCKS:
        return
    if kind in THINKING:
        parts.signed = True
        parts.reasoning += block_strings(block)
    elif (media := block_media(block)) is not None:
        parts.media.append(media)
    else:
        parts.texts += block_strings(block)


def _add_calls(parts: Parts, data: Any) -> None:
    extra = read(data, "additional_kwargs")
    signatures = read(extra, SIGNATURES)
    for call in items(data, "tool_calls"):
        identity = word(call, "id")
        signed = isinstance(signatures, Mapping) and identity in signatures
        parts.call(identity, word(call, "name"), read(call, "args"), signed=signed)
    for call in items(data, "invalid_tool_calls"):
        # Broken JSON cannot be made an object; the call still has a result, and its text still counts.
        parts.call(word(call, "id"), word(call, "name"), None)
        parts.texts += filter(None, [word(call, "args")])
    thinking = read(extra, "reasoning_content", "reasoning")
    if thinking:
        parts.signed = parts.signed or not isinstance(thinking, str)
        parts.reasoning += block_strings(thinking)


def _edited_calls(data: Any, edits: Mapping[int, Any]) -> dict[str, Any]:
    """The fields that hold the arguments, each edited alike: `tool_calls`, and where a provider's raw form is kept."""
    calls = list(items(data, "tool_calls"))
    by_id: dict[str, Any] = {}
    for ordinal, value in edits.items():
        by_id[word(calls[ordinal], "id")] = value
        calls[ordinal] = put(calls[ordinal], {"args": value})
    updates: dict[str, Any] = {"tool_calls": calls}
    content = read(data, "content")
    if isinstance(content, list):
        updates["content"] = [_edited_copy(block, by_id) for block in content]
    chunks = items(data, "tool_call_chunks")
    if chunks:
        updates["tool_call_chunks"] = [_edited_copy({**chunk, "type": "tool_call_chunk"}, by_id) for chunk in chunks]
    extra = read(data, "additional_kwargs")
    if isinstance(extra, Mapping) and items(extra, "tool_calls"):
        raw = [_edited_raw(call, by_id) for call in extra["tool_calls"]]
        updates["additional_kwargs"] = {**extra, "tool_calls": raw}
    return updates


def _edited_copy(block: Any, by_id: Mapping[str, Any]) -> Any:
    """A content block that repeats an edited call, edited in its own form; any other block as it is."""
    kind = "" if isinstance(block, str) else word(block, "type")
    identity = word(block, "call_id", "id") if kind else ""
    if kind not in CALL_BLOCKS or identity not in by_id:
        return block
    field = CALL_BLOCKS[kind]
    new = render_arguments(by_id[identity], "json" if isinstance(read(block, field), str) else "object")
    updates = {field: new}
    if kind == "tool_use" and read(block, "partial_json"):
        updates["partial_json"] = render_arguments(new, "json")
    return put(block, updates)


def _edited_raw(call: Any, by_id: Mapping[str, Any]) -> Any:
    identity = word(call, "id")
    if identity not in by_id or not read(call, "function"):
        return call
    arguments = render_arguments(by_id[identity], "json")
    return put(call, {"function": put(read(call, "function"), {"arguments": arguments})})
