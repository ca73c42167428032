"""Message lists that came before: what they became, and which of a new list's entries are known already."""

import operator
from collections.abc import Sequence
from typing import Any

from stead.errors import ConfigError
from stead.reducer.ledger import Ledger
from stead.reducer.messages.codec import Codec
from stead.reducer.messages.detect import codec_named, find_codec, format_in
from stead.reducer.tokens import TokenMeter

__all__ = ["Histories", "History"]

_KEPT = 4


class History:
    """One growing message list. The caller may keep the reduced list or go on passing the raw one: both are known.

    Attributes:
        ledger: Reads the reduced list.
        outputs: The reduced list, as the caller got it last.
        exhausted: Indexes, in `outputs`, of rounds from which nothing more can be gained.
    """

    def __init__(self, meter: TokenMeter, given: str | Codec | None = None) -> None:
        self._meter = meter
        self._format = given
        self._detected = False
        self.ledger = Ledger(find_codec((), given), meter)
        self.outputs: list[Any] = []
        self.exhausted: set[int] = set()
        self._inputs: list[Any] = []

    def known(self, messages: Sequence[Any]) -> tuple[bool, int]:
        """How a list goes on: whether from the raw list, and how many of its entries are known; 0 is another list.

        Args:
            messages: What the caller passes.
        """
        for raw, before in ((False, self.outputs), (True, self._inputs)):
            size = len(before)
            if not before or len(messages) < size - 1:
                continue
            # The newest entry may have been replaced by a longer one: streaming callers do that.
            if size > 1 and not _same(before[:-1], messages):
                continue
            last_known = size <= len(messages) and _same(before[-1:], messages[size - 1 : size])
            if last_known or size > 1:
                return raw, size if last_known else size - 1
        return False, 0

    def take(self, messages: Sequence[Any]) -> int:
        """Takes a list that goes on from this one, or any list if this is new.

        Args:
            messages: What the caller passes.

        Returns:
            Index in `outputs` of the first entry that is new.
        """
        raw, size = self.known(messages)
        self._learn_format(messages[size:])
        before = self._inputs if raw else self.outputs
        dropped = len(before) - size
        start = len(self.outputs) - dropped
        if dropped and raw and self.outputs[-1:] != self._inputs[-1:]:
            start = 0  # The entry that changed was reduced: nothing that was known of the end holds.
            self.exhausted.clear()
            self.outputs = list(messages)
        else:
            self.outputs = [*self.outputs[:start], *messages[size:]]
        self._inputs = list(messages)
        return start

    def _learn_format(self, messages: Sequence[Any]) -> None:
        if self._format is not None and not isinstance(self._format, str):
            return
        found = format_in(messages) if self._format is None or self._detected else None
        if found is None or found == self._format:
            return
        if self._format is not None:
            raise ConfigError(
                f"the messages mix formats ({self._format}, {found}): convert them to one, or name one with"
                " `message_format`"
            )
        # Until now only texts came, which look alike in several formats.
        self._format, self._detected = found, True
        self.ledger = Ledger(codec_named(found), self._meter)

    def commit(self, outputs: list[Any], *, moved: bool) -> None:
        """Takes the list as it was reduced.

        Args:
            outputs: The reduced list.
            moved: True if entries were added or removed, so that indexes mean other entries now.
        """
        self.outputs = outputs
        if moved:
            self.exhausted.clear()


class Histories:
    """The lists that a reducer was given last."""

    def __init__(self) -> None:
        self._kept: list[History] = []

    def find(self, messages: Sequence[Any]) -> History | None:
        """The history that a list goes on from; None if it is another list.

        Args:
            messages: What the caller passes.
        """
        if not messages:
            return None
        found = max(self._kept, key=lambda history: history.known(messages)[1], default=None)
        if found is None or not found.known(messages)[1]:
            return None
        self._kept.remove(found)
        self._kept.append(found)
        return found

    def forget(self, history: History) -> None:
        """Takes the same list for a new one when it comes again.

        Args:
            history: One that `find` or `add` knows.
        """
        self._kept.remove(history)

    def add(self, history: History) -> None:
        """Keeps a new history; the one that was used longest ago is forgotten.

        Args:
            history: The history.
        """
        self._kept = [*self._kept[-_KEPT + 1 :], history]


def _same(before: Sequence[Any], messages: Sequence[Any]) -> bool:
    """True if `messages` starts with the entries of `before`: the same objects, or dicts with the same content."""
    if all(map(operator.is_, before, messages)):
        return len(before) <= len(messages)
    # Objects of libraries compare slowly, and callers that make them anew are rare; dicts are often made anew.
    return type(before[0]) is dict and len(before) <= len(messages) and all(map(operator.eq, before, messages))
