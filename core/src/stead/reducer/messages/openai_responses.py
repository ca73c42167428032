"""OpenAI Responses: a flat list of items, in which one assistant turn is many entries."""

from collections.abc import Mapping
from typing import Any

from stead.reducer.messages.blocks import (
    as_content,
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
from stead.reducer.messages.codec import ArgumentsForm, Call, Content, Media, Result, View, check_edits
from stead.reducer.messages.openai_chat import ROLES

__all__ = ["OpenAIResponses"]

# Item type -> the field with its arguments. Their results are items of the same name with `_output`.
CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
OUTPUTS = frozenset(f"{name}_output" for name in CALLS)
# The caller may write these arguments; the other calls' fields have a schema of the service.
EDITABLE = frozenset({"function_call", "custom_tool_call"})
# What the service encrypts for itself: sent back as it is, or not at all.
SEALED = frozenset({"reasoning", "compaction"})


class OpenAIResponses:
    """The codec for Responses input and output items: dicts, and the SDK's own objects among them."""

    name = "openai-responses"
    splits_turns = True

    def view(self, message: Any) -> View:
        """See `Codec.view`."""
        kind = word(message, "type")
        if kind in CALLS:
            return View("assistant", calls=(_call(message, kind),))
        if kind in OUTPUTS:
            content = _output(message, kind)
            return View("tool", results=(Result(0, word(message, "call_id", "id"), word(message, "name"), content),))
        if kind in SEALED:
            texts = content_strings([read(message, "summary") or [], read(message, "content") or []])
            return View("assistant", reasoning=texts, signed=True)
        role = ROLES.get(word(message, "role"))
        if role is not None:
            content = read(message, "content")
            return View(role, texts=content_strings(content), media=content_media(content))
        return _service_item(message, kind)

    def replace(
        self, message: Any, *, results: Mapping[int, Content] | None = None, arguments: Mapping[int, Any] | None = None
    ) -> Any:
        """See `Codec.replace`."""
        if not results and not arguments:
            return message
        view = self.view(message)
        check_edits(view, results or {}, arguments or {})
        kind = word(message, "type")
        if results:
            return put(message, {"output": _as_output(message, kind, results[0])})
        if kind not in EDITABLE or not arguments:
            return message
        return put(message, {CALLS[kind]: render_arguments(arguments[0], view.calls[0].form)})


def _call(item: Any, kind: str) -> Call:
    arguments = read(item, CALLS[kind])
    name = word(item, "name") or kind.removesuffix("_call")
    if kind not in EDITABLE:
        return Call(0, word(item, "call_id", "id"), name, arguments, "object", signed=True)
    form: ArgumentsForm = "object" if isinstance(arguments, Mapping) else "json" if kind == "function_call" else "text"
    return Call(0, word(item, "call_id", "id"), name, arguments, form)


def _output(item: Any, kind: str) -> Content:
    output = read(item, "output")
    return json_text(output) if kind == "shell_call_output" and output is not None else as_content(output)


def _as_output(item: Any, kind: str, content: Content) -> Any:
    if kind != "shell_call_output" or not isinstance(content, str):
        return content
    first: Any = next(iter(items(item, "output")), {})
    return [put(first, {"stdout": content, "stderr": ""})]


def _service_item(item: Any, kind: str) -> View:
    """Something that the service made or ran itself: counted, never edited."""
    if not kind:
        return View("other", texts=tuple(block_strings(item)) if isinstance(item, Mapping | str) else ())
    if kind == "computer_call_output":
        return View("tool", media=(Media("image"),))
    if kind == "image_generation_call":
        return View("assistant", media=(Media("image"),))
    return View("assistant", texts=tuple(block_strings(item)))
