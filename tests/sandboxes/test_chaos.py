"""Random faults under random work: every outcome is right or a typed error, nothing is silently lost, nothing keeps running."""

import asyncio
import os
import random
from contextlib import aclosing

import pytest
from providers import SCALE, run

from stead.errors import SteadError
from stead.results import LineRange

_MIB = 1 << 20
_NAMES = [f"f{n}" for n in range(8)]


def kinds_of(provider):
    """What may go wrong with any request of a sandbox: refused, dropped, lost, cut, late, noisy."""
    data = f"{provider.start}|{provider.download}|{provider.upload}"
    return [
        {"route": data, "kind": "status", "status": 502, "body": "<html>bad gateway</html>"},
        {"route": data, "kind": "status", "status": 503},
        {"route": data, "kind": "status", "status": 429, "headers": {"Retry-After": "1"}},
        {"route": data, "kind": "drop"},
        {"route": data, "kind": "lose_reply"},
        {"route": data, "kind": "slow", "seconds": 0.5},
        {"route": provider.download, "kind": "cut", "after": 70_000},
        {"route": provider.download, "kind": "cut", "after": 0},
        {"route": provider.download, "kind": "eof", "after": 1_000},
        {"route": provider.upload, "kind": "cut_upload", "after": 100_000},
        {"route": provider.start, "kind": "noise", "text": "Welcome!\r\n@0123 ok bAAAA @0123\r\n"},
        {"route": provider.start, "kind": "no_end"},
        {"route": provider.start, "kind": "cut", "after": 40},
    ]


class Work:
    """Random operations, and what each file and the log may hold afterwards."""

    def __init__(self, env, seed: int) -> None:
        self.env, self.dice = env, random.Random(seed)
        self.files: dict[str, set[bytes | None]] = {name: {None} for name in _NAMES}
        self.tokens: dict[str, bool] = {}
        self.failures: dict[str, int] = {}
        self.wrong: list[str] = []

    async def step(self, number: int) -> None:
        name = self.dice.choice(
            ["write", "write", "stream", "read", "read", "lines", "list", "delete", "run", "run", "slow"]
        )
        try:
            await getattr(self, name)(number)
        except SteadError as error:
            self.failures[type(error).__name__] = self.failures.get(type(error).__name__, 0) + 1

    def _content(self, number: int) -> bytes:
        size = self.dice.choice([0, 1, 1_000, 100_000, 300_000, 3 * _MIB])
        return (b"%06d\n" % number * (size // 7 + 1))[:size]

    async def write(self, number: int) -> None:
        name, content = self.dice.choice(_NAMES), self._content(number)
        self.files[name].add(content)
        await self.env.write_file(name, content)
        self.files[name] = {content}

    async def stream(self, number: int) -> None:
        name, content = self.dice.choice(_NAMES), self._content(number)

        async def pieces():
            for start in range(0, len(content), 50_000):
                yield content[start : start + 50_000]

        self.files[name].add(content)
        await self.env.write_file(name, pieces())
        self.files[name] = {content}

    async def read(self, number: int) -> None:
        name = self.dice.choice(_NAMES)
        try:
            found = await self.env.read_file(name)
        except FileNotFoundError:
            found = None
        self._check(f"{number} read {name}", name, found)

    async def lines(self, number: int) -> None:
        name = self.dice.choice(_NAMES)
        try:
            page = await self.env.read_lines(name, LineRange(start=2, end=3))
        except FileNotFoundError:
            self._check(f"{number} lines {name}", name, None)
            return
        totals = {c.count(b"\n") + (c[-1:] not in (b"", b"\n")) for c in self.files[name] if c is not None}
        if page.total_lines not in totals:
            self.wrong.append(f"{number} lines {name}: {page.total_lines} is not in {totals}")

    async def list(self, number: int) -> None:
        async with aclosing(self.env.list_files(".")) as entries:
            found = {entry.path.rpartition("/")[2] async for entry in entries} - {".stead", "log"}
        sure = {name for name, contents in self.files.items() if None not in contents}
        possible = {name for name, contents in self.files.items() if contents != {None}}
        if not sure <= found <= possible:
            self.wrong.append(f"{number} list: {found}, though there must be {sure} and may be {possible}")

    async def delete(self, number: int) -> None:
        name = self.dice.choice(_NAMES)
        before = set(self.files[name])
        self.files[name].add(None)
        try:
            await self.env.delete_file(name)
        except FileNotFoundError:
            if None not in before:
                self.wrong.append(f"{number} delete {name}: missing, though it was there")
        self.files[name] = {None}

    async def run(self, number: int) -> None:
        token = f"t{number:04d}"
        self.tokens[token] = False
        result = await self.env.execute(
            f"echo {token} >> log; echo out {token}; echo err {token} >&2; exit {number % 7}"
        )
        self.tokens[token] = True
        if (result.stdout, result.stderr, result.exit_code) != (f"out {token}\n", f"err {token}\n", number % 7):
            self.wrong.append(f"{number} run: {result}")

    async def slow(self, number: int) -> None:
        result = await self.env.execute(
            f"echo slow; (setsid sleep 77{number:04d} &) ; sleep 77{number:04d}", timeout=0.5
        )
        if not result.timed_out or result.stdout not in ("slow\n", ""):
            self.wrong.append(f"{number} slow: {result}")

    def _check(self, what: str, name: str, found: bytes | None) -> None:
        if found not in self.files[name]:
            told = None if found is None else (len(found), found[:20])
            self.wrong.append(f"{what}: {told} is none of {[c and (len(c), c[:20]) for c in self.files[name]]}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [pytest.param(300, marks=pytest.mark.soak), int(max(30, 300 * SCALE))])
def test_chaos(provider, count):
    """Random operations with random faults: right or a typed error each, and afterwards all is as it was told."""
    seed = int(os.environ.get("STEAD_TEST_SEED", "1"))
    server = provider.server

    async def use() -> Work:
        async with provider.environment(request_timeout=5) as env:
            work = Work(env, seed)
            server.ask("chaos", {"chance": 0.25, "seed": seed, "kinds": kinds_of(provider)})
            for number in range(count):
                await work.step(number)
            server.ask("chaos", {"chance": 0.0, "kinds": []})
            for name in _NAMES:
                await work.read(int(name[1:]))
            await settled(server)
            log = (await env.read_file("log")).decode().split() if any(work.tokens.values()) else []
            for token, certain in work.tokens.items():
                if log.count(token) > 1 or (certain and log.count(token) != 1):
                    work.wrong.append(f"{token} ran {log.count(token)} times")
            return work

    work = run(use())
    struck = server.state()["struck"]
    print(f"{provider.name}, seed {seed}: {count} operations, {struck} faults, failures {work.failures}")
    assert work.wrong == []
    assert struck > count / 6
    assert sum(work.failures.values()) < count / 2


async def settled(server) -> None:
    """Waits until no process is left in any sandbox: what was started has ended, at its deadline at the latest."""
    for _ in range(150):
        if not server.processes():
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"still running: {[command_line(pid) for pid in server.processes()]}")


def command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
