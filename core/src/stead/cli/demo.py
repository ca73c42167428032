"""`stead demo`: the main job in one run.

A tool returns far too much, the model gets a notice and reads back by lines; then old results are cleared.
"""

import asyncio
import re
import tempfile
from typing import Annotated

import typer

from stead.cli.common import JsonOption, print_json
from stead.errors import SteadError

__all__ = ["demo"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def demo(
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the tool's result: 200MB, 50M, 1GB.")] = "200MB",
    turns: Annotated[int, typer.Option(min=0, max=10_000, help="Turns that the agent goes on for.")] = 200,
    json: JsonOption = False,
) -> None:
    """Show the main job: a huge tool result becomes a notice, its lines are read back, and old results are cleared.

    Everything runs on the local backend, in a temporary folder that is removed at the end.
    """
    from stead.cli.demo_run import Run, as_data, play, print_summary  # late: no other command needs tools and reducer

    wanted = _bytes(size)
    run = Run(quiet=json)
    with tempfile.TemporaryDirectory(prefix="stead-demo-") as folder:
        asyncio.run(play(run, wanted, turns, folder))
    if json:
        print_json(as_data(run))
    else:
        print_summary(run)
    if not run.exact:
        raise SteadError("what was read back is not what the tool returned")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size; write 200MB, 50M or 1GB", param_hint="--size")
    return int(float(match[1]) * _UNITS[match[2].upper()])
