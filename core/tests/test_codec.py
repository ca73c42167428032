"""The codecs on plain dicts: what they see, what they replace, and all that they leave alone."""

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stead.errors import ConfigError
from stead.reducer.messages.blocks import block_media, block_text, content_strings, render_arguments, with_text
from stead.reducer.messages.codec import Call, Codec, Media, Result, argument_object
from stead.reducer.messages.detect import FORMATS, codec_named, find_codec
from stead.reducer.messages.pairing import pair_rounds
from stead.reducer.tokens import view_tokens

BIG = {"path": "a.txt", "content": "y" * 2000}

HISTORIES: dict[str, list[Any]] = json.loads((Path(__file__).parent / "histories.json").read_text())
"""One history in each format: two parallel calls, `a` and `b`, answered in the order `b`, `a`."""
CHAT = HISTORIES["openai-chat"]
every_format = pytest.mark.parametrize("name", list(FORMATS))


def results_of(codec: Codec, history: list[Any]) -> dict[str | None, Result]:
    """The results by their call's id."""
    return {result.id: result for message in history for result in codec.view(message).results}


def calls_of(codec: Codec, history: list[Any]) -> dict[str | None, Call]:
    """The calls by id."""
    return {call.id: call for message in history for call in codec.view(message).calls}


def reduce_all(codec: Codec, history: list[Any]) -> list[Any]:
    """Every result becomes `gone`, every call's arguments `{"cleared": "é"}`."""
    return [
        codec.replace(
            message,
            results={result.ordinal: "gone" for result in codec.view(message).results},
            arguments={call.ordinal: {"cleared": "é"} for call in codec.view(message).calls},
        )
        for message in history
    ]


@every_format
def test_every_format_is_found_from_its_messages(name: str) -> None:
    """The keys of a history with calls tell its format."""
    assert find_codec(HISTORIES[name]).name == name
    assert isinstance(codec_named(name), Codec)


@every_format
def test_calls_and_results_are_seen_with_their_ids(name: str) -> None:
    """Two parallel calls and their results, in swapped order, are read alike in every format."""
    codec = codec_named(name)
    calls, results = calls_of(codec, HISTORIES[name]), results_of(codec, HISTORIES[name])
    assert next((call.name, call.ordinal % 2) for call in calls.values()) == ("Search", 0)
    assert argument_object(calls["a"]) == {"q": "x"}
    assert argument_object(calls["b"]) == BIG
    assert list(results) == ["b", "a"]


@every_format
def test_replacing_everything_keeps_the_original_and_the_pairs(name: str) -> None:
    """All results and arguments are replaced in copies; ids, names, roles and the originals stay."""
    codec = codec_named(name)
    history = HISTORIES[name]
    before = copy.deepcopy(history)
    reduced = reduce_all(codec, history)
    assert history == before
    assert {key: result.content for key, result in results_of(codec, reduced).items()} == {"b": "gone", "a": "gone"}
    assert {key: argument_object(call) for key, call in calls_of(codec, reduced).items() if not call.signed} == {
        key: {"cleared": "é"} for key, call in calls_of(codec, history).items() if not call.signed
    }
    for old, new in zip(history, reduced, strict=True):
        seen, now = codec.view(old), codec.view(new)
        assert [call[:3] + call[4:] for call in seen.calls if call.signed] == [
            call[:3] + call[4:] for call in now.calls if call.signed
        ]
        assert (now.role, now.texts, now.reasoning, now.media, now.signed) == (
            seen.role,
            seen.texts,
            seen.reasoning,
            seen.media,
            seen.signed,
        )
        assert [(result.id, result.name, result.is_error) for result in now.results] == [
            (result.id, result.name, result.is_error) for result in seen.results
        ]


@every_format
def test_nothing_to_replace_gives_the_same_object(name: str) -> None:
    """Without edits the entry itself comes back, and what has no result refuses one."""
    codec = codec_named(name)
    for message in HISTORIES[name]:
        assert codec.replace(message) is message
    with pytest.raises(ValueError, match="no result number 9"):
        codec.replace(HISTORIES[name][-1], results={9: "x"})
    with pytest.raises(ValueError, match="no call number 0; it has 0"):
        codec.replace(HISTORIES[name][-1], arguments={0: {}})


@every_format
@pytest.mark.parametrize(
    "odd", [None, {}, 7, "text", object(), {"role": "martian"}, {"role": "user"}, {"role": "user", "content": 3}]
)
def test_odd_entries_are_tolerated(name: str, odd: Any) -> None:
    """None, unknown roles and broken entries have a view without calls and results."""
    view = codec_named(name).view(odd)
    assert (view.calls, view.results) == ((), ())


def nested(levels: int) -> Any:
    """Lists in lists, as deep as asked."""
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@every_format
@pytest.mark.parametrize("deep", [nested(500), nested(100_000), {(1, 2): "key"}])
def test_what_cannot_be_json_is_seen_and_counted(name: str, deep: Any) -> None:
    """Arguments, results and texts that are nested without end, or have keys that are no text, raise nowhere."""
    codec = codec_named(name)
    odd = {"type": "new", "value": deep, "source": deep, "more": [deep]}
    for message in replaced(HISTORIES[name], BIG, odd):
        view = codec.view(message)
        assert view_tokens(view) >= 4
        results = {result.ordinal: [odd] for result in view.results}
        changed = codec.replace(message, results=results, arguments={call.ordinal: odd for call in view.calls})
        assert view_tokens(codec.view(changed)) >= 4
    assert content_strings([odd])


