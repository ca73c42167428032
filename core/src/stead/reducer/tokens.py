"""How many tokens a request has: its messages, its media and its tool schemas, each message counted once."""

import inspect
import operator
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stead.reducer.estimate import UNIT, TextCounter, estimate_tokens, exact_counter, text_weigher
from stead.reducer.messages.blocks import block_media, block_strings, json_text, read
from stead.reducer.messages.codec import Codec, Content, Media, View

__all__ = [
    "TextCounter",
    "TokenCount",
    "TokenCounter",
    "TokenLedger",
    "content_tokens",
    "estimate_tokens",
    "exact_counter",
    "media_tokens",
    "view_tokens",
]

TokenCounter = Callable[[Any], int | Awaitable[int]]
"""Tokens of one message, or of one tool schema."""

# Tokens that a provider adds around a message and around a tool call (role, separators, name and id fields).
MESSAGE_TOKENS = 4
CALL_TOKENS = 8
# Kind -> the least, and bytes a token beyond that: no provider tells more without looking into the file. A picture costs
# 258 (Gemini, a tile) to 1,600 (Anthropic), whatever its bytes; sound and film go by time, documents by pages.
MEDIA: Mapping[str, tuple[int, int | None]] = {
    "image": (1_200, None),
    "audio": (200, 500),
    "video": (2_000, 1_000),
    "file": (1_500, 40),
}
# Reported usage beyond these bounds is taken for another request's.
LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0
# A caller that streams into its newest entry changes it in place: it is counted anew each time.
OPEN_ENTRIES = 1


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one request, before calibration (`TokenLedger.calibrated`)."""

    by_message: list[int]
    """Tokens of each entry, in the list's order."""
    tools: int
    """Tokens of all tool schemas."""
    messages: int
    """The sum of `by_message`."""
    warnings: tuple[str, ...] = ()
    """Why the estimate stands in for the caller's counter, if it does."""

    @property
    def total(self) -> int:
        """Tokens of the whole request."""
        return self.messages + self.tools


