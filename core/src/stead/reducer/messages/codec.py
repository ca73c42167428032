"""What the reducer asks of a message format, and the few neutral values in which a codec answers.

A codec looks at one entry of a message list at a time (`view`) and makes edited copies (`replace`). It keeps no state
and marks nothing: what was reduced before is known from the records of the offloads.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

__all__ = [
    "ArgumentsForm",
    "Call",
    "Codec",
    "Content",
    "Media",
    "MediaKind",
    "Result",
    "Role",
    "View",
    "argument_object",
    "check_edits",
]

Role = Literal["system", "user", "assistant", "tool", "other"]
ArgumentsForm = Literal["json", "object", "text"]
MediaKind = Literal["image", "audio", "video", "file"]
Content = str | list[Any]
"""A tool result: text, or blocks in the format's own shape. `blocks.block_text` tells text blocks from opaque ones."""


class Media(NamedTuple):
    """One picture, sound, film or document, for counting; never its bytes."""

    kind: MediaKind
    size: int = 0
    """Bytes of what the message holds; 0 if it holds only a reference."""


class Call(NamedTuple):
    """One tool call inside a message."""

    ordinal: int
    """Position among the message's calls, from 0: the key for `Codec.replace`."""
    id: str | None
    """The provider's id. Not unique over a history; empty or None where there is none."""
    name: str
    """The tool's name; empty if the message does not say."""
    arguments: Any
    """As the message holds them: JSON text, an object, or whatever the model sent; None if there are none."""
    form: ArgumentsForm = "json"
    """`"json"`: text that should be a JSON object. `"object"`: a mapping. `"text"`: free text of a custom tool."""
    signed: bool = False
    """True if the provider signed this very call: its arguments must not be edited."""


class Result(NamedTuple):
    """One tool result inside a message."""

    ordinal: int
    """Position among the message's results, from 0: the key for `Codec.replace`."""
    id: str | None
    """Id of the call that it answers."""
    name: str | None
    """The tool's name, where the result itself says it."""
    content: Content
    """Text, or blocks. A result that is an object in the message (Google, Pydantic AI) is its JSON text here."""
    is_error: bool = False


class View(NamedTuple):
    """What one entry of a message list holds, as far as reducing and counting need to know."""

    role: Role
    """`"tool"` for an entry that only carries results, whatever the format calls it; `"other"` if unknown."""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    texts: tuple[str, ...] = ()
    """Every other text that the model reads: no results, no arguments, no reasoning."""
    reasoning: tuple[str, ...] = ()
    """Thinking text, as far as it is readable."""
    media: tuple[Media, ...] = ()
    """Media beside the results; those inside a result are found from its content."""
    signed: bool = False
    """True if the entry holds thinking or anything else that the provider signed or encrypted."""


@runtime_checkable
class Codec(Protocol):
    """One message format. A class of your own with these members can be given wherever a format's name can.

    Both methods are pure, work on dicts and on the library's own objects, and never raise for an entry they do not
    know, `None` included: its view is `View("other")`.
    """

    @property
    def name(self) -> str:
        """The format's name, such as `"openai-chat"`."""

    @property
    def splits_turns(self) -> bool:
        """True if one assistant turn can be several entries (OpenAI Responses: one item a call)."""

    def view(self, message: Any) -> View:
        """What the entry holds."""

    def replace(
        self, message: Any, *, results: Mapping[int, Content] | None = None, arguments: Mapping[int, Any] | None = None
    ) -> Any:
        """A copy of the entry with some contents replaced; the entry itself is never changed.

        All that is not replaced is shared with the original or equal to it, unknown fields included. The copy has the
        original's type. With nothing to replace the entry itself is returned.

        Args:
            message: An entry of the list.
            results: New content by the result's ordinal. Text replaces the whole result, in the shape that the format
                needs; blocks replace blocks.
            arguments: New arguments by the call's ordinal: an object, or its JSON text. Stored as the message stores
                them. Arguments of a signed call stay as they are.

        Raises:
            ValueError: An ordinal names no result or call of this entry, or text given for an object is no JSON object.
        """


def argument_object(call: Call) -> dict[str, Any] | None:
    """The call's arguments as a new dict (values are shared); None if they are not an object.

    Args:
        call: A call from a view.
    """
    arguments = call.arguments
    if isinstance(arguments, str) and call.form == "json":
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return dict(arguments) if isinstance(arguments, Mapping) else None


def check_edits(view: View, results: Mapping[int, Any], arguments: Mapping[int, Any]) -> None:
    """Raises ValueError if an edit names a result or call that the entry does not have.

    Args:
        view: The entry's view.
        results: As `Codec.replace`.
        arguments: As `Codec.replace`.

    Raises:
        ValueError: An ordinal is unknown.
    """
    for kind, given, count in (("result", results, len(view.results)), ("call", arguments, len(view.calls))):
        unknown = [ordinal for ordinal in given if not 0 <= ordinal < count]
        if unknown:
            raise ValueError(f"the message has no {kind} number {unknown[0]}; it has {count}")
