"""The life of a sandbox behind an environment, with a provider that is this machine."""

import asyncio
from pathlib import Path

from local_machine import LocalMachine

from stead.capabilities import POSIX
from stead.errors import EnvironmentLost
from stead.posix import PlaceOptions
from stead.posix.sandbox import LifeOptions, SandboxEnvironment


class Box(LocalMachine):
    """A sandbox that can be made to die, or to answer late."""

    def __init__(self, home: Path, name: str) -> None:
        super().__init__(home)
        self.id, self.alive, self.asked, self.extended = name, True, 0, 0
        self.slow = asyncio.Event()
        self.slow.set()

    async def run(self, variables, *, seconds):
        await self.slow.wait()
        if not self.alive:
            raise EnvironmentLost("killed")
        return await super().run(variables, seconds=seconds)

    async def kill(self) -> None:
        self.alive = False

    async def extend(self, seconds: float) -> None:
        self.asked += 1
        if not self.alive:
            raise EnvironmentLost("killed")
        self.extended += 1


class Boxes:
    """A provider of them."""

    def __init__(self, home: Path) -> None:
        for folder in ("work", "tmp"):
            (home / folder).mkdir()
        self.home, self.made = home, []

    async def create(self, labels):
        self.made.append(Box(self.home, f"box{len(self.made)}"))
        return self.made[-1]

    async def attach(self, sandbox_id):
        raise EnvironmentLost("there is none of that name")

    async def close(self) -> None:
        pass


class Environment(SandboxEnvironment):
    """An environment in one of them."""

    backend = "boxes"
    capabilities = POSIX

    def __init__(self, boxes: Boxes, *, recreate: bool = True, keep_alive: bool = False) -> None:
        life = LifeOptions(sandbox_id=None, lifetime=0.6, keep_alive=keep_alive, recreate=recreate, on_close=None)
        super().__init__(PlaceOptions(root=str(boxes.home / "work")), life)
        self.boxes = boxes

    async def _open_provider(self):
        return self.boxes


async def extended(box: Box) -> bool:
    """Waits until a sandbox is extended twice more: three seconds at most."""
    until = box.extended + 2
    for _ in range(60):
        if box.extended >= until:
            return True
        await asyncio.sleep(0.05)
    return False


def test_replaced_sandbox_is_kept_alive(tmp_path):
    """With `recreate`, the sandbox that replaces a lost one is extended as the first was, whoever learned of the loss."""

    async def use() -> None:
        boxes = Boxes(tmp_path)
        async with Environment(boxes, keep_alive=True) as env:
            assert await extended(boxes.made[0])
            boxes.made[0].alive = False
            while env._lost is None:
                await asyncio.sleep(0.05)
            assert (await env.execute("echo hi")).stdout == "hi\n"
            assert await extended(boxes.made[1])
            await boxes.made[1].kill()
            for _ in range(2):
                try:
                    await env.stat(".")
                except EnvironmentLost:
                    continue
            assert await extended(boxes.made[2])

    asyncio.run(use())


def test_lost_sandbox_without_recreate_is_not_asked_again(tmp_path):
    """Without `recreate`, what keeps a sandbox alive ends with it."""

    async def use() -> None:
        boxes = Boxes(tmp_path)
        async with Environment(boxes, keep_alive=True, recreate=False) as env:
            boxes.made[0].alive = False
            await asyncio.wait_for(asyncio.shield(env._beat), 5)
            asked = boxes.made[0].asked
            await asyncio.sleep(0.5)
            assert (len(boxes.made), boxes.made[0].asked) == (1, asked)

    asyncio.run(use())


def test_calls_on_the_way_when_a_sandbox_is_replaced(tmp_path):
    """A call that was on its way in a sandbox that is lost and replaced meanwhile is EnvironmentLost: nobody closed anything."""

    async def use() -> None:
        boxes = Boxes(tmp_path)
        async with Environment(boxes) as env:
            await env.write_file("f", "x")
            boxes.made[0].slow.clear()
            calls = [asyncio.create_task(env.read_file("f")), asyncio.create_task(env.execute("true"))]
            await asyncio.sleep(0.1)
            env._note_lost(EnvironmentLost("killed"))
            assert await env.read_file("f") == b"x"
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, EnvironmentLost)
                assert "box0 is gone" in str(error)

    asyncio.run(use())
