"""The ledger: each entry of a history is read once, whatever the caller does with the list."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stead.reducer.estimate import UNIT
from stead.reducer.ledger import Ledger, Reading
from stead.reducer.messages.codec import View
from stead.reducer.messages.detect import codec_named
from stead.reducer.tokens import TokenMeter

CHAT = codec_named("openai-chat")


class Watched:
    """The chat codec, which notes what it is asked for."""

    name = "watched"
    splits_turns = False

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def view(self, message: Any) -> View:
        """Notes the message."""
        self.seen.append(message)
        return CHAT.view(message)

    replace = CHAT.replace


def read(ledger: Ledger, history: list[Any]) -> Reading:
    """Reads a request without tools."""
    return asyncio.run(ledger.read(history))


def user(text: str) -> dict[str, Any]:
    """A message."""
    return {"role": "user", "content": text}


def call(key: str) -> dict[str, Any]:
    """An assistant message with one call."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": key, "function": {"name": "f", "arguments": "{}"}}],
    }


def result(key: str, text: str = "r") -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "tool_call_id": key, "content": text}


def answers(reading: Reading) -> list[tuple[int, int | None]]:
    """Where each call and its result are."""
    return [(e.call_index, e.result_index) for turn in reading.rounds for e in turn.exchanges]


def test_a_turn_reads_only_what_is_new() -> None:
    """In a grown list, also a copied one, the newest known entry and the new ones are looked at."""
    codec = Watched()
    ledger = Ledger(codec)
    history = [user("a" * 4 * i) for i in range(100)]
    assert read(ledger, history).total == UNIT * sum(4 + i for i in range(100))
    codec.seen.clear()
    grown = [*history, user("new"), user("newer")]
    assert read(ledger, grown).by_message[-2:] == [475, 525]
    assert codec.seen == [history[-1], *grown[-2:]]


def test_after_a_replacement_known_entries_are_not_counted_again() -> None:
    """A caller's counter is asked for the new entry, the one that replaced another, and the one that was newest."""
    asked: list[Any] = []

    def counter(message: Any) -> int:
        asked.append(message)
        return 1

    ledger = Ledger(CHAT, TokenMeter(counter=counter))
    history = [user(str(i)) for i in range(9)]
    read(ledger, history)
    asked.clear()
    changed = [*history[:4], user("gone"), *history[5:], user("last")]
    assert read(ledger, changed).messages == 10 * UNIT
    assert asked == [user("gone"), history[-1], user("last")]


def test_pairs_are_kept_up() -> None:
    """A result that comes later finds its call; an entry that is taken away again leaves nothing."""
    ledger = Ledger(CHAT)
    history = [user("go"), call("a"), call("b"), result("a")]
    assert answers(read(ledger, history)) == [(1, 3), (2, None)]
    grown = [*history, result("b"), result("b")]
    reading = read(ledger, grown)
    assert answers(reading) == [(1, 3), (2, 4)]
    assert [index for index, _ in reading.strays] == [5]
    assert answers(read(ledger, grown[:3])) == [(1, None), (2, None)]
    assert answers(read(ledger, [])) == []


def test_the_newest_entry_may_change_in_place() -> None:
    """A caller that streams into its last message is read right, its calls too."""
    ledger = Ledger(CHAT)
    history = [user("a" * 400), user("")]
    assert read(ledger, history).total == 108 * UNIT
    history[-1].update(call("c"), content="b" * 40)
    grown = [*history, result("c", "")]
    reading = read(ledger, grown)
    assert reading.by_message == [104 * UNIT, (4 + 10 + 8) * UNIT + 25 + 116, 4 * UNIT]
    assert answers(reading) == [(1, 2)]


ENTRIES = [user("x" * i) for i in range(8)] + [call(key) for key in "abab"] + [result(key) for key in "abab"]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(st.integers(0, len(ENTRIES) - 1), max_size=12), max_size=6))
def test_the_ledger_agrees_with_a_new_one(histories: list[list[int]]) -> None:
    """Whatever lists come after each other, the reading is that of a ledger that saw nothing before."""
    ledger = Ledger(CHAT)
    for numbers in histories:
        history = [ENTRIES[i] for i in numbers]
        reading, fresh = read(ledger, history), read(Ledger(CHAT), history)
        assert (reading.by_message, reading.total, answers(reading), reading.strays) == (
            fresh.by_message,
            fresh.total,
            answers(fresh),
            fresh.strays,
        )


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, len(ENTRIES) - 1), max_size=16))
def test_growing_one_by_one_is_reading_at_once(numbers: list[int]) -> None:
    """A history read entry by entry gives the same pairs as one read whole."""
    history = [dict(ENTRIES[i]) for i in numbers]
    ledger = Ledger(CHAT)
    for size in range(1, len(history) + 1):
        read(ledger, history[:size])
    grown, whole = read(ledger, history), read(Ledger(CHAT), history)
    assert (grown.by_message, answers(grown), grown.strays) == (whole.by_message, answers(whole), whole.strays)
