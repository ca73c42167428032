"""Hundreds of operations through a proxy that breaks a third of them: nothing is lost, nothing wrong is a success."""

import asyncio
import os
import random
from contextlib import aclosing
from functools import partial
from typing import Any

from servers.fault_proxy import Fault, FaultProxy, Request
from stead.environment import Environment
from stead.errors import FileExists, FileMissing, SteadError

__all__ = ["survive"]

_WORKERS = 8


def _faults(answers: list[bytes], *, share: float, seed: int) -> list[Fault]:
    """One fault for each way in which a request can break; together they hit that share of the requests."""
    dice = random.Random(seed)
    ways: list[dict[str, Any]] = [{"action": "answer", "response": answer} for answer in answers]
    ways += [{"action": action, "after": after} for action in ("reset", "end") for after in (0, 10, 70_000)]
    ways += [{"action": "lose"}, {"action": "corrupt", "after": 20}]
    chance = share / len(ways)

    def hits(request: Request, action: str) -> bool:
        # Only a body that comes whole can be compared with its sum.
        if action == "corrupt" and (request.method != "GET" or "range" in request.headers or _describes(request)):
            return False
        return dice.random() < chance

    return [Fault(matches=partial(hits, action=way["action"]), **way) for way in ways]


def _describes(request: Request) -> bool:
    """Says whether an answer is about objects, and not the content of one: in S3's words, and in those of GCS."""
    return "list-type" in request.target or ("/storage/v1/" in request.target and "alt=media" not in request.target)


async def survive(
    env: Environment, proxy: FaultProxy, answers: list[bytes], *, operations: int, seed: int = 1
) -> dict[str, int]:
    """Makes random operations while connections break, and checks each answer against what was written.

    Args:
        env: An environment behind the proxy.
        proxy: The proxy.
        answers: Canned refusals that mean "later".
        operations: How many.
        seed: Of the choice of operations and faults.

    Returns:
        How many operations succeeded and how many failed with an error of ours.

    Raises:
        AssertionError: Something was lost, or something wrong was called a success.
    """
    world = _World(env, random.Random(seed))
    outcomes = {"succeeded": 0, "failed": 0}
    proxy.faults[:] = _faults(answers, share=0.3, seed=seed)

    async def work(worker: int) -> None:
        for turn in range(worker, operations, _WORKERS):
            path = f"{worker}/{world.dice.randrange(6)}"
            try:
                await world.operate(path, turn)
            except SteadError as error:
                assert not isinstance(error, (FileMissing, FileExists)), path
                outcomes["failed"] += 1
            else:
                outcomes["succeeded"] += 1

    try:
        await asyncio.gather(*(work(worker) for worker in range(_WORKERS)))
    finally:
        proxy.faults.clear()
    for path, possible in world.written.items():
        assert await world.content(path, 0) in possible, f"{path} has content that nobody wrote last"
    return outcomes


class _World:
    """What was written, and so what may be found: several things after a write of unknown outcome."""

    def __init__(self, env: Environment, dice: random.Random) -> None:
        self.env = env
        self.dice = dice
        self.written: dict[str, set[bytes | None]] = {}

    async def operate(self, path: str, turn: int) -> None:
        """Makes one operation, and checks its answer."""
        known = self.written.setdefault(path, {None})
        kind = self.dice.choice(["write", "write", "create", "delete", "read", "read", "range", "stat", "list"])
        if kind in ("write", "create"):
            await self.write(path, f"{path} {turn} ".encode() + os.urandom(self.dice.choice([5, 100_000])), kind, known)
        elif kind == "delete":
            self.written[path] = known | {None}
            try:
                await self.env.delete_file(path)
            except FileMissing:
                assert None in known
            self.written[path] = {None}
        elif kind in ("read", "range"):
            begin = 0 if kind == "read" else 3
            found = await self.content(path, begin)
            assert found in {None if item is None else item[begin:] for item in known}
        elif kind == "stat":
            assert await self.size(path) in {None if item is None else len(item) for item in known}
        else:
            await self.look_into(path.partition("/")[0])

    async def write(self, path: str, data: bytes, kind: str, known: set[bytes | None]) -> None:
        """Replaces or creates a file."""
        self.written[path] = known | {data}
        if kind == "write":
            await self.env.write_file(path, data)
        else:
            try:
                await self.env.write_file(path, data, if_absent=True)
            except FileExists:
                self.written[path] = known
                assert known != {None}
                return
            assert None in known
        self.written[path] = {data}

    async def content(self, path: str, begin: int) -> bytes | None:
        """What a file has from `begin` on; None if there is none."""
        try:
            async with aclosing(self.env.read_file_stream(path, offset=begin)) as chunks:
                return b"".join([chunk async for chunk in chunks])
        except FileMissing:
            return None

    async def size(self, path: str) -> int | None:
        """How large a file is; None if there is none."""
        try:
            return (await self.env.stat(path)).size
        except FileMissing:
            return None

    async def look_into(self, folder: str) -> None:
        """Lists a directory: what is surely there must be in it."""
        try:
            async with aclosing(self.env.list_files(folder)) as entries:
                listed = {entry.path.lstrip("/") async for entry in entries}
        except FileMissing:
            listed = set()
        for path, possible in self.written.items():
            if path.startswith(f"{folder}/") and None not in possible:
                assert path in listed, path
