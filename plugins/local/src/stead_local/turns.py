"""Who waits while the parent keeper has as many forks before it as it can soon do."""

import asyncio

from stead_local.keepers import ParentKeeper

__all__ = ["Turns"]


class Turns:
    """Calls that wait, in their order. A keeper that becomes idle meanwhile serves one of them sooner than a fork."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._watched: ParentKeeper | None = None

    async def wait(self, parent: ParentKeeper) -> None:
        """Waits until there may be an idle keeper, or room for an order: the caller looks again."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if self._watched is None:
            self._watched = parent
            loop.add_reader(parent.control.fileno(), self._look)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had been called already
                self.call(1)
            raise
        finally:
            self._waiting.remove(turn)
            if not self._waiting:
                self._unwatch()

    def call(self, count: int) -> None:
        """Calls the first `count` that wait."""
        for turn in [turn for turn in self._waiting if not turn.done()][:count]:
            turn.set_result(None)

    def dismiss(self) -> None:
        """Calls all: the parent has died, or the environment closes."""
        self._unwatch()
        self.call(len(self._waiting))

    def _look(self) -> None:
        if self._watched is not None and self._watched.is_alive():
            self.call(self._watched.room)
        else:
            self.dismiss()

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched.control.fileno())
            self._watched = None
