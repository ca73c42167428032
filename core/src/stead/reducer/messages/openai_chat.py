"""OpenAI chat completions, and the many services that speak the same format."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import (
    as_content,
    content_media,
    content_strings,
    items,
    json_text,
    put,
    read,
    record,
    render_arguments,
    word,
)
from stead.reducer.messages.codec import ArgumentsForm, Call, Content, Media, Result, Role, View, check_edits

__all__ = ["OpenAIChat"]

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
# Thinking as other services add it to this format: DeepSeek and vLLM, OpenRouter, LiteLLM.
REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
# A history has one view an entry: `tuple.__new__` makes one in a quarter of the time of the class's own call.
new = tuple.__new__


class OpenAIChat:
    """The codec for chat completion messages: dicts, and the SDK's own message objects among them."""

    name = "openai-chat"
    splits_turns = False

    def view(self, message: Any) -> View:
        """See `Codec.view`."""
        if type(message) is not dict:
            message = _as_mapping(message)
        role = message.get("role")
        content = message.get("content")
        if role == "tool" or role == "function":  # noqa: PLR1714 - a set costs more than it saves, once a message
            content = content if type(content) is str else as_content(content)
            result = new(Result, (0, word(message, "tool_call_id"), word(message, "name"), content, False))
            return new(View, ("tool", (), (result,), (), (), (), False))
        media: tuple[Media, ...] = ()
        if type(content) is str:
            texts: tuple[str, ...] = (content,) if content else ()
        elif content is None:
            texts = ()
        else:
            texts, media = content_strings(content), content_media(content)
        if role == "assistant":
            return _assistant_view(message, texts, media)
        return new(View, (ROLES.get(word(message, "role"), "other"), (), (), texts, (), media, False))

    def replace(
        self, message: Any, *, results: Mapping[int, Content] | None = None, arguments: Mapping[int, Any] | None = None
    ) -> Any:
        """See `Codec.replace`."""
        if not results and not arguments:
            return message
        if (
            results
            and not arguments
            and type(message) is dict
            and message.get("role") == "tool"
            and list(results) == [0]
        ):
            return {**message, "content": results[0]}  # the one edit that a long history needs by the thousand
        view = self.view(message)
        check_edits(view, results or {}, arguments or {})
        updates: dict[str, Any] = {"content": results[0]} if results else {}
        if arguments:
            updates |= _edited_calls(message, view.calls, arguments)
        return put(message, updates)


def _as_mapping(message: Any) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return message
    names = ("role", "content", "tool_calls", "function_call", "tool_call_id", "name", "refusal", *REASONING)
    return {name: getattr(message, name, None) for name in names}


def _assistant_view(message: Mapping[str, Any], texts: tuple[str, ...], media: tuple[Media, ...]) -> View:
    raw = items(message, "tool_calls")
    calls: tuple[Call, ...] = ()
    if raw:
        calls = (_call(0, raw[0]),) if len(raw) == 1 else tuple([_call(i, item) for i, item in enumerate(raw)])
        if len(message) == 3 and "content" in message:  # with the role these are all: nothing else to look for
            return new(View, ("assistant", calls, (), texts, (), media, False))
    old_style = record(message, "function_call")
    if old_style and not calls:
        calls = (_function_call(0, None, old_style, signed=False),)
    refusal = word(message, "refusal")
    if refusal:
        texts = (*texts, refusal)
    reasoning: tuple[str, ...] = ()
    signed = False
    for name in REASONING:
        found = message.get(name)
        if found:
            reasoning = reasoning or content_strings(found)
            signed = signed or not isinstance(found, str)
    return new(View, ("assistant", calls, (), texts, reasoning, media, signed))


def _call(ordinal: int, item: Any) -> Call:
    if type(item) is dict and len(item) == 3 and item.get("type") == "function":  # the usual one: id, type, function
        function = item.get("function")
        if type(function) is dict and type(function.get("arguments")) is str:
            return new(Call, (ordinal, word(item, "id"), word(function, "name"), function["arguments"], "json", False))
    identity = word(item, "id")
    custom = record(item, "custom") if read(item, "type") == "custom" else None
    if custom is not None:
        return Call(ordinal, identity, word(custom, "name"), read(custom, "input"), "text")
    # Gemini's thought signature, as its own OpenAI endpoint and as LiteLLM pass it on.
    extra = read(item, "extra_content", "provider_specific_fields")
    signed = extra is not None and "thought_signature" in json_text(extra)
    return _function_call(ordinal, identity, record(item, "function"), signed=signed)


def _function_call(ordinal: int, identity: str | None, function: Any, *, signed: bool) -> Call:
    arguments = read(function, "arguments")
    form: ArgumentsForm = "object" if isinstance(arguments, Mapping) else "json"
    return Call(ordinal, identity, word(function, "name"), arguments, form, signed)


def _edited_calls(message: Any, calls: tuple[Call, ...], arguments: Mapping[int, Any]) -> dict[str, Any]:
    rendered = {
        call.ordinal: render_arguments(arguments[call.ordinal], call.form)
        for call in calls
        if call.ordinal in arguments and not call.signed
    }
    raw = items(message, "tool_calls")
    if not raw:
        return {"function_call": put(record(message, "function_call"), {"arguments": rendered[0]})}
    edited = list(raw)
    for ordinal, value in rendered.items():
        item = edited[ordinal]
        if calls[ordinal].form == "text":
            edited[ordinal] = put(item, {"custom": put(read(item, "custom"), {"input": value})})
        else:
            edited[ordinal] = put(item, {"function": put(record(item, "function") or {}, {"arguments": value})})
    return {"tool_calls": edited}
