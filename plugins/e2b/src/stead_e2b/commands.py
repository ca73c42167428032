"""Running stead's one command in an E2B sandbox."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stead.errors import SteadError
from stead.posix import COMMAND, TookTooLong
from stead_e2b.errors import BACKEND, translated

if TYPE_CHECKING:
    from e2b import AsyncCommandHandle, AsyncSandbox

__all__ = ["run"]

_LONGEST_OUTPUT = 64 << 20
_LEAVE_SECONDS = 2.0


async def run(sandbox: "AsyncSandbox", variables: Mapping[str, str], *, seconds: float) -> str:
    """Runs it, and returns what it printed.

    The SDK gets no timeout: its own fires in the wrong task on Python 3.12 and later, never on 3.11, leaves tasks behind
    when it is cancelled, and has the daemon kill the first process alone. The limit is kept here.
    """
    pieces: list[str] = []
    size = 0

    def take(piece: str) -> None:
        nonlocal size
        size += len(piece)
        if size <= _LONGEST_OUTPUT:
            pieces.append(piece)

    try:
        async with asyncio.timeout(seconds):
            with translated("execute"):
                handle = await sandbox.commands.run(
                    COMMAND,
                    background=True,
                    envs=dict(variables),
                    on_stdout=take,
                    timeout=0,
                    request_timeout=0,
                    retain_output=False,
                )
                await _end_of(handle)
    except TimeoutError as error:
        raise TookTooLong(f"the sandbox gave no answer within {seconds:g} s", backend=BACKEND) from error
    if size > _LONGEST_OUTPUT:
        raise SteadError(f"the sandbox answered with {size} characters", backend=BACKEND)
    return "".join(pieces)


async def _end_of(handle: "AsyncCommandHandle[None]") -> None:
    from e2b import CommandExitException

    try:
        await handle.wait()
    except CommandExitException:
        return  # the answer tells how it went
    finally:
        # A wait that is given up leaves the stream open; the command itself goes on, and is asked for again.
        await asyncio.wait({asyncio.ensure_future(handle.disconnect())}, timeout=_LEAVE_SECONDS)
