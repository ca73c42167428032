"""Reading and copying the dicts and library objects that messages are made of, without importing any library."""

import copy
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from stead.reducer.messages.codec import ArgumentsForm, Content, Media, MediaKind

__all__ = [
    "block_media",
    "block_strings",
    "block_text",
    "content_media",
    "content_strings",
    "items",
    "json_text",
    "put",
    "read",
    "record",
    "render_arguments",
    "with_text",
    "word",
]

TEXT_TYPES = frozenset({"text", "input_text", "output_text", "text-content"})
MEDIA_KINDS: Mapping[str, MediaKind] = {
    "image": "image",
    "image_url": "image",
    "image-url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "audio": "audio",
    "audio-url": "audio",
    "input_audio": "audio",
    "video": "video",
    "video-url": "video",
    "document": "file",
    "document-url": "file",
    "file": "file",
    "input_file": "file",
    "uploaded-file": "file",
    "container_upload": "file",
}
# What a model never reads as text: names of fields, marks of caching, and opaque proofs.
UNREAD = frozenset({"type", "kind", "id", "cache_control", "signature", "encrypted_content", "thought_signature"})
NO_FIELDS = (str, bytes, int, float, list, tuple)
# Deeper values are shown as their JSON text: no real block comes near, and Python's stack has an end.
DEEPEST = 100
PAYLOADS = ("data", "base64", "file_data", "image_url", "url", "source", "file", "input_audio", "inline_data")


def read(value: Any, *names: str) -> Any:
    """The first of the fields that is there and not None; None if there is none.

    Args:
        value: A mapping or any object.
        names: Spellings of one field, such as `"function_call", "functionCall"`.
    """
    by_key = isinstance(value, dict | Mapping)  # dict first: the check for the abstract class is slow
    for name in names:
        found = value.get(name) if by_key else getattr(value, name, None)
        if found is not None:
            return found
    return None


def word(value: Any, *names: str) -> str:
    """The first of the fields that is there, if it is a string; else an empty one. For roles, types and names.

    Args:
        value: As `read`.
        names: As `read`.
    """
    # One field of a dict is asked for most by far.
    found = value.get(names[0]) if type(value) is dict and len(names) == 1 else read(value, *names)
    return found if isinstance(found, str) else ""


def items(value: Any, *names: str) -> Sequence[Any]:
    """The first of the fields that is there, if it is a list or tuple; else nothing. For blocks, parts and calls.

    Args:
        value: As `read`.
        names: As `read`.
    """
    found = read(value, *names)
    return found if isinstance(found, list | tuple) else ()


def record(value: Any, *names: str) -> Any:
    """The first of the fields that is there, if it has fields itself: a mapping or a library's object; else None.

    Args:
        value: As `read`.
        names: As `read`.
    """
    found = read(value, *names)
    return None if isinstance(found, NO_FIELDS) else found


def put(value: Any, updates: Mapping[str, Any]) -> Any:
    """A shallow copy with some fields set; the type, and every field that is not named, stay.

    Args:
        value: A mapping, a pydantic model, a dataclass, or any object that `copy.copy` can copy. What has no fields
            comes back as it is.
        updates: The new values.
    """
    if type(value) is dict:
        return {**value, **updates}
    if value is None or isinstance(value, NO_FIELDS):
        return value
    model_copy = getattr(value, "model_copy", None)
    if model_copy is not None:
        # No validation: what is kept may hold values that the library once let through.
        return model_copy(update=dict(updates))
    new = copy.copy(value)
    for name, item in updates.items():
        if isinstance(new, MutableMapping):
            new[name] = item
        else:
            object.__setattr__(new, name, item)
    return new


def block_text(block: Any) -> str | None:
    """The text of a text block (a plain string is one); None for media and anything else.

    Args:
        block: One item of a result's or a message's content list.
    """
    if isinstance(block, str):
        return block
    kind = word(block, "type", "kind")
    text = read(block, "content") if kind == "text-content" else read(block, "text")
    return text if isinstance(text, str) and kind in TEXT_TYPES else None


def with_text(block: Any, text: str) -> Any:
    """A copy of a text block with another text.

    Args:
        block: A block for which `block_text` is not None.
        text: The new text.
    """
    if isinstance(block, str):
        return text
    return put(block, {"content" if read(block, "kind") == "text-content" else "text": text})


def block_media(block: Any) -> Media | None:
    """Kind and size of a media block; None for anything else.

    Args:
        block: One item of a content list.
    """
    if isinstance(block, str) or block is None:
        return None
    kind = word(block, "type", "kind")
    if kind == "binary":
        return Media(_kind_of(str(read(block, "media_type") or "")), _payload_size(read(block, "data")))
    if kind not in MEDIA_KINDS or word(read(block, "source"), "type") in {"text", "content"}:
        return None
    return Media(MEDIA_KINDS[kind], _payload_size(block))


