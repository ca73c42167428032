"""Shared by the tests of the local environment's commands."""

import asyncio
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from stead_local import LocalEnvironment

T = TypeVar("T")

_serials = count(int(time.time() * 1000) % 100_000_000)


def run(root: Path, use: Callable[[LocalEnvironment], Awaitable[T]], **options: Any) -> T:
    """Runs one coroutine on a fresh environment, closed afterwards."""

    async def main() -> T:
        async with LocalEnvironment(root, **options) as env:
            return await use(env)

    return asyncio.run(main())


def execute(root: Path, command: Any, /, *, options: Any = None, **arguments: Any) -> Any:
    """The result of one command on a fresh environment."""
    return run(root, lambda env: env.execute(command, **arguments), **(options or {}))


def serial() -> int:
    """A number of seconds to sleep that no other process has: the mark by which survivors are found."""
    return 100_000_000 + next(_serials)


def survivors(mark: int) -> list[str]:
    """Command lines that hold the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(mark) in line:
                found.append(line)
    return found


def nothing_left(env: LocalEnvironment) -> bool:
    """Whether every keeper has reported that it has no child left (ECHILD)."""
    held = env._commands._pool._held
    return not held.busy and not held.looking_after


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Waits for a condition; returns whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


def below_reaper(root: Path, code: str, *, patience: float = 5.0) -> dict[str, Any]:
    """Runs Python code in a process of its own, and reports what it left behind (see `reaper`).

    The code finds `asyncio`, `os`, `sys`, `Path`, `LocalEnvironment`, the modules beside this one, and the path `root`;
    what it prints is `output`.
    """
    script = root / "host.py"
    header = f"""
import asyncio, os, sys
from pathlib import Path
from stead_local import LocalEnvironment
sys.path.insert(0, {str(Path(__file__).parent)!r})
root = Path({str(root)!r})
"""
    script.write_text(header + textwrap.dedent(code))
    reaper = Path(__file__).with_name("reaper.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(reaper), str(patience), sys.executable, str(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    *output, report = done.stdout.splitlines() or [""]
    assert report.startswith("{"), done.stderr
    return {**json.loads(report), "output": "\n".join(output), "errors": done.stderr}
