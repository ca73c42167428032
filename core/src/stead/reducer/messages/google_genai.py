"""Google GenAI contents, which ADK uses too: calls and responses are parts, and a response is an object."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import (
    block_media,
    block_strings,
    block_text,
    items,
    json_text,
    media_of_type,
    put,
    read,
    record,
    render_arguments,
    word,
)
from stead.reducer.messages.codec import Content, Role, View, check_edits
from stead.reducer.messages.parts import Parts

__all__ = ["GoogleGenAI"]

ROLES: Mapping[str, Role] = {
    "user": "user",
    "model": "assistant",
    "system": "system",
    "function": "tool",
    "tool": "tool",
}
CALL = ("function_call", "functionCall")
RESPONSE = ("function_response", "functionResponse")
MEDIA = (("inline_data", "inlineData"), ("file_data", "fileData"))
SIGNATURE = ("thought_signature", "thoughtSignature")
# A response is an object; these keys hold the whole of one that is just text (Google's own, and ADK's).
TEXT_KEYS = ("output", "result", "error")


class GoogleGenAI:
    """The codec for `Content` objects and for their dicts, in snake_case or camelCase."""

    name = "google-genai"
    splits_turns = False

    def view(self, message: Any) -> View:
        """See `Codec.view`."""
        if isinstance(message, str):
            return View("user", texts=(message,) if message else ())
        parts = Parts()
        for part in items(message, "parts"):
            _add(parts, part)
        # Google takes a content without a role for the user's.
        role = ROLES.get(word(message, "role") or "user", "other") if read(message, "parts", "role") else "other"
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
        parts: list[Any] = []
        calls = responses = 0
        for part in items(message, "parts"):
            new = part
            if record(part, *CALL) is not None:
                if calls in arguments and not view.calls[calls].signed:
                    new = _inside(part, CALL, {"args": render_arguments(arguments[calls], "object")})
                calls += 1
            elif (response := record(part, *RESPONSE)) is not None:
                if responses in results:
                    new = _inside(part, RESPONSE, _as_response(response, results[responses]))
                responses += 1
            parts.append(new)
        return put(message, {"parts": parts})


def _add(parts: Parts, part: Any) -> None:
    signed = read(part, *SIGNATURE) is not None
    parts.signed = parts.signed or signed
    if isinstance(part, str):
        parts.texts.append(part)
    elif (call := record(part, *CALL)) is not None:
        parts.call(word(call, "id"), word(call, "name"), read(call, "args"), signed=signed)
    elif (response := record(part, *RESPONSE)) is not None:
        _add_result(parts, response)
    elif (block := _media_block(part)) is not None:
        parts.media += filter(None, [block_media(block)])
    elif text := word(part, "text"):
        (parts.reasoning if read(part, "thought") else parts.texts).append(text)
    else:
        parts.texts += block_strings(part)


def _add_result(parts: Parts, response: Any) -> None:
    text, failed = _as_text(read(response, "response"))
    content: Content = text
    media = []
    for item in items(response, "parts"):
        block = _media_block(item)
        if block is None:
            _add(parts, item)
        else:
            media.append(block)
    if media:
        content = [{"type": "text", "text": text}, *media] if text else media
    parts.result(word(response, "id"), word(response, "name"), content, is_error=failed)


def _media_block(part: Any) -> dict[str, Any] | None:
    """A part's media as a block, which says its kind; None for any other part."""
    for names in MEDIA:
        blob = record(part, *names)
        if blob is not None:
            mime_type = word(blob, "mime_type", "mimeType")
            held = {"mime_type": mime_type, "data": read(blob, "data"), "url": read(blob, "file_uri", "fileUri")}
            found = {key: value for key, value in held.items() if value is not None}
            return {"type": media_of_type(mime_type, None).kind, names[0]: found}
    return None


def _as_text(response: Any) -> tuple[str, bool]:
    """The response as text, and whether it reports an error."""
    if not response:
        return "", False
    if not isinstance(response, Mapping):
        return json_text(response), False
    # Many tools answer with `"error": None` when all went well.
    failed = bool(response.get("error"))
    if len(response) == 1:
        key, value = next(iter(response.items()))
        if key in TEXT_KEYS and isinstance(value, str):
            return value, failed
    return json_text(response), failed


def _as_response(response: Any, content: Content) -> dict[str, Any]:
    """The fields that stand for a new content: under the key of the old one, so that an error stays an error."""
    media = [block for block in map(_media_block, items(response, "parts")) if block is not None]
    if not media:
        return {"response": {_key_of(read(response, "response")): content}}
    shown = [content] if isinstance(content, str) else [text for text in map(block_text, content) if text is not None]
    # Text stands for all of it; of blocks, those that were taken out are missing.
    gone = [block for block in media if isinstance(content, str) or block not in content]
    parts = [part for part in items(response, "parts") if _media_block(part) not in gone]
    updates: dict[str, Any] = {"parts": parts} if gone else {}
    if shown:
        updates["response"] = {_key_of(read(response, "response")): "\n".join(shown)}
    return updates


def _key_of(response: Any) -> str:
    if not isinstance(response, Mapping):
        return "output"
    full = (key for key in ("error", "result", "output") if response.get(key))
    return next(full, "result" if "result" in response else "output")


def _inside(part: Any, names: tuple[str, ...], updates: Mapping[str, Any]) -> Any:
    name = next(name for name in names if record(part, name) is not None)
    return put(part, {name: put(read(part, name), updates)})
