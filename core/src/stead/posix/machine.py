"""What a backend supplies so that the rest can be done by small shell scripts: run one, send a file, fetch a file."""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import Protocol

__all__ = ["COMMAND", "Machine"]

COMMAND = 'exec /bin/sh -c "$STEAD_SCRIPT" </dev/null 2>/dev/null'
"""The one command that a machine is ever asked to run. The script and all it works on are in variables."""


class Machine(Protocol):
    """A POSIX machine behind a service.

    Its errors are stead's own: `Unavailable` where trying again may help, `EnvironmentLost` where the machine is gone,
    `AccessDenied` where the service refused, `StreamInterrupted` where a body ended early.
    """

    async def run(self, variables: Mapping[str, str], *, seconds: float) -> str:
        """Runs `COMMAND` once and returns its standard output, which is ASCII but for what a login shell adds.

        Args:
            variables: Added to the environment of the command.
            seconds: How long the machine may take until the call is given up.
        """

    def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of a file, in bounded memory. Ends early only by an error.

        Args:
            path: Absolute and without links.
        """

    async def store(self, path: str, content: AsyncIterable[bytes]) -> None:
        """Writes a file in place, in bounded memory.

        Args:
            path: Absolute; its folder exists.
            content: Non-empty pieces.
        """
