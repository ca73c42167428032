"""Shared by the tests of the local environment's files."""

import asyncio
import multiprocessing
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from stead_local import LocalEnvironment

T = TypeVar("T")


def run(root: Path, use: Callable[[LocalEnvironment], Awaitable[T]]) -> T:
    """Runs one coroutine on a fresh environment, closed afterwards."""

    async def main() -> T:
        async with LocalEnvironment(root) as env:
            return await use(env)

    return asyncio.run(main())


def tree(folder: Path) -> list[str]:
    """Every name below a folder, sorted."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def open_descriptors() -> int:
    """How many descriptors this process holds."""
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))


def run_as_nobody(root: Path, use: Callable[[LocalEnvironment], Awaitable[T]]) -> T:
    """Runs one coroutine in a child that is not root, since root may do everything."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def child() -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        results.put(run(root, use))

    process = context.Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    return results.get()
