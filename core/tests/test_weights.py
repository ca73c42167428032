"""Texts that are weighed together weigh what each does alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.reducer.estimate import text_units
from stead.reducer.weights import Weights, units_of, weigh

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.text(st.characters(max_codepoint=0x7F), max_size=40),
        st.sampled_from(
            ["", "a\0b", "0123456789abcdef" * 40, "QUJDRGVm1234" * 60, "结果 " * 90, "line 12 of 340\n" * 40]
        ),
    ),
    max_size=12,
)


def each(weights: Weights) -> list[int]:
    """Units of every text."""
    return [weights[index] for index in range(len(weights.characters))]


@settings(deadline=None)
@given(TEXTS)
def test_together_as_alone(texts: list[str]) -> None:
    """By text and in total, also with encoded data, other scripts and zero bytes among them."""
    alone = list(map(text_units, texts))
    assert each(weigh(texts)) == alone
    assert weigh(texts).characters == list(map(len, texts))
    assert weigh(texts).total == units_of(texts, max(map(len, texts), default=0)) == sum(alone)


@settings(deadline=None)
@given(TEXTS, TEXTS, st.data())
def test_parts_and_changes(texts: list[str], others: list[str], data: st.DataObject) -> None:
    """What is cut out, put in, added and taken away weighs what the texts then do."""
    weights, now = weigh(texts), list(texts)
    weights.extend(weigh(others))
    now += others
    first = data.draw(st.integers(0, len(now)))
    stop = data.draw(st.integers(first, len(now)))
    assert each(weights.part(first, stop)) == list(map(text_units, now[first:stop]))
    numbers = data.draw(st.sampled_from([range(first, stop), list(reversed(range(first, stop)))]))
    new = data.draw(
        st.lists(st.sampled_from(["", "new", "0123456789abcdef" * 30]), min_size=len(numbers), max_size=len(numbers))
    )
    weights.put(numbers, weigh(new))
    for number, text in zip(numbers, new, strict=True):
        now[number] = text
    assert each(weights) == list(map(text_units, now))
    size = data.draw(st.integers(0, len(now) + 3))
    weights.resize(size)
    assert each(weights) == list(map(text_units, [*now, "", "", ""][:size]))


@pytest.mark.parametrize("odd", [None, b"bytes", 3])
def test_what_is_no_text_is_refused(odd: object) -> None:
    """Also among texts."""
    with pytest.raises(TypeError):
        weigh(["a", odd])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        units_of(["a", odd], 1)  # type: ignore[list-item]
