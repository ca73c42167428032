"""Reads a history once: what each entry costs and which result answers which call, kept up while it grows."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stead.reducer.estimate import UNIT
from stead.reducer.messages.codec import Codec, Result, View
from stead.reducer.messages.pairing import Pairing, Round
from stead.reducer.tokens import TokenMeter

__all__ = ["Ledger", "Reading"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A request as the reducer sees it, counted in units (`TokenMeter`)."""

    by_message: list[int]
    """Units of each entry."""
    messages: int
    """Their sum."""
    tools: int
    """Units of all tool schemas."""
    rounds: list[Round]
    """The assistant turns with calls, in order. The ledger's own, and good until its next `read`."""
    strays: list[tuple[int, Result]]
    """Results that answer no call, each with the index of its entry. As `rounds`."""

    @property
    def total(self) -> int:
        """Units of the whole request."""
        return self.messages + self.tools

    @property
    def tokens(self) -> int:
        """Tokens of the whole request, not calibrated (`TokenMeter.tokens`)."""
        return round(self.total / UNIT)


class Ledger:
    """Reads the requests of one conversation. What was read before is not read again, so a turn costs what is new.

    An entry is known again as the same object at the same place. The newest entry is always read anew, since a caller
    that streams changes it in place. After an entry was replaced the list is paired anew, but only new objects are
    counted.

    Args:
        codec: Reads the messages.
        meter: Counts them; None estimates.
    """

    def __init__(self, codec: Codec, meter: TokenMeter | None = None) -> None:
        self.codec = codec
        self.meter = meter or TokenMeter()
        self._pairing = Pairing(splits_turns=codec.splits_turns)
        self._messages: list[Any] = []
        self._counts: list[int] = []
        self._sum = 0
        self._last: View | None = None

    async def read(self, messages: Sequence[Any], tools: Iterable[Any] = ()) -> Reading:
        """Reads a request.

        Args:
            messages: The history.
            tools: Tool schemas: dicts, or objects with a name, a description and parameters.
        """
        start = self._shared_with(messages)
        known: dict[int, int] = {}
        if start == 0:
            # The old list keeps its entries alive until the end of this pass, so that their ids are still theirs.
            known = dict(zip(map(id, self._messages[:-1]), self._counts, strict=False))
            self._pairing = Pairing(splits_turns=self.codec.splits_turns)
            self._counts, self._sum = [], 0
        # An error or a cancellation in between leaves a ledger that begins anew.
        self._messages = []
        await self._add(messages, start, known)
        self._messages = list(messages)
        in_tools = await self.meter.count_tools(tools)
        return Reading(self._counts.copy(), self._sum, in_tools, self._pairing.rounds, self._pairing.strays)

    def replace(self, entries: Mapping[int, Any], counts: Mapping[int, int]) -> None:
        """Takes edited copies in the place of entries: they are neither counted nor paired anew.

        Args:
            entries: The copies, by index in the list that was read last. Calls and results are the same as before.
            counts: Units of each.
        """
        for index, entry in entries.items():
            self._sum += counts[index] - self._counts[index]
            self._counts[index] = counts[index]
            self._messages[index] = entry
        if self._messages and len(self._messages) - 1 in entries:
            self._last = self.codec.view(self._messages[-1])

    def _shared_with(self, messages: Sequence[Any]) -> int:
        """How many entries are known, if this list goes on where the last one ended; else 0."""
        size = len(self._messages)
        if not 0 < size <= len(messages) or not all(map(operator.is_, self._messages, messages)):
            return 0
        return size if self.codec.view(messages[size - 1]) == self._last else 0

    async def _add(self, messages: Sequence[Any], start: int, known: dict[int, int]) -> None:
        view, add, estimate = self.codec.view, self._pairing.add, self.meter.estimate
        asks = self.meter.is_custom
        seen = self._last
        for index in range(start, len(messages)):
            message = messages[index]
            seen = view(message)
            add(index, seen)
            units = known.get(id(message))
            if units is None:
                units = await self.meter.count(message, seen) if asks else estimate(seen)
            self._counts.append(units)
            self._sum += units
        self._last = seen
