"""The quick way through plain chat histories says and does what the general way does."""

import asyncio
import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.reducer import Reduced, Reducer, ReducerConfig
from stead.reducer import clear as clearing
from stead.reducer import columns as reading
from stead.reducer import quick as planning

TEXTS = st.sampled_from(
    [
        "",
        "ok",
        "short words " * 3,
        "some words of a result " * 12,
        "some words of a result " * 9,
        "more words " * 40,
        "结果 " * 60,
        "0123456789abcdef" * 40,
        "a\0b" * 90,
        '{"a": 1}' * 50,
    ]
)
ARGUMENTS = st.sampled_from(
    ['{"path": "a.py"}', "{}", json.dumps({"content": "x" * 2_000}), '{"n": "\\u4e2d"}', "not json" * 300]
)


@st.composite
def entries(draw, number):
    """One turn: mostly a call and its result, and all that else occurs."""
    kind = draw(
        st.sampled_from(
            ["pair"] * 25 + ["many", "text", "user", "full", "blocks", "pending", "stray", "twice", "old", "odd"]
        )
    )
    name = draw(st.sampled_from(["ReadFile", "Grep"] * 4 + ["kept", "handled"]))
    call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": draw(ARGUMENTS)}}
    ask = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": f"c{number}", "content": draw(TEXTS)}
    return {
        "pair": lambda: [ask, answer],
        "many": lambda: [
            {"role": "assistant", "content": "both", "tool_calls": [call, {**call, "id": f"d{number}"}]},
            {**answer, "tool_call_id": f"d{number}"},
            answer,
        ],
        "text": lambda: [{"role": "assistant", "content": draw(TEXTS)}],
        "user": lambda: [{"role": "user", "content": draw(TEXTS)}, ask, answer],
        "full": lambda: [{**ask, "refusal": None, "annotations": [], "content": draw(TEXTS)}, {**answer, "name": name}],
        "blocks": lambda: [ask, {**answer, "content": [{"type": "text", "text": draw(TEXTS)}]}],
        "pending": lambda: [ask],
        "stray": lambda: [{**answer, "tool_call_id": "nobody"}],
        "twice": lambda: [ask, answer, {**answer, "content": "again"}],
        "old": lambda: [{**ask, "tool_calls": [{**call, "id": "c0"}]}, {**answer, "tool_call_id": "c0"}],
        "odd": lambda: [
            draw(
                st.sampled_from(
                    [{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "system", "content": "s"}]
                )
            )
        ],
    }[kind]()


