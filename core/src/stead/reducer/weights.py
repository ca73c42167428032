"""Units of many texts at once, kept so that they cost no arithmetic until somebody asks for them."""

from collections.abc import Sequence

from stead.reducer.estimate import (
    ASCII_WEIGHT,
    BLOB_LEAST_DIGITS,
    BLOB_RUN,
    DENSE,
    DENSE_EXTRA,
    blob_extra,
    text_units,
)

__all__ = ["Weights", "units_of", "weigh"]

_NOT_DENSE = bytes(code for code in range(1, 0x100) if code not in DENSE)


class Weights:
    """What the units of texts come of, by their position.

    Args:
        characters: Of each.
        dense: How many of them weigh more than others, digits for example.
        more: Units that come to that: encoded data, and all beyond ASCII.
    """

    __slots__ = ("characters", "dense", "more")

    def __init__(self, characters: list[int], dense: list[int], more: dict[int, int]) -> None:
        self.characters = characters
        self.dense = dense
        self.more = more

    @property
    def total(self) -> int:
        """Units of all."""
        return ASCII_WEIGHT * sum(self.characters) + DENSE_EXTRA * sum(self.dense) + sum(self.more.values())

    def __getitem__(self, index: int) -> int:
        """Units of one.

        Args:
            index: Its position.
        """
        index = range(len(self.characters))[index]
        return ASCII_WEIGHT * self.characters[index] + DENSE_EXTRA * self.dense[index] + self.more.get(index, 0)

    def part(self, first: int, stop: int) -> "Weights":
        """Those of some texts in a row.

        Args:
            first: The first.
            stop: After the last.
        """
        more = {index - first: self.more[index] for index in self.more.keys() & range(first, stop)} if self.more else {}
        return Weights(self.characters[first:stop], self.dense[first:stop], more)

    def put(self, numbers: Sequence[int], others: "Weights") -> None:
        """Takes others in the place of as many.

        Args:
            numbers: The place of each.
            others: The others.
        """
        if isinstance(numbers, range):
            own = slice(numbers.start, numbers.stop)
            self.characters[own], self.dense[own] = others.characters, others.dense
        else:
            for number, characters, dense in zip(numbers, others.characters, others.dense, strict=True):
                self.characters[number], self.dense[number] = characters, dense
        if self.more:
            for number in numbers:
                self.more.pop(number, None)
        self.more.update({numbers[index]: extra for index, extra in others.more.items()})

    def extend(self, others: "Weights") -> None:
        """Takes others at the end.

        Args:
            others: The others.
        """
        size = len(self.characters)
        self.characters += others.characters
        self.dense += others.dense
        self.more.update({size + index: extra for index, extra in others.more.items()})

    def resize(self, size: int) -> None:
        """Forgets the last, or adds empty texts.

        Args:
            size: How many there are then.
        """
        more = [0] * (size - len(self.characters))
        self.characters[size:] = self.dense[size:] = more
        for index in [index for index in self.more if index >= size] if self.more else ():
            del self.more[index]


def weigh(texts: Sequence[str]) -> Weights:
    """Weights of texts: those of short ones cost a fifth of `text_units`.

    Args:
        texts: Any texts.

    Raises:
        TypeError: One is no text.
    """
    joined = "\0".join(texts)
    characters = list(map(len, texts))
    parts = joined.encode().translate(None, _NOT_DENSE).split(b"\0") if joined.isascii() else []
    if len(parts) != len(texts):
        sized = enumerate(zip(map(text_units, texts), characters, strict=True))
        return Weights(characters, [0] * len(texts), {i: units - ASCII_WEIGHT * size for i, (units, size) in sized})
    dense = list(map(len, parts))
    if max(characters, default=0) < BLOB_RUN or max(dense) < BLOB_LEAST_DIGITS:
        return Weights(characters, dense, {})
    long = [i for i, size in enumerate(characters) if size >= BLOB_RUN and dense[i] >= BLOB_LEAST_DIGITS]
    return Weights(characters, dense, {i: extra for i in long if (extra := blob_extra(texts[i].encode()))})


def units_of(texts: Sequence[str], longest: int) -> int:
    """The sum of `text_units` of texts: that of short ones costs a fifth.

    Args:
        texts: Any texts.
        longest: Characters of the longest, which the caller wants to know too.

    Raises:
        TypeError: One is no text.
    """
    joined = "".join(texts)
    if longest >= BLOB_RUN or not joined.isascii():
        return sum(map(text_units, texts))
    data = joined.encode()
    return ASCII_WEIGHT * len(data) + DENSE_EXTRA * (len(data) - len(data.translate(None, DENSE)))
