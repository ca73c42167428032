"""A history of chat dicts as columns of numbers: most histories, read without an object for each call.

What is done with every entry is done with whole lists, which takes a third of the time of a loop.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count, repeat
from operator import itemgetter, lt
from typing import Any

from stead.reducer.arguments import LONG_ARGUMENTS, are_long
from stead.reducer.estimate import UNIT, text_units
from stead.reducer.messages.codec import View
from stead.reducer.messages.openai_chat import ROLES, OpenAIChat
from stead.reducer.messages.pairing import Exchange, Round
from stead.reducer.tokens import CALL_TOKENS, MESSAGE_TOKENS
from stead.reducer.weights import Weights, units_of, weigh

__all__ = ["Columns"]

_AROUND = MESSAGE_TOKENS * UNIT
_AROUND_CALL = CALL_TOKENS * UNIT
# One odd entry has the others of its block read one by one.
_AT_ONCE = 512
_PAIRS = ["assistant", "tool"] * _AT_ONCE

_content, _tool_calls, _answer_id = itemgetter("content"), itemgetter("tool_calls"), itemgetter("tool_call_id")
_id, _kind, _function = itemgetter("id"), itemgetter("type"), itemgetter("function")
_name, _arguments = itemgetter("name"), itemgetter("arguments")


class Columns:
    """What a ledger knows of a history, for OpenAI chat dicts whose call ids are unique.

    Exchanges are numbered in the order of their calls; those of one round have the same `call_at`.

    Args:
        estimate: Units of a view.

    Attributes:
        size: Entries.
        units: Of them.
        call_at: By exchange, the index of the entry with the call.
        call_ids: By exchange, the call's id.
        tools: By exchange, the tool's name.
        result_at: By exchange, the index of its result; -1 while there is none.
        results: By exchange, what its result's text weighed before it was cleared; nothing for blocks.
        special: Exchanges that are more than a round of one short call with a text.
        numbers: Number of the exchange by the call's id.
        done: Exchanges before this number are cleared, or nothing is to be gained from them.
    """

    __slots__ = (
        "_estimate",
        "_last",
        "call_at",
        "call_ids",
        "codec",
        "done",
        "numbers",
        "result_at",
        "results",
        "size",
        "special",
        "tools",
        "units",
    )

    def __init__(self, estimate: Callable[[View], int]) -> None:
        self.codec = OpenAIChat()
        self.size = 0
        self.units = 0
        self.call_at: list[int] = []
        self.call_ids: list[str] = []
        self.tools: list[str] = []
        self.result_at: list[int] = []
        self.results = Weights([], [], {})
        self.special: set[int] = set()
        self.numbers: dict[str, int] = {}
        self.done = 0
        self._estimate = estimate
        self._last: View | None = None

    def read(self, messages: Sequence[Any], start: int) -> bool:
        """Reads what is new of a list; False if it holds what does not fit in columns, which are of no use then.

        Args:
            messages: The list.
            start: Index of the first entry that is new.
        """
        if 0 < start == self.size and self.codec.view(messages[start - 1]) != self._last:
            start -= 1  # a caller that streams changes the newest entry in place
        if start == self.size - 1:
            self._drop_last()
        elif start != self.size:
            return False
        if not all(self._add(messages, first) for first in range(start, len(messages), _AT_ONCE)):
            return False
        self.look_at_last(messages)
        return True

    def look_at_last(self, messages: Sequence[Any]) -> None:
        """Notes what the newest entry holds.

        Args:
            messages: The list.
        """
        self._last = self.codec.view(messages[-1]) if messages else None

    def units_at(self, messages: Sequence[Any], index: int) -> int:
        """Units of an entry.

        Args:
            messages: The list.
            index: The entry's index.
        """
        return self._estimate(self.codec.view(messages[index]))

    def stop_before(self, rounds: int) -> int:
        """Number of the first exchange of the newest rounds.

        Args:
            rounds: How many of them.
        """
        stop = len(self.call_at)
        for _ in range(rounds):
            if stop == 0:
                break
            index = self.call_at[stop - 1]
            while stop and self.call_at[stop - 1] == index:
                stop -= 1
        return stop

    def next_round(self, first: int) -> int:
        """Number of the first exchange of the round after an exchange's.

        Args:
            first: The exchange's number.
        """
        stop = first + 1
        while stop < len(self.call_at) and self.call_at[stop] == self.call_at[first]:
            stop += 1
        return stop

    def round(self, first: int, stop: int, messages: Sequence[Any]) -> Round:
        """A round with its exchanges.

        Args:
            first: Number of its first exchange.
            stop: Number of the next round's first exchange.
            messages: The list.
        """
        index = self.call_at[first]
        turn = Round(index)
        calls = self.codec.view(messages[index]).calls
        for number, call in zip(range(first, stop), calls, strict=True):
            exchange = Exchange(index, call)
            at = self.result_at[number]
            if at >= 0:
                exchange.result_index, exchange.result = at, self.codec.view(messages[at]).results[0]
            turn.exchanges.append(exchange)
        return turn

    def exhausted(self) -> set[int]:
        """Indexes of the rounds that were answered, and from which nothing more can be gained."""
        waiting = {self.call_at[number] for number in range(self.done) if self.result_at[number] < 0}
        return set(self.call_at[: self.done]) - waiting

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _drop_last(self) -> None:
        """Forgets the newest entry."""
        last = self._last or View("other")
        self.size -= 1
        self.units -= self._estimate(last)
        for _ in last.calls:
            del self.numbers[self.call_ids[-1]]
            for column in (self.call_at, self.call_ids, self.tools, self.result_at):
                column.pop()
            self.special.discard(len(self.call_at))
        self.results.resize(len(self.call_at))
        for result in last.results:
            number = self.numbers[str(result.id)]
            self.result_at[number] = -1
            while number and self.call_at[number - 1] == self.call_at[number]:
                number -= 1  # its round is as it was before
            self.done = min(self.done, number)

    def _add(self, messages: Sequence[Any], start: int) -> bool:
        """Takes the next entries; False if one does not fit."""
        entries = messages[start : start + _AT_ONCE]
        places = range(start, start + len(entries))
        try:
            roles = [entry["role"] for entry in entries if type(entry) is dict]
        except LookupError:
            return False
        if len(roles) < len(entries):
            return False
        self.size += len(entries)
        calls_at: Sequence[int]
        answers_at: Sequence[int]
        alike = True
        if roles == _PAIRS[: len(roles)]:
            calls, calls_at, answers, answers_at = entries[::2], places[::2], entries[1::2], places[1::2]
        else:
            calls_at = [index for index, role in zip(places, roles, strict=True) if role != "tool"]
            answers_at = [index for index, role in zip(places, roles, strict=True) if role == "tool"]
            calls, answers = [messages[index] for index in calls_at], [messages[index] for index in answers_at]
            alike = roles.count("assistant") == len(calls)
        if not (alike and self._add_calls(calls, calls_at)) and not all(map(self._add_other, calls, calls_at)):
            return False
        return not answers or self._add_answers(answers, answers_at)

    def _add_calls(self, entries: Sequence[dict[str, Any]], at: Sequence[int]) -> bool:
        """Takes an assistant's entries that are one call each and nothing else; False if there are others."""
        if set(map(len, entries)) != {3}:
            return False
        try:
            if any(map(_content, entries)):
                return False
            items = [item for [item] in map(_tool_calls, entries)]
            functions = list(map(_function, items))
            names, arguments = list(map(_name, functions)), list(map(_arguments, functions))
            ids, uses, longest = list(map(_id, items)), Counter(names), max(map(len, arguments))
            units = (_AROUND + _AROUND_CALL) * len(ids) + units_of(arguments, longest)
            units += sum([times * text_units(name) for name, times in uses.items()])
            if set(map(_kind, items)) != {"function"} or "" in uses:
                return False
        except (LookupError, TypeError, ValueError, AttributeError):
            return False
        if longest > LONG_ARGUMENTS:
            numbers = enumerate(arguments, start=len(self.call_at))
            self.special.update([number for number, text in numbers if len(text) > LONG_ARGUMENTS])
        return self._open(ids, names, at, units)

    def _add_other(self, message: dict[str, Any], index: int) -> bool:
        """Takes an entry that is no result; False if it does not fit."""
        view, role, content = self.codec.view(message), message["role"], message.get("content")
        if view.results or "type" in message or type(role) is not str or role not in ROLES:
            return False
        if type(content) is not str and not (view.calls and content is None):
            return False  # it may be of another format
        ids, first = [call.id or "" for call in view.calls], len(self.call_at)
        if len(ids) > 1 or any(map(are_long, view.calls)):
            self.special.update(range(first, first + len(ids)))
        return self._open(ids, [call.name or "tool" for call in view.calls], [index] * len(ids), self._estimate(view))

    def _open(self, ids: Sequence[str], names: Sequence[str], at: Sequence[int], units: int) -> bool:
        """Takes calls; False if an id is none, or known."""
        before = len(self.numbers)
        try:
            "".join(ids)  # the fastest way to tell that all are texts
        except TypeError:
            return False
        self.numbers.update(zip(ids, count(before), strict=False))
        self.call_ids += ids
        self.call_at += at
        self.tools += names
        self.result_at += repeat(-1, len(at))
        self.results.resize(len(self.call_at))
        self.units += units
        return len(self.numbers) == before + len(ids) and "" not in self.numbers

    def _add_answers(self, entries: Sequence[dict[str, Any]], at: Sequence[int]) -> bool:
        """Takes results; False if there is a stray, an answer that comes late, or a second one to a call."""
        first = max(0, len(self.call_ids) - len(at))
        try:
            identities, contents = list(map(_answer_id, entries)), list(map(_content, entries))
            if identities == self.call_ids[first:]:  # the usual order
                numbers: Sequence[int] = range(first, len(self.call_ids))
            else:
                numbers = list(map(self.numbers.__getitem__, identities))
        except (LookupError, TypeError):
            return False
        if min(numbers) < self.done or len(set(numbers)) < len(numbers):
            return False
        try:
            weights = weigh(contents)
        except TypeError:
            odd = [index for index, content in enumerate(contents) if type(content) is not str]
            self.special.update([numbers[index] for index in odd])
            self.units += sum([self._estimate(self.codec.view(entries[index])) - _AROUND for index in odd])
            weights = weigh([content if type(content) is str else "" for content in contents])
        self.units += _AROUND * len(at) + weights.total
        self.results.put(numbers, weights)
        return self._answer(numbers, at)

    def _answer(self, numbers: Sequence[int], at: Sequence[int]) -> bool:
        """Takes where results are; False if a call was answered before, or is only made later."""
        if isinstance(numbers, range):
            own = slice(numbers.start, numbers.stop)
            if max(self.result_at[own]) >= 0 or not all(map(lt, self.call_at[own], at)):
                return False
            self.result_at[own] = at
            return True
        for number, index in zip(numbers, at, strict=True):
            if self.result_at[number] >= 0 or self.call_at[number] > index:
                return False
            self.result_at[number] = index
        return True