def media_tokens(media: Media) -> int:
    """Tokens of one picture, sound, film or document, by its kind and size.

    Args:
        media: From a view.
    """
    least, bytes_per_token = MEDIA[media.kind]
    return least if bytes_per_token is None else max(least, media.size // bytes_per_token)


def content_tokens(content: Content, counter: TextCounter | None = None) -> int:
    """Tokens of a result's content: its texts and its media.

    Args:
        content: Text or blocks.
        counter: Counts text; None is the estimate.
    """
    return -(-_content_units(content, text_weigher(counter)) // UNIT)


def view_tokens(view: View, counter: TextCounter | None = None) -> int:
    """Tokens of one entry of a history: texts, reasoning, calls with arguments, results and media.

    Args:
        view: From a codec.
        counter: Counts text; None is the estimate.
    """
    return _view_tokens(view, text_weigher(counter))


class TokenLedger:
    """Counts the requests of one conversation. An entry that was counted before is not counted again.

    An entry is known again as the same object, so that a turn costs what is new in it; the newest entry is always
    counted anew. What the provider reports corrects the estimate by one bounded factor.

    Args:
        codec: Reads the messages.
        counter: Counts one message, sync or async, and each tool schema. Where it raises, or does not answer with a
            number, the estimate stands in, and the count says so.
        text_counter: Counts text where there is no `counter`; None is the estimate.
    """

    def __init__(
        self, codec: Codec, *, counter: TokenCounter | None = None, text_counter: TextCounter | None = None
    ) -> None:
        self._codec = codec
        self._counter = counter
        self._weigh = text_weigher(text_counter)
        self._known = _Known()
        self._tools: dict[int, tuple[Any, int]] = {}
        self._factor = 1.0
        self._last_total = 0

    @property
    def factor(self) -> float:
        """What counts are multiplied with: 1 until usage was reported, from 0.5 to 2."""
        return self._factor

    def calibrated(self, tokens: int) -> int:
        """A count as the provider would report it.

        Args:
            tokens: From a `TokenCount`, or a difference of two.
        """
        return round(tokens * self._factor)

    def calibrate(self, reported: int, counted: int | None = None) -> None:
        """Learns from the usage that a provider reported for a request.

        Args:
            reported: Input tokens of the request, those from the provider's cache included.
            counted: What this ledger counted for it; None is the last request that it counted. Nothing is learnt
                from a request that was counted as 0.
        """
        counted = self._last_total if counted is None else counted
        if counted > 0 and reported > 0:
            self._factor = min(MOST_FACTOR, max(LEAST_FACTOR, reported / counted))

    async def count(
        self, messages: Sequence[Any], tools: Iterable[Any] = (), *, views: Sequence[View] | None = None
    ) -> TokenCount:
        """Counts a request.

        Args:
            messages: The history.
            tools: Tool schemas: dicts, or objects with a name, a description and parameters.
            views: The messages' views, where the caller has them.
        """
        warnings: dict[str, None] = {}
        same = self._known.size_shared_with(messages)
        new: list[int] = []
        for index in range(same, len(messages)):
            message = messages[index]
            tokens = self._known.lookup(message)
            if tokens is None:
                view = self._codec.view(message) if views is None else views[index]
                tokens = await self._count_one(message, view, warnings)
            new.append(tokens)
        by_message, total = self._known.remember(messages, same, new)
        in_tools = sum([await self._count_tool(tool, warnings) for tool in tools])
        count = TokenCount(by_message, in_tools, total, tuple(warnings))
        self._last_total = count.total
        return count

    async def _count_one(self, message: Any, view: View, warnings: dict[str, None]) -> int:
        tokens = None if self._counter is None else await _ask(self._counter, message, warnings)
        return _view_tokens(view, self._weigh) if tokens is None else tokens

    async def _count_tool(self, tool: Any, warnings: dict[str, None]) -> int:
        known = self._tools.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        tokens = None if self._counter is None else await _ask(self._counter, tool, warnings)
        if tokens is None:
            tokens = -(-self._weigh(_schema_text(tool)) // UNIT)
        self._tools[id(tool)] = (tool, tokens)
        return tokens


async def _ask(counter: TokenCounter, message: Any, warnings: dict[str, None]) -> int | None:
    """The caller's count; None, and a warning, if there is none."""
    try:
        answer: Any = counter(message)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - the caller's code; a missing number must not end the run
        warnings[f"token_counter raised {type(error).__name__}: {error}; the estimate stands in"] = None
        return None
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer < float("inf"):
        warnings[f"token_counter answered {answer!r}; the estimate stands in"] = None
        return None
    return int(answer)


@dataclass(slots=True)
class _Known:
    """What was counted before: the last list as a whole, and its entries by identity."""

    messages: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    total: int = 0
    # The entries themselves are kept, so that no id can be used again while it is known.
    by_id: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def size_shared_with(self, messages: Sequence[Any]) -> int:
        """How many entries are the last list's, if all of that but its open end is the start of this one; else 0."""
        size = max(0, len(self.messages) - OPEN_ENTRIES)
        closed = size <= len(messages) - OPEN_ENTRIES and all(map(operator.is_, self.messages[:size], messages))
        return size if closed else 0

    def lookup(self, message: Any) -> int | None:
        """The count of one entry."""
        known = self.by_id.get(id(message))
        return known[1] if known is not None and known[0] is message else None

    def remember(self, messages: Sequence[Any], same: int, new: list[int]) -> tuple[list[int], int]:
        """Takes a list of which the first `same` entries are known; gives all counts and their sum."""
        if same == 0:
            self.by_id.clear()
        for message, tokens in zip(messages[same : len(messages) - OPEN_ENTRIES], new, strict=False):
            self.by_id[id(message)] = (message, tokens)
        self.total += sum(new) - sum(self.counts[same:]) if same else sum(new) - self.total
        self.messages, self.counts = list(messages), self.counts[:same] + new
        return self.counts.copy(), self.total


def _view_tokens(view: View, weigh: Callable[[str], int]) -> int:
    units = MESSAGE_TOKENS * UNIT
    for text in view.texts:
        units += weigh(text)
    for text in view.reasoning:
        units += weigh(text)
    for call in view.calls:
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json_text(arguments)
        units += CALL_TOKENS * UNIT + weigh(call.name) + weigh(arguments)
    for result in view.results:
        content = result.content
        units += weigh(content) if isinstance(content, str) else _content_units(content, weigh)
    for media in view.media:
        units += media_tokens(media) * UNIT
    return -(-units // UNIT)


def _content_units(content: Content, weigh: Callable[[str], int]) -> int:
    if isinstance(content, str):
        return weigh(content)
    units = 0
    for block in content:
        media = block_media(block)
        units += sum(map(weigh, block_strings(block))) if media is None else media_tokens(media) * UNIT
    return units


def _schema_text(tool: Any) -> str:
    """A tool's schema as a provider gets it."""
    if isinstance(tool, Mapping):
        return json_text(tool)
    if callable(getattr(tool, "model_dump", None)) and read(tool, "parameters", "args_schema") is None:
        return json_text(tool.model_dump(mode="json", exclude_none=True))
    schema = read(tool, "parameters", "parameters_json_schema", "input_schema", "args_schema")
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    fields = {"name": read(tool, "name"), "description": read(tool, "description"), "parameters": schema}
    return json_text({key: value for key, value in fields.items() if value is not None})
