"""Pictures, sounds and files inside results: their bytes apart from the block that holds them."""

import base64
import binascii
import copy
import mimetypes
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

from stead.reducer.messages.blocks import json_text, read

__all__ = ["MediaPart", "is_payload", "media_part"]

_LEAST_PAYLOAD = 64
_PAYLOAD_KEYS = frozenset({"data", "base64", "file_data", "bytes", "url", "image_url"})
_TYPE_KEYS = ("media_type", "mime_type", "mimeType")
_SUFFIXES = {"image/jpeg": ".jpg", "audio/mpeg": ".mp3", "audio/wav": ".wav", "image/webp": ".webp"}


class MediaPart(NamedTuple):
    """A block that is no text, taken apart."""

    mime_type: str
    data: bytes | None
    """What it holds; None for a reference."""
    shell: Any
    """The block as plain data, with an empty string where its data was."""

    @property
    def suffix(self) -> str:
        """Ends the name of a file with this data."""
        return _SUFFIXES.get(self.mime_type) or mimetypes.guess_extension(self.mime_type) or ".bin"


def media_part(block: Any) -> MediaPart:
    """Takes a block that is no text apart. Data that cannot be told from the block is the block's own JSON text.

    Args:
        block: A dict or a library's object.
    """
    try:
        found = _found_in(_plain(block))
    except RecursionError:  # nested too deeply to look for anything
        found = None
    return found or MediaPart("application/json", json_text(block).encode(errors="replace"), None)


def _found_in(plain: Any) -> MediaPart | None:
    for owner, key, value in _strings(plain):
        found = _decoded(key, value)
        if found is not None:
            mime_type, data = found
            shell = copy.deepcopy(plain)
            _blank(shell, value)
            return MediaPart(mime_type or _type_of(owner) or _type_of(plain) or "application/octet-stream", data, shell)
    if _is_reference(plain):
        return MediaPart(_type_of(plain) or "reference", None, plain)
    return None


def is_payload(key: Any, value: Any) -> bool:
    """True for a value that is data in base64, such as a picture's.

    Args:
        key: The name of the field that holds it.
        value: The value.
    """
    return isinstance(value, str) and _decoded(str(key), value) is not None


def _plain(block: Any) -> Any:
    dump = getattr(block, "model_dump", None)
    if callable(dump):
        return dump()
    if isinstance(block, dict):
        return block
    return dict(vars(block)) if hasattr(block, "__dict__") else {"value": str(block)}


def _strings(value: Any, owner: Any = None, key: str = "") -> Iterator[tuple[Any, str, Any]]:
    if isinstance(value, (str, bytes)):
        yield owner, key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _strings(item, value, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, owner, key)


def _decoded(key: str, value: str | bytes) -> tuple[str, bytes] | None:
    """The media type, where the value says it, and the bytes; None if the value holds no data."""
    if key not in _PAYLOAD_KEYS or len(value) < _LEAST_PAYLOAD:
        return None
    if isinstance(value, bytes):
        return "", value
    mime_type = ""
    if value.startswith("data:"):
        head, _, value = value.partition(",")
        if not head.endswith(";base64"):
            return None
        mime_type = head.removeprefix("data:").partition(";")[0]
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    # What does not encode to the same text again would be another value.
    return (mime_type, data) if base64.b64encode(data).decode() == value else None


def _blank(value: Any, payload: str | bytes) -> None:
    if isinstance(value, MutableMapping):
        for name, item in value.items():
            if item is payload or (isinstance(item, (str, bytes)) and item == payload):
                value[name] = ""
            else:
                _blank(item, payload)
    elif isinstance(value, list):
        for item in value:
            _blank(item, payload)


def _is_reference(plain: Any) -> bool:
    return any(
        isinstance(value, str) and value.startswith(("http:", "https:", "gs:", "file:", "s3:"))
        for _, _, value in _strings(plain)
    )


def _type_of(owner: Any) -> str:
    found = read(owner, *_TYPE_KEYS) if isinstance(owner, dict) else None
    return found if isinstance(found, str) else ""
