"""Running stead's one command in a Daytona sandbox."""

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stead.posix import COMMAND, TookTooLong
from stead_daytona.errors import BACKEND, translated

if TYPE_CHECKING:
    from daytona import AsyncSandbox

__all__ = ["run"]

_NET = 5
"""Seconds after which the daemon ends a question by itself, beyond those that are waited here."""


async def run(sandbox: "AsyncSandbox", variables: Mapping[str, str], *, seconds: float) -> str:
    """Runs it, and returns what it printed.

    The daemon would merge the streams, hold them in memory, and lose them at a timeout: what runs here are short questions
    whose answer is small. Sessions of the SDK add newlines, drop bytes and hang on `exit`.
    """
    try:
        async with asyncio.timeout(seconds):
            with translated("execute"):
                answer = await sandbox.process.exec(COMMAND, env=dict(variables), timeout=math.ceil(seconds) + _NET)
    except TimeoutError as error:
        raise TookTooLong(f"the sandbox gave no answer within {seconds:g} s", backend=BACKEND) from error
    return answer.result or ""
