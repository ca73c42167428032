"""Message lists that came before: what they became, and which of a new list's entries are known already."""

from collections.abc import Sequence
from typing import Any

from stead.errors import ConfigError
from stead.reducer.columns import Columns
from stead.reducer.ledger import Ledger
from stead.reducer.messages.codec import Codec
from stead.reducer.messages.detect import codec_named, find_codec, format_in
from stead.reducer.messages.openai_chat import OpenAIChat
from stead.reducer.tokens import TokenMeter

__all__ = ["Histories", "History"]

_KEPT = 4
_NEW_IN_A_TURN = 100


class History:
    """One growing message list. The caller may keep the reduced list or go on passing the raw one: both are known.

    Attributes:
        ledger: Reads the reduced list.
        columns: Read it as long as they can; None afterwards.
        outputs: The reduced list, as the caller got it last.
        exhausted: Indexes, in `outputs`, of rounds from which nothing more can be gained.
    """

    def __init__(self, meter: TokenMeter, given: str | Codec | None = None, *, quick: bool = False) -> None:
        self._meter = meter
        self._format = given
        self._detected = False
        self._learned = 0
        self.ledger = Ledger(find_codec((), given), meter)
        is_chat = type(self.ledger.codec) is OpenAIChat  # which stands for what is not known yet too
        self.columns = Columns(meter.estimate) if quick and is_chat else None
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
            if size == 0 or len(messages) < size - 1 or (raw and before is self.outputs):
                continue
            if _starts_with(messages, before, size):
                return raw, size
            # The newest entry may have been replaced by a longer one: streaming callers do that.
            if size > 1 and _starts_with(messages, before, size - 1):
                return raw, size - 1
        return False, 0

    def take(self, messages: Sequence[Any], known: tuple[bool, int]) -> int:
        """Takes a list that goes on from this one, or any list if this is new.

        Args:
            messages: What the caller passes.
            known: What `known` says of it.

        Returns:
            Index in `outputs` of the first entry that is new.
        """
        raw, size = known
        new = list(messages[size:])
        before = self._inputs if raw else self.outputs
        dropped = len(before) - size
        start = len(self.outputs) - dropped
        if dropped and raw and self.outputs[-1:] != self._inputs[-1:]:
            start = 0  # The entry that changed was reduced: nothing that was known of the end holds.
            self.exhausted.clear()
            self.outputs = list(messages)
        else:
            self.outputs = [*self.outputs[:start], *new]
        self._inputs = list(messages) if raw else self.outputs
        self._learned = min(self._learned, start)
        return start

    def read_quickly(self, start: int) -> Columns | None:
        """Reads what is new into the columns; None if they do not hold it, and the ledger is to read it all.

        Args:
            start: As `take` says.
        """
        if self.columns is not None and not self.columns.read(self.outputs, start):
            self.leave_columns(start)
        return self.columns

    def leave_columns(self, start: int) -> None:
        """From here on the ledger reads.

        Args:
            start: Index of the first entry that is new.
        """
        if self.columns is not None:
            self.exhausted = {index for index in self.columns.exhausted() if index < start}
            self.columns = None

    def learn_format(self) -> None:
        """Looks at the entries that are new to tell their format, if it was not given.

        Raises:
            ConfigError: The messages belong to different formats, or to none that is known.
        """
        self._learn_format(self.outputs[self._learned :])
        self._learned = len(self.outputs)

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

    def find(self, messages: Sequence[Any]) -> tuple[History, tuple[bool, int]] | None:
        """The history that a list goes on from, and how; None if it is another list.

        Args:
            messages: What the caller passes.
        """
        found = None
        for history in reversed(self._kept):
            known = history.known(messages)
            if known[1] > (found[1][1] if found is not None else 0):
                found = history, known
            if known[1] >= len(messages) - _NEW_IN_A_TURN > 0:
                break
        if found is not None:
            self._kept.remove(found[0])
            self._kept.append(found[0])
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


def _starts_with(messages: Sequence[Any], before: list[Any], size: int) -> bool:
    """True if a list starts with the first entries of another: the same objects, or dicts with the same content."""
    if len(messages) < size:
        return False
    # Comparing lists is the fastest look at many objects that are mostly the same. Objects of libraries that were all
    # made anew compare slowly, slower than they are read: the two ends tell.
    ends_are_same = messages[0] is before[0] and messages[size - 1] is before[size - 1]
    if not ends_are_same and type(messages[0]) is not dict:
        return False
    try:
        return (before if size == len(before) else before[:size]) == list(messages[:size])
    except Exception:  # noqa: BLE001 - values inside messages may refuse to be compared, as arrays do
        return False
