"""How many tokens a message, a result or a tool schema has, media included."""

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

from stead.reducer.estimate import UNIT, TextCounter, estimate_tokens, exact_counter, text_weigher, tokens_in
from stead.reducer.messages.blocks import block_media, block_strings, json_text
from stead.reducer.messages.codec import Content, Media, View
from stead.reducer.schemas import listed_tools, schema_text

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

TokenCounter = Callable[[Any], float | Awaitable[float]]
"""Tokens of one message, or of one tool schema; a fraction counts to a hundredth."""

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


class _KnownTool(NamedTuple):
    """A tool of the last request."""

    tool: Any
    content: Any
    """What was counted: of a dict a copy, since it may be changed in place."""
    units: int

    def is_of(self, tool: Any) -> bool:
        """True if that tool counts the same: comparing dicts takes a fiftieth of counting them."""
        if not isinstance(tool, dict):
            return tool is self.tool
        try:
            return bool(tool == self.content)
        except Exception:  # noqa: BLE001 - values inside may refuse to be compared, as arrays do
            return False


def _content_of(tool: Any) -> Any:
    try:
        return copy.deepcopy(tool) if isinstance(tool, dict) else tool
    except Exception:  # noqa: BLE001 - what cannot be copied is counted each time
        return None


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
        self._tools: list[_KnownTool] = []
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
        units = None if self._counter is None else await _ask(self._counter, message, self.warnings)
        return _view_units(view, self._weigh) if units is None else units

    async def count_tools(self, tools: Iterable[Any]) -> int:
        """Units of tool schemas. What the last request had too is not counted again.

        Args:
            tools: Dicts, functions, pydantic classes, or objects with a name, a description and parameters; of a
                mapping, its values. What is none of these counts nothing, and `warnings` says so.
        """
        last, counted = self._tools, list[_KnownTool]()
        by_id = {id(known.tool): known for known in last}
        for index, tool in enumerate(listed_tools(tools)):
            before = (*last[index : index + 1], by_id.get(id(tool)))
            known = next((known for known in before if known is not None and known.is_of(tool)), None)
            counted.append(known or _KnownTool(tool, _content_of(tool), await self._count_tool(tool)))
        self._tools = counted
        return sum([known.units for known in counted])

    async def _count_tool(self, tool: Any) -> int:
        units = None if self._counter is None else await _ask(self._counter, tool, self.warnings)
        if units is not None:
            return units
        try:
            text = schema_text(tool)
        except Exception as error:  # noqa: BLE001 - the caller's object; a missing number must not end the run
            self.warnings[f"a tool's schema raised {type(error).__name__}: {error}; it counts nothing"] = None
            return 0
        if not text:
            self.warnings[f"a value of type {type(tool).__name__} among the tools is none; it counts nothing"] = None
        return self._weigh(text)

    def take_warnings(self) -> tuple[str, ...]:
        """The warnings so far, which are then forgotten."""
        taken = tuple(self.warnings)
        self.warnings.clear()
        return taken


async def _ask(counter: TokenCounter, message: Any, warnings: dict[str, None]) -> int | None:
    """The caller's count in units; None, and a warning, if there is none."""
    try:
        answer: Any = counter(message)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - the caller's code; a missing number must not end the run
        warnings[f"token_counter raised {type(error).__name__}: {error}; the estimate stands in"] = None
        return None
    number = -1.0 if isinstance(answer, bool) or not isinstance(answer, Real) else float(answer)
    if not 0 <= number < float("inf"):
        warnings[f"token_counter answered {answer!r}; the estimate stands in"] = None
        return None
    return round(number * UNIT)


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