@st.composite
def conversations(draw):
    """Parts of a history, one for each turn."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    number, parts = 0, []
    for size in sizes:
        part = []
        for _ in range(size):
            part += draw(entries(number))
            number += 1
        parts.append(part)
    return parts


async def handler(call, content):
    return Reduced(f"handled {len(content)}")


def play(parts, *, raw, change_last, **config):
    """All turns with one reducer, and what came of each."""
    settings_ = ReducerConfig(
        session_id="s",
        skip_truncation=True,
        clear_exclude_tools={"kept"},
        tool_config={"handled": {"clear_handler": handler}},
        **config,
    )

    async def run():
        reducer = Reducer(None, settings_)
        history, outcomes = [], []
        for part in copy.deepcopy(parts):
            history = [*history, *part]
            outcome = await reducer.clear(history)
            outcomes.append((outcome.messages, tuple(outcome.report.decisions), outcome.report, outcome.changed))
            if not raw:
                history = outcome.messages
            if change_last and type(history[-1].get("content")) is str:
                history = [*history[:-1], {**history[-1], "content": history[-1]["content"] + " and more"}]
        return outcomes

    return asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(
    parts=conversations(),
    raw=st.booleans(),
    change_last=st.booleans(),
    limit=st.sampled_from([5, 100, 400, 1_000]),
    target=st.sampled_from([0, 5, 80, 300]),
    retained=st.sampled_from([0, 1, 2, 5, 12]),
    least=st.sampled_from([0, 50]),
    arguments=st.booleans(),
)
def test_quick_is_the_same_as_general(parts, raw, change_last, limit, target, retained, least, arguments):
    """The messages, decisions, counts and warnings of every turn are equal."""
    config = {
        "max_tokens_for_clear": limit,
        "clear_target_tokens": min(target, limit),
        # A newest round that was cleared, and that the caller changes then, is looked at again only by the quick way.
        "clear_retention_suffix_limit": max(retained, int(change_last)),
        "clear_at_least_tokens": least,
        "clear_tool_arguments": arguments,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_AT_ONCE", 5)
        patch.setattr(planning, "_AT_ONCE", 6)
        patch.setattr(planning, "_LEAST", 2)
        quick = play(parts, raw=raw, change_last=change_last, **config)
        patch.setattr(clearing, "suits", lambda *_: False)
        general = play(parts, raw=raw, change_last=change_last, **config)
    assert quick == general


@pytest.mark.parametrize("target", range(0, 1_000, 37))
def test_a_pass_ends_with_the_round_that_reaches_the_target(monkeypatch, target):
    """Wherever in a block that is, and however unequal its rounds are."""
    entries = []
    for number, size in enumerate([900, 200, 250, 1_700, 180, 300, 170, 500]):
        function = {"name": "Grep", "arguments": "{}"}
        entries += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"{number}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"{number}", "content": "w " * (size // 2)},
        ]
    config = {"max_tokens_for_clear": 1_000, "clear_target_tokens": target}
    quick = play([entries], raw=False, change_last=False, **config)
    monkeypatch.setattr(clearing, "suits", lambda *_: False)
    assert quick == play([entries], raw=False, change_last=False, **config)
    assert quick[0][3]


def test_plain_histories_take_the_quick_way(monkeypatch):
    """Also with texts, several calls a turn and messages as the SDK dumps them, and nothing is read twice."""
    parts = [
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            *(
                entry
                for n in range(40)
                for entry in (
                    {
                        "role": "assistant",
                        "content": "thinking" if n % 3 == 0 else None,
                        "refusal": None,
                        "tool_calls": [
                            {"id": f"{n}.{k}", "type": "function", "function": {"name": "Grep", "arguments": "{}"}}
                            for k in range(1 + n % 2)
                        ],
                    },
                    *({"role": "tool", "tool_call_id": f"{n}.{k}", "content": "words " * 50} for k in range(1 + n % 2)),
                )
            ),
        ]
    ]
    general = []
    monkeypatch.setattr(clearing.Clearing, "_read", lambda *_: general.append(1))
    (outcome,) = play(parts, raw=False, change_last=False, max_tokens_for_clear=500, clear_target_tokens=100)
    assert general == []
    assert sum(decision.action == "reduced" for decision in outcome[1]) == 58


def test_decisions_are_a_sequence():
    """They can be counted, cut, compared and hashed like a tuple of them."""
    pair = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "words " * 50},
    ]
    more = [{**pair[0], "tool_calls": [{**pair[0]["tool_calls"][0], "id": "b"}]}, {**pair[1], "tool_call_id": "b"}]
    ((_, decisions, report, changed),) = play(
        [[*pair, *more]], raw=False, change_last=False, max_tokens_for_clear=5, clear_retention_suffix_limit=0
    )
    assert changed
    assert [(d.call_id, d.before_chars, d.action) for d in decisions] == [("a", 300, "reduced"), ("b", 300, "reduced")]
    assert report.decisions == decisions
    assert report.decisions[-1:] == decisions[-1:]
    assert report.decisions != decisions[:1]
    assert hash(report.decisions) == hash(decisions)
    assert len(report.decisions) == 2


def asks(**changes):
    """A call and its result, with some fields of the call changed."""
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}} | changes
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]


@pytest.mark.parametrize(
    "entries",
    [
        [{"role": ["user"], "content": "x"}],
        [{"role": "user", "content": "x"}, {"role": ["tool"], "content": "x"}],
        [{"role": "assistant", "content": []}, {"role": "tool", "tool_call_id": [1], "content": "y"}],
        [*asks(id=["x"]), {"role": "tool", "tool_call_id": ["x"], "content": "y" * 900}],
        [*asks(function={"name": ["f"], "arguments": {}}), {"role": "tool", "tool_call_id": "x", "content": "y" * 900}],
        [*asks(function={"name": "f", "arguments": None}), {"role": "tool", "tool_call_id": "x", "content": None}],
        [*asks(function=None), {"role": "tool", "tool_call_id": "x", "content": "y" * 900}],
        [{"role": "assistant", "content": None, "tool_calls": "x"}, {"role": "tool", "content": "y"}],
    ],
)
def test_odd_fields_are_the_general_ways(monkeypatch, entries):
    """Fields of types that no provider takes are left to the general way."""
    config = {"max_tokens_for_clear": 10, "clear_target_tokens": 5, "clear_retention_suffix_limit": 0}
    quick = play([entries], raw=False, change_last=False, **config)
    monkeypatch.setattr(clearing, "suits", lambda *_: False)
    assert quick == play([entries], raw=False, change_last=False, **config)
