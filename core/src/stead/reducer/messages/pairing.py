"""Which result answers which call. Ids are the provider's data, and not unique over a history."""

from collections.abc import Sequence

from stead.reducer.messages.codec import Call, Result, View

__all__ = ["Exchange", "Round", "pair_rounds"]


class Exchange:
    """One call and, if it was answered, its result.

    Attributes:
        call_index: Index of the entry that holds the call.
        call: The call.
        result_index: Index of the entry that holds the result; None while the call is pending or was never answered.
        result: The result, or None.
    """

    __slots__ = ("call", "call_index", "result", "result_index")

    def __init__(self, call_index: int, call: Call) -> None:
        self.call_index = call_index
        self.call = call
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


def pair_rounds(views: Sequence[View], *, splits_turns: bool = False) -> tuple[list[Round], list[tuple[int, Result]]]:
    """Pairs calls and results, and groups the calls by assistant turn.

    The nth call with an id in one turn takes the nth result with that id, up to the next turn that uses the id again.
    Where an id is missing, the tool's name stands for it, and where that is missing too, the order.

    Args:
        views: The views of a history, in its order.
        splits_turns: As `Codec.splits_turns`: neighbouring assistant entries are one turn.

    Returns:
        The rounds in order, and the results that answer no call (strays, duplicates), each with the index of its entry.
    """
    rounds: list[Round] = []
    strays: list[tuple[int, Result]] = []
    waiting: dict[str, list[Exchange]] = {}
    current: Round | None = None
    for index, (role, calls, results, *_) in enumerate(views):
        if calls:
            if current is None or not splits_turns:
                current = Round(index)
                rounds.append(current)
            _open(current, index, calls, waiting)
        elif role != "assistant":
            current = None
        for result in results:
            exchange = _answered_by(result, waiting)
            if exchange is None:
                strays.append((index, result))
            else:
                exchange.result_index, exchange.result = index, result
    return rounds, strays


def _open(turn: Round, index: int, calls: Sequence[Call], waiting: dict[str, list[Exchange]]) -> None:
    for call in calls:
        exchange = Exchange(index, call)
        turn.exchanges.append(exchange)
        key = call.id or _name_key(call.name)
        same = waiting.get(key)
        if same is not None and same[0].call_index >= turn.index:
            same.append(exchange)
        else:
            # What waits under this id belongs to an older turn and was never answered: the id starts anew, as newest.
            waiting.pop(key, None)
            waiting[key] = [exchange]


def _answered_by(result: Result, waiting: dict[str, list[Exchange]]) -> Exchange | None:
    key: str | None = result.id or _name_key(result.name or "")
    if key not in waiting and not result.id:
        key = _key_without_id(result.name, waiting)
    same = waiting.get(key) if key is not None else None
    if key is None or same is None:
        return None
    exchange = same.pop(0)
    if not same:
        del waiting[key]
    return exchange


def _name_key(name: str) -> str:
    return f"\0{name}"


def _key_without_id(name: str | None, waiting: dict[str, list[Exchange]]) -> str | None:
    """Where a call waits that a result without an id can answer: one without an id too, in the newest turn, first."""
    fitting = [key for key, same in waiting.items() if not name or same[0].call.name == name]

    def nearness(key: str) -> tuple[bool, int, int]:
        first = waiting[key][0]
        return key.startswith("\0"), first.call_index, -first.call.ordinal

    return max(fitting, key=nearness, default=None)
