"""How many tokens a message, a result or a tool schema has, media included."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from stead.reducer.estimate import UNIT, TextCounter, estimate_tokens, exact_counter, text_weigher, tokens_in
from stead.reducer.messages.blocks import block_media, block_strings, json_text, read
from stead.reducer.messages.codec import Content, Media, View

__all__ = [
    "TextCounter",
    "TokenCounter",
    "TokenMeter",
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
    return tokens_in(_content_units(content, text_weigher(counter)))


def view_tokens(view: View, counter: TextCounter | None = None) -> int:
    """Tokens of one entry of a history: texts, reasoning, calls with arguments, results and media.

    Args:
        view: From a codec.
        counter: Counts text; None is the estimate.
    """
    return tokens_in(_view_units(view, text_weigher(counter)))


class TokenMeter:
    """Counts messages and tool schemas: by the caller's counter, by a vocabulary, or by estimate.

    It counts in units of a hundredth of a token, so that sums are exact and many short texts are summed in one go.

    Args:
        counter: Counts one message, sync or async, and each tool schema. Where it raises, or does not answer with a
            number, the estimate stands in, and `warnings` says so.
        text_counter: Counts text where there is no `counter`; None is the estimate.

    Attributes:
        warnings: Why the estimate stands in for the counter: each reason once, until `take_warnings`.
    """

    def __init__(self, *, counter: TokenCounter | None = None, text_counter: TextCounter | None = None) -> None:
        self._counter = counter
        self._weigh = text_weigher(text_counter)
        self._tools: dict[int, tuple[Any, int]] = {}
        self._factor = 1.0
        self.warnings: dict[str, None] = {}

    @property
    def is_custom(self) -> bool:
        """True if the caller gave a counter, which has to be awaited."""
        return self._counter is not None

    @property
    def factor(self) -> float:
        """What counts are multiplied with: 1 until usage was reported, from 0.5 to 2."""
        return self._factor

    def tokens(self, units: int) -> int:
        """A count as the provider would report it, in tokens.

        Args:
            units: A count, or a difference of two.
        """
        return round(units * self._factor / UNIT)

    def calibrate(self, reported: int, counted: int) -> None:
        """Learns one bounded factor from the usage that a provider reported.

        Args:
            reported: Input tokens of a request, those from the provider's cache included; 0 teaches nothing.
            counted: Units that were counted for the same request; 0 teaches nothing.
        """
        if counted > 0 and reported > 0:
            self._factor = min(MOST_FACTOR, max(LEAST_FACTOR, reported * UNIT / counted))

    def estimate(self, view: View) -> int:
        """Units of a message without asking the caller's counter.

        Args:
            view: The message's view.
        """
        return _view_units(view, self._weigh)

    async def count(self, message: Any, view: View) -> int:
        """Units of a message.

        Args:
            message: The message, for the caller's counter.
            view: Its view.
        """
        tokens = None if self._counter is None else await _ask(self._counter, message, self.warnings)
        return _view_units(view, self._weigh) if tokens is None else tokens * UNIT

    async def count_tools(self, tools: Iterable[Any]) -> int:
        """Units of tool schemas; each object is counted once.

        Args:
            tools: Dicts, or objects with a name, a description and parameters.
        """
        total = 0
        for tool in tools:
            known = self._tools.get(id(tool))
            if known is None or known[0] is not tool:
                known = self._tools[id(tool)] = (tool, await self._count_tool(tool))
            total += known[1]
        return total

    async def _count_tool(self, tool: Any) -> int:
        tokens = None if self._counter is None else await _ask(self._counter, tool, self.warnings)
        return self._weigh(_schema_text(tool)) if tokens is None else tokens * UNIT

    def take_warnings(self) -> tuple[str, ...]:
        """The warnings so far, which are then forgotten."""
        taken = tuple(self.warnings)
        self.warnings.clear()
        return taken


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


def _view_units(view: View, weigh: Callable[[str], int]) -> int:
    _, calls, results, texts, reasoning, media, _ = view
    units = MESSAGE_TOKENS * UNIT
    for text in texts:
        units += weigh(text)
    for _, _, name, arguments, _, _ in calls:
        units += CALL_TOKENS * UNIT + weigh(name) + weigh(arguments if type(arguments) is str else _text_of(arguments))
    for _, _, _, content, _ in results:
        units += weigh(content) if type(content) is str else _content_units(content, weigh)
    if reasoning:
        units += sum(map(weigh, reasoning))
    if media:
        units += UNIT * sum(map(media_tokens, media))
    return units


def _text_of(arguments: Any) -> str:
    return "" if arguments is None else json_text(arguments)


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