def media_of_type(mime_type: str | None, data: Any) -> Media:
    """Media that is described by its MIME type, as Google's parts are.

    Args:
        mime_type: Such as `"image/png"`.
        data: The bytes, their base64, or None for a reference.
    """
    return Media(_kind_of(mime_type or ""), _payload_size(data))


def block_strings(block: Any, *, depth: int = 0) -> Iterator[str]:
    """Every text in a block that a model reads, wherever it is nested; nothing for media.

    Args:
        block: One item of a content list, or any value made of mappings, lists and strings.
        depth: How deep it is nested in another.
    """
    text = block if isinstance(block, str) else None
    if text is None and depth > DEEPEST:
        text = json_text(block)
    elif text is None:
        text = None if isinstance(block, Mapping | list | tuple) else block_text(block)
        if text is None:
            for value in _nested(block):
                yield from block_strings(value, depth=depth + 1)
    if text:
        yield text


def content_strings(content: Any) -> tuple[str, ...]:
    """Every text in a content: a string, a list of blocks, or anything that holds strings.

    Args:
        content: The content of a message or a result.
    """
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(block_strings(content))


def content_media(content: Any) -> tuple[Media, ...]:
    """The media in a list of blocks; nothing for any other content.

    Args:
        content: The content of a message or a result.
    """
    if not isinstance(content, list | tuple):
        return ()
    return tuple(media for media in map(block_media, content) if media is not None)


def as_content(content: Any) -> Content:
    """A result's content in the neutral shape: text and lists stay, None is empty, an object is its JSON text.

    Args:
        content: What the message holds.
    """
    if isinstance(content, str | list):
        return content
    if content is None:
        return ""
    return list(content) if isinstance(content, tuple) else json_text(content)


def json_text(value: Any) -> str:
    """Compact, stable JSON in which text stays readable; objects are their public fields, and the rest its `str`.

    Args:
        value: Any value.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, a loop, nesting without end
        return _shown(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate can only travel escaped
        return json.dumps(value, default=_plain)
    return text


def render_arguments(new: Any, form: ArgumentsForm) -> Any:
    """New arguments in the form in which the message stores them.

    Args:
        new: An object, or text.
        form: The form of the call that they replace.

    Raises:
        ValueError: Text was given where an object is needed, and it is no JSON object.
    """
    if form == "text":
        return new if isinstance(new, str) else json_text(new)
    try:
        parsed = json.loads(new) if isinstance(new, str) else new
    except RecursionError:
        raise ValueError("arguments must be a JSON object that is not nested as deeply") from None
    if not isinstance(parsed, Mapping):
        raise ValueError(f"arguments must be a JSON object, not {type(parsed).__name__}")  # noqa: TRY004 - its content
    if form == "object":
        return dict(parsed)
    return new if isinstance(new, str) else json_text(parsed)


def _plain(value: Any) -> Any:
    if isinstance(value, type):  # It has the method, but nothing to dump.
        return str(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if dataclasses.is_dataclass(value):
        # Not its `str`: that names private fields, which differ after a round trip through the library's own JSON.
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: getattr(value, name, None) for name in names}
    return str(value)


def _nested(block: Any) -> Iterable[Any]:
    """What of a block may hold texts: items, fields that a model reads, the fields of a library's object."""
    if isinstance(block, list | tuple):
        return block
    if block is None or block_media(block) is not None:
        return ()
    if isinstance(block, Mapping):
        return [value for key, value in block.items() if key not in UNREAD]
    # A class has the method too, but nothing to dump.
    dump = None if isinstance(block, type) else getattr(block, "model_dump", None)
    return (dump(exclude_none=True),) if callable(dump) else ()


def _shown(value: Any) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}, nested too deeply>"


def _kind_of(mime_type: str) -> MediaKind:
    match mime_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "file"


def _payload_size(value: Any, depth: int = 0) -> int:
    """Bytes of a payload: raw, as base64, as a data URL, or nested in a block; 0 for a reference."""
    if isinstance(value, bytes | bytearray):
        return len(value)
    if isinstance(value, str):
        return 0 if value.startswith(("http:", "https:", "gs:", "file:")) else len(value) * 3 // 4
    if value is None or isinstance(value, int | float) or depth > DEEPEST:
        return 0
    return max((_payload_size(read(value, name), depth + 1) for name in PAYLOADS), default=0)
