"""A machine that is watched: the first to learn that it is gone tells the environment."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import aclosing

from stead.errors import EnvironmentLost
from stead.posix.machine import Machine

__all__ = ["Guard"]


class Guard:
    """Hands on to a machine, and its loss to a function that returns the error to raise."""

    def __init__(self, machine: Machine, lost: Callable[[EnvironmentLost], EnvironmentLost]) -> None:
        self._machine, self._lost = machine, lost

    async def run(self, variables: Mapping[str, str], *, seconds: float) -> str:
        """See `Machine.run`."""
        try:
            return await self._machine.run(variables, seconds=seconds)
        except EnvironmentLost as error:
            raise self._lost(error) from error

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """See `Machine.fetch`."""
        try:
            async with aclosing(self._machine.fetch(path)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except EnvironmentLost as error:
            raise self._lost(error) from error

    async def store(self, path: str, content: AsyncIterable[bytes]) -> None:
        """See `Machine.store`."""
        try:
            await self._machine.store(path, content)
        except EnvironmentLost as error:
            raise self._lost(error) from error
