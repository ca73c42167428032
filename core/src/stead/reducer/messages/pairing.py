"""Which result answers which call. Ids are the provider's data, and not unique over a history."""

from collections.abc import Iterable

from stead.reducer.messages.codec import Call, Result, View

__all__ = ["Exchange", "Pairing", "Round", "pair_rounds"]


class Exchange:
    """One call and, if it was answered, its result.

    Attributes:
        call_index: Index of the entry that holds the call.
        call: The call.
        result_index: Index of the entry that holds the result; None while the call is pending or was never answered.
        result: The result, or None.
        number: Which of the history's calls with this id it is, from 0.
    """

    __slots__ = ("call", "call_index", "number", "result", "result_index")

    def __init__(self, call_index: int, call: Call, number: int = 0) -> None:
        self.call_index = call_index
        self.call = call
        self.number = number
        self.result_index: int | None = None
        self.result: Result | None = None


class Round:
    """One assistant turn that calls tools.

    Attributes:
        index: Index of the first entry of the turn that holds a call.
        exchanges: The turn's calls, in their order.
    """

    __slots__ = ("exchanges", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.exchanges: list[Exchange] = []

    @property
    def complete(self) -> bool:
        """True if every call was answered."""
        return all(exchange.result is not None for exchange in self.exchanges)


class Pairing:
    """Pairs the calls and results of a history that grows, and groups the calls by assistant turn.

    The nth call with an id in one turn takes the nth result with that id, up to the next turn that uses the id again.
    Where an id is missing, the tool's name stands for it, and where that is missing too, the order.

    Attributes:
        rounds: The turns with calls, in order.
        strays: The results that answer no call (strays, duplicates), each with the index of its entry.
    """

    __slots__ = ("_current", "_seen", "_splits_turns", "_waiting", "rounds", "strays")

    def __init__(self, *, splits_turns: bool = False) -> None:
        self.rounds: list[Round] = []
        self.strays: list[tuple[int, Result]] = []
        self._splits_turns = splits_turns
        self._current: Round | None = None
        self._seen: dict[str | None, int] = {}
        # By id: the newest turn's exchange without a result, or several of them where one id has several calls.
        self._waiting: dict[str, Exchange | list[Exchange]] = {}

    def add(self, index: int, view: View) -> None:
        """Takes the next entry.

        Args:
            index: Its index in the history.
            view: Its view.
        """
        role, calls, results, *_ = view
        if calls:
            turn = self._current
            if turn is None or not self._splits_turns:
                turn = self._current = Round(index)
                self.rounds.append(turn)
            for call in calls:
                number = self._seen.get(call.id, 0)
                self._seen[call.id] = number + 1
                self._open(turn, Exchange(index, call, number))
        elif role != "assistant":
            self._current = None
        for result in results:
            exchange = self._answered_by(result)
            if exchange is None:
                self.strays.append((index, result))
            else:
                exchange.result_index, exchange.result = index, result

    def _open(self, turn: Round, exchange: Exchange) -> None:
        turn.exchanges.append(exchange)
        call = exchange.call
        key = call.id or _name_key(call.name)
        same = self._waiting.setdefault(key, exchange)
        if same is exchange:
            return
        first = same[0] if isinstance(same, list) else same
        if first.call_index < turn.index:
            # What waits under this id belongs to an older turn and was never answered: the id starts anew.
            self._waiting[key] = exchange
        elif isinstance(same, list):
            same.append(exchange)
        else:
            self._waiting[key] = [same, exchange]

    def _answered_by(self, result: Result) -> Exchange | None:
        key = result.id or _name_key(result.name or "")
        same = self._waiting.pop(key, None)
        if same is None and not result.id:
            key = _key_without_id(result.name, self._waiting) or key
            same = self._waiting.pop(key, None)
        if not isinstance(same, list):
            return same
        if len(same) > 1:
            self._waiting[key] = same[1:]
        return same[0]


def pair_rounds(views: Iterable[View], *, splits_turns: bool = False) -> tuple[list[Round], list[tuple[int, Result]]]:
    """Pairs a whole history (see `Pairing`).

    Args:
        views: The views of a history, in its order.
        splits_turns: As `Codec.splits_turns`: neighbouring assistant entries are one turn.

    Returns:
        The rounds, and the results that answer no call.
    """
    pairing = Pairing(splits_turns=splits_turns)
    for index, view in enumerate(views):
        pairing.add(index, view)
    return pairing.rounds, pairing.strays


def _name_key(name: str) -> str:
    return f"\0{name}"


def _key_without_id(name: str | None, waiting: dict[str, Exchange | list[Exchange]]) -> str | None:
    """Where a call waits that a result without an id can answer: one without an id too, in the newest turn, first."""

    def nearness(item: tuple[str, Exchange]) -> tuple[bool, int, int]:
        key, first = item
        return key.startswith("\0"), first.call_index, -first.call.ordinal

    firsts = [(key, same[0] if isinstance(same, list) else same) for key, same in waiting.items()]
    fitting = [(key, first) for key, first in firsts if not name or first.call.name == name]
    return max(fitting, key=nearness, default=(None, None))[0]
