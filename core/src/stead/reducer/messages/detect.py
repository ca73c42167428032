"""Finds the codec for a message list: by name, by the classes in it, or by the keys of its dicts."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from stead.errors import ConfigError
from stead.reducer.messages.blocks import word
from stead.reducer.messages.codec import Codec

__all__ = ["FORMATS", "codec_named", "find_codec", "format_in"]

FORMATS: Mapping[str, str] = {
    "openai-chat": "stead.reducer.messages.openai_chat:OpenAIChat",
    "openai-responses": "stead.reducer.messages.openai_responses:OpenAIResponses",
    "anthropic": "stead.reducer.messages.anthropic:Anthropic",
    "langchain": "stead.reducer.messages.langchain:LangChain",
    "google-genai": "stead.reducer.messages.google_genai:GoogleGenAI",
    "pydantic-ai": "stead.reducer.messages.pydantic_ai:PydanticAI",
}
"""Format name -> where its codec is."""
ALIASES: Mapping[str, str] = {"openai": "openai-chat", "responses": "openai-responses", "google": "google-genai"}
MODULES: Mapping[str, str] = {
    "langchain_core": "langchain",
    "pydantic_ai": "pydantic-ai",
    "google.genai": "google-genai",
    "anthropic": "anthropic",
    "openai.types.chat": "openai-chat",
    "openai.types.responses": "openai-responses",
}
LANGCHAIN_TYPES = frozenset({"human", "ai", "tool", "system", "function", "chat", "remove"})
ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result"}
)
RESPONSES_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file"})
RESPONSES_ITEMS = ("_call", "_call_output", "_list_tools", "_approval_request", "_approval_response")
RESPONSES_OTHER = frozenset({"reasoning", "message", "compaction", "item_reference"})
CHAT_BLOCKS = frozenset({"image_url", "input_audio"})
PLAIN = "plain"
UNKNOWN = "unknown"


def codec_named(name: str) -> Codec:
    """The codec of a format.

    Args:
        name: One of `FORMATS`; underscores do for hyphens.

    Raises:
        ConfigError: No format has that name.
    """
    key = name.replace("_", "-").lower()
    target = FORMATS.get(ALIASES.get(key, key))
    if target is None:
        raise ConfigError(f"no message format is called {name!r}; choose one of: {', '.join(FORMATS)}")
    module, _, attribute = target.partition(":")
    codec: Codec = getattr(importlib.import_module(module), attribute)()
    return codec


def find_codec(messages: Iterable[Any], given: str | Codec | None = None) -> Codec:
    """The codec for a message list.

    Texts of users and assistants look alike in several formats, and hold nothing to reduce: they get the codec for
    OpenAI chat, which can count them.

    Args:
        messages: The history, or the part of it that is new.
        given: A format's name or a codec, which then needs no look at the messages.

    Raises:
        ConfigError: The name is unknown, the messages belong to different formats, or to none that is known.
    """
    if given is not None:
        return codec_named(given) if isinstance(given, str) else given
    return codec_named(format_in(messages) or "openai-chat")


def format_in(messages: Iterable[Any]) -> str | None:
    """The format that some of the messages show; None if all of them are texts that look alike in several formats.

    Args:
        messages: A history, or a part of one.

    Raises:
        ConfigError: The messages belong to different formats, or to none that is known.
    """
    found = {_format_of(message) for message in messages if message is not None}
    formats = found - {PLAIN, UNKNOWN}
    if len(formats) > 1:
        raise ConfigError(
            f"the messages mix formats ({', '.join(sorted(formats))}): convert them to one, or name one with"
            " `message_format`"
        )
    if not formats and UNKNOWN in found:
        raise ConfigError(
            f"the message format cannot be told: name it with `message_format` ({', '.join(FORMATS)}), or give a codec"
            " of your own"
        )
    return formats.pop() if formats else None


def _format_of(message: Any) -> str:
    if type(message) is dict:
        return _format_of_dict(message)
    if isinstance(message, str):
        return PLAIN
    return _format_of_class(type(message)) or (_format_of_dict(message) if isinstance(message, Mapping) else UNKNOWN)


def _format_of_class(cls: type) -> str | None:
    for base in cls.__mro__:
        for module, name in MODULES.items():
            # A class can only come from a module that is loaded; nothing is imported to find out.
            if base.__module__ == module or base.__module__.startswith(f"{module}."):
                return name
    return None


def _format_of_dict(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    content = message.get("content")
    if role == "tool" or ("tool_calls" in message and "type" not in message):
        return "openai-chat"
    if type(content) is str and role is not None and "type" not in message:
        return "openai-chat" if "function_call" in message or role == "function" else PLAIN
    if "parts" in message:
        return "pydantic-ai" if message.get("kind") in ("request", "response") else "google-genai"
    kind = message.get("type")
    if isinstance(kind, str):
        by_type = _format_of_type(kind, has_role=role is not None)
        if by_type is not None:
            return by_type
    if isinstance(content, list | tuple):
        return _format_of_blocks(content)
    return PLAIN if role is not None else UNKNOWN


def _format_of_type(kind: str, *, has_role: bool) -> str | None:
    if (kind in LANGCHAIN_TYPES and not has_role) or kind.endswith("MessageChunk"):
        return "langchain"
    if kind in RESPONSES_OTHER or kind.endswith(RESPONSES_ITEMS):
        return "openai-responses"
    return None


def _format_of_blocks(blocks: Iterable[Any]) -> str:
    for block in blocks:
        by_class = None if isinstance(block, str | dict) else _format_of_class(type(block))
        if by_class is not None:
            return by_class
        kind = word(block, "type")
        if kind in ANTHROPIC_BLOCKS:
            return "anthropic"
        if kind in RESPONSES_BLOCKS:
            return "openai-responses"
        if kind in CHAT_BLOCKS:
            return "openai-chat"
        if not kind and isinstance(block, Mapping) and any("tool" in str(key).lower() for key in block):
            return UNKNOWN  # calls or results in a shape that no codec reads, such as Bedrock's
    return PLAIN