def replaced(value: Any, old: Any, new: Any) -> Any:
    """The value with a part of it, or the JSON text of that part, replaced."""
    if value in (old, json.dumps(old)):
        return new
    if isinstance(value, dict):
        return {key: replaced(item, old, new) for key, item in value.items()}
    return [replaced(item, old, new) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("text", ['{"a":' + "[" * 100_000, '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"])
def test_argument_text_nested_without_end_is_no_object(text: str) -> None:
    """A model may open brackets for ever; as new arguments they are a ValueError."""
    assert argument_object(Call(0, "a", "f", text)) is None
    with pytest.raises(ValueError, match=r"JSON object|Expecting"):
        render_arguments(text, "json")


@every_format
@pytest.mark.parametrize("arguments", [None, [], [1], "", "broken {"])
def test_arguments_that_are_no_object_do_not_crash(name: str, arguments: Any) -> None:
    """A model may send anything as arguments; it is seen, and is no object."""
    codec = codec_named(name)
    text = json.dumps(HISTORIES[name]).replace(json.dumps(json.dumps(BIG)), json.dumps(arguments))
    history = json.loads(text.replace(json.dumps(BIG), json.dumps(arguments)))
    assert argument_object(calls_of(codec, history)["b"]) is None


def mutants(value: Any) -> Iterator[Any]:
    """The value with each of its parts, one at a time, replaced by something that does not belong there."""
    yield from (None, [], {}, 3, "odd", [1], {"odd": [{}]})
    if isinstance(value, dict):
        for key, item in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: mutant} for mutant in mutants(item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], mutant, *value[index + 1 :]] for mutant in mutants(item))


@every_format
@pytest.mark.parametrize("source", list(FORMATS))
def test_no_entry_breaks_a_codec(name: str, source: str) -> None:
    """However an entry is broken, it can be seen, paired, counted and edited, and is not changed by that."""
    codec = codec_named(name)
    for entry in (mutant for message in HISTORIES[source] for mutant in mutants(message)):
        before = json.dumps(entry)
        view = codec.view(entry)
        pair_rounds([view, view])
        view_tokens(view)
        edits = {"results": {r.ordinal: "gone" for r in view.results}, "arguments": {c.ordinal: {} for c in view.calls}}
        now = codec.view(codec.replace(entry, **edits))
        assert [result.content for result in now.results] == ["gone"] * len(view.results)
        assert (now.role, len(now.calls)) == (view.role, len(view.calls))
        assert json.dumps(entry) == before
        with contextlib.suppress(ConfigError):
            find_codec([entry])


def test_plain_texts_need_no_format() -> None:
    """Texts alone fit several formats and are read by one; nothing is there to reduce."""
    history = [
        {"role": "user", "content": "hi"},
        None,
        {"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
    ]
    codec = find_codec(history)
    assert [codec.view(message).texts for message in history] == [("hi",), (), ("ho",)]
    assert find_codec([]).name == "openai-chat"


@pytest.mark.parametrize("other", [name for name in FORMATS if name != "openai-chat"])
def test_a_mix_of_formats_is_refused(other: str) -> None:
    """Two formats in one list are an error that names both; a named format wins."""
    with pytest.raises(ConfigError, match=f"mix formats .*(openai-chat.*{other}|{other}.*openai-chat)"):
        find_codec(CHAT + HISTORIES[other])
    assert find_codec(CHAT + HISTORIES[other], other).name == other


def test_an_unknown_shape_is_refused_by_name() -> None:
    """What no codec can read is an error that names the choices, unless a codec is given."""
    bedrock = [{"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "x"}]}}]}]
    for history in ([object()], [{"what": 1}], bedrock):
        with pytest.raises(ConfigError, match=r"cannot be told.*openai-chat.*pydantic-ai"):
            find_codec(history)
    mine = codec_named("anthropic")
    assert find_codec([object()], mine) is mine


@pytest.mark.parametrize(
    ("given", "name"), [("openai", "openai-chat"), ("pydantic_ai", "pydantic-ai"), ("Google", "google-genai")]
)
def test_short_names_of_formats(given: str, name: str) -> None:
    """Usual spellings are understood, others are refused with the list."""
    assert codec_named(given).name == name
    with pytest.raises(ConfigError, match="no message format is called 'nope'; choose one of: openai-chat, "):
        codec_named("nope")


def test_block_helpers() -> None:
    """Text blocks are told from media, and copied with another text."""
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert block_text(block) == "a"
    assert with_text(block, "b") == block | {"text": "b"}
    assert with_text("a", "b") == "b"
    assert block_text({"type": "image", "data": "x"}) is None
    assert block_media({"type": "image_url", "image_url": {"url": "https://x/y.png"}}) == Media("image", 0)
    assert content_strings([block, {"type": "search_result", "title": "t", "content": [block]}]) == ("a", "t", "a")
