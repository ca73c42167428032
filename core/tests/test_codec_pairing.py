"""Which result answers which call, in every order and with every kind of id."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stead.reducer.messages.codec import Call, Result, View
from stead.reducer.messages.detect import codec_named
from stead.reducer.messages.pairing import pair_rounds

USER = View("user", texts=("hi",))


def asks(*ids: str | None, name: str = "f") -> View:
    """An assistant message with calls."""
    return View("assistant", calls=tuple(Call(i, key, name, "{}") for i, key in enumerate(ids)))


def answer(key: str | None, content: str = "", name: str | None = None) -> View:
    """A tool message."""
    return View("tool", results=(Result(0, key, name, content),))


def pairs(*views: View, splits_turns: bool = False) -> list[list[tuple[int, str | None]]]:
    """By round: where each call is, and what answered it."""
    rounds, _ = pair_rounds(views, splits_turns=splits_turns)
    return [
        [(e.call_index, None if e.result is None else str(e.result.content)) for e in item.exchanges] for item in rounds
    ]


def test_results_in_swapped_order() -> None:
    """Parallel calls are paired by id, whatever the order of their results."""
    assert pairs(asks("a", "b"), answer("b", "B"), answer("a", "A")) == [[(0, "A"), (0, "B")]]


def test_ids_that_repeat_in_later_rounds() -> None:
    """An id counts inside its round: the first call keeps the first result."""
    views = (USER, asks("f:0"), answer("f:0", "ONE"), asks("f:0"), answer("f:0", "TWO"))
    assert pairs(*views) == [[(1, "ONE")], [(3, "TWO")]]


def test_one_id_twice_in_one_message() -> None:
    """The nth call takes the nth result."""
    assert pairs(asks("x", "x"), answer("x", "1"), answer("x", "2")) == [[(0, "1"), (0, "2")]]
    assert pairs(asks("x", "x"), answer("x", "1")) == [[(0, "1"), (0, None)]]


def test_an_unanswered_call_stays_open() -> None:
    """A result is not taken by an older call of the same id that was never answered."""
    assert pairs(asks("x"), USER, asks("x"), answer("x", "1")) == [[(0, None)], [(2, "1")]]
    rounds, _ = pair_rounds([asks("p1", "p2"), answer("p1", "pending")])
    assert not rounds[0].complete


def test_a_late_answer_is_found() -> None:
    """A user message, and rounds with other ids, may stand between a call and its result."""
    views = (asks("slow"), USER, asks("a"), answer("a", "A"), answer("slow", "S"))
    assert pairs(*views) == [[(0, "S")], [(2, "A")]]


def test_strays_are_reported() -> None:
    """Results without a call, and second results of one call, pair with nothing."""
    _, strays = pair_rounds([answer("z"), asks("a"), answer("a"), answer("a", "again")])
    assert [(index, result.id) for index, result in strays] == [(0, "z"), (3, "a")]


def test_without_ids_names_pair_and_then_order() -> None:
    """Google's older contents have no ids: the name stands for it; empty ids go by order."""
    calls = View("assistant", calls=(Call(0, None, "f", {}), Call(1, None, "g", {}), Call(2, None, "f", {})))
    results = (answer(None, "G", "g"), answer(None, "F1", "f"), answer(None, "F2", "f"))
    assert pairs(calls, *results) == [[(0, "F1"), (0, "G"), (0, "F2")]]
    assert pairs(asks("", ""), answer("", "1"), answer("", "2")) == [[(0, "1"), (0, "2")]]
    assert pairs(asks("a", name="f"), answer(None, "1", "f")) == [[(0, "1")]]


def test_split_turns_are_one_round() -> None:
    """In a flat item list neighbouring calls are one turn, also with reasoning between them."""
    thinking = View("assistant", signed=True)
    views = (thinking, asks("a"), thinking, asks("b"), answer("a", "A"), answer("b", "B"), asks("c"), answer("c", "C"))
    assert pairs(*views, splits_turns=True) == [[(1, "A"), (3, "B")], [(6, "C")]]
    assert pairs(asks("x"), asks("x"), answer("x", "1"), answer("x", "2"), splits_turns=True) == [[(0, "1"), (1, "2")]]


def test_a_responses_history_pairs() -> None:
    """The items of a Responses history give one round for the parallel calls."""
    codec = codec_named("openai-responses")
    items: list[Any] = [
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "B"},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
    ]
    assert pairs(*map(codec.view, items), splits_turns=codec.splits_turns) == [[(0, "A"), (1, "B")]]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "", None]), min_size=1, max_size=4), max_size=6), st.randoms())
def test_every_answered_round_pairs_fully(rounds: list[list[str | None]], order: Any) -> None:
    """With all results in their round's window, in any order between ids, each call has its own result."""
    views: list[View] = []
    for turn, ids in enumerate(rounds):
        views.append(asks(*ids))
        by_id: dict[str, list[View]] = {}
        for ordinal, key in enumerate(ids):
            by_id.setdefault(key or "", []).append(answer(key, f"{turn}.{ordinal}"))
        while by_id:
            key = order.choice(sorted(by_id))
            views.append(by_id[key].pop(0))
            if not by_id[key]:
                del by_id[key]
    expected = [[f"{turn}.{ordinal}" for ordinal in range(len(ids))] for turn, ids in enumerate(rounds)]
    assert [[content for _, content in item] for item in pairs(*views)] == expected
