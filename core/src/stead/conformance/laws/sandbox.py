"""Laws about environments whose machine is a sandbox of a provider: made, attached to, kept alive, lost, let go."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from stead.conformance.doors import SandboxDoor
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.errors import EnvironmentLost, SteadError, Unavailable

__all__ = ["SandboxLaws"]


class SandboxLaws(LawSettings):
    """Group J: remote sandboxes. They make environments of their own."""

    @law("J1", started=False)
    async def test_sandbox_attach(self, sandboxes: SandboxDoor) -> None:
        """An environment that attaches by id sees the files of the one that made the sandbox."""
        async with sandboxes.environment() as first:
            await first.write_file("a.txt", "shared")
            async with sandboxes.environment(sandbox_id=first.sandbox_id) as second:
                assert await second.read_file("a.txt") == b"shared"
                await second.write_file("b.txt", "back")
            assert await first.read_file("b.txt") == b"back"

    @law("J2", started=False)
    async def test_sandbox_attach_to_dead(self, sandboxes: SandboxDoor) -> None:
        """Attaching to a sandbox that was destroyed is EnvironmentLost, and makes no new one."""
        async with sandboxes.environment() as made:
            dead = made.sandbox_id
        with pytest.raises(EnvironmentLost):
            await sandboxes.environment(sandbox_id=dead).start()
        assert sandboxes.living() == set()

    @law("J3", started=False)
    async def test_sandbox_reference(self, sandboxes: SandboxDoor) -> None:
        """The reference of an environment survives JSON, attaches to its sandbox, and holds no secret."""
        async with sandboxes.environment() as made:
            await made.write_file("a.txt", "kept")
            text = json.dumps(made.reference)
            assert sandboxes.secret not in text
            async with sandboxes.environment(**json.loads(text)["options"]) as again:
                assert again.sandbox_id == made.sandbox_id
                assert await again.read_file("a.txt") == b"kept"

    @law("J4", started=False)
    async def test_sandbox_expired(self, sandboxes: SandboxDoor) -> None:
        """A sandbox that has expired is EnvironmentLost for every call, never a missing file, a result or a new sandbox."""
        async with sandboxes.environment() as env:
            await env.write_file("a.txt", "x")
            sandboxes.expire(env.sandbox_id)
            for call in (env.read_file("a.txt"), env.execute("true"), env.write_file("b.txt", "y"), env.stat("a.txt")):
                with pytest.raises(EnvironmentLost):
                    await call
        assert sandboxes.living() == set()

    @law("J5", started=False)
    async def test_sandbox_recreated(self, sandboxes: SandboxDoor) -> None:
        """With `recreate` the loss is still told, by an error and an event; afterwards a new sandbox is used."""
        events: list[Any] = []
        async with sandboxes.environment(recreate=True) as env:
            env.on_recreate = events.append
            lost = env.sandbox_id
            await env.write_file("a.txt", "x")
            sandboxes.expire(lost)
            with pytest.raises(EnvironmentLost):
                await env.read_file("a.txt")
            with pytest.raises(FileNotFoundError):
                await env.read_file("a.txt")
            assert (await env.execute("echo works")).stdout == "works\n"
            assert [(event.lost, event.created) for event in events] == [(lost, env.sandbox_id)]
            assert sandboxes.living() == {env.sandbox_id} != {lost}

    @law("J6", started=False)
    async def test_sandbox_kept_alive(self, sandboxes: SandboxDoor) -> None:
        """With keep-alive an idle sandbox outlives its lifetime, by one call every third of it."""
        async with sandboxes.environment(keep_alive=True, lifetime=3) as env:
            await env.write_file("a.txt", "x")
            before = sandboxes.keep_alive_calls()
            await asyncio.sleep(7)
            assert sandboxes.keep_alive_calls() - before <= 8
            assert await env.read_file("a.txt") == b"x"

    @law("J6", started=False)
    async def test_sandbox_not_kept_alive(self, sandboxes: SandboxDoor) -> None:
        """Without keep-alive an idle sandbox ends at its lifetime, and no call is made for it."""
        async with sandboxes.environment(keep_alive=False, lifetime=2) as env:
            await env.write_file("a.txt", "x")
            before = sandboxes.keep_alive_calls()
            await asyncio.sleep(4)
            assert sandboxes.keep_alive_calls() == before
            with pytest.raises(EnvironmentLost):
                await env.read_file("a.txt")

    @law("J7", started=False)
    async def test_sandbox_close_policies(self, sandboxes: SandboxDoor) -> None:
        """Closing kills, pauses or keeps as `on_close` says; by default it kills what it made and keeps what it got."""
        for options, stays in (({}, False), ({"on_close": "kill"}, False), ({"on_close": "keep"}, True)):
            async with sandboxes.environment(**options) as env:
                await env.execute("true")
            assert (env.sandbox_id in sandboxes.living()) == stays
        async with sandboxes.environment(sandbox_id=env.sandbox_id) as again:
            await again.execute("true")
        assert env.sandbox_id in sandboxes.living()
        async with sandboxes.environment(sandbox_id=env.sandbox_id, on_close="kill") as last:
            await last.execute("true")
        assert sandboxes.living() == set()

    @law("J8", started=False)
    async def test_sandbox_failed_start(self, sandboxes: SandboxDoor) -> None:
        """A start that fails after the sandbox was made, or whose answer never came, leaves no sandbox behind."""
        for fault in ("unusable", "unanswered"):
            env = sandboxes.faulty(fault)
            with pytest.raises(SteadError):
                await env.start()
            await env.close()
            assert sandboxes.living() == set(), fault

    @law("J8", started=False)
    async def test_sandbox_cancelled_start(self, sandboxes: SandboxDoor) -> None:
        """A start that is cancelled, however far it is, leaves no sandbox behind."""
        for seconds in (0.0, 0.02, 0.1, 0.3):
            env = sandboxes.faulty("slow")
            task = asyncio.ensure_future(env.start())
            await asyncio.sleep(seconds)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await env.close()
            assert sandboxes.living() == set()

    @law("J9", started=False)
    async def test_sandbox_rate_limit(self, sandboxes: SandboxDoor) -> None:
        """A creation that is told to come back later does so, and makes one sandbox."""
        async with sandboxes.faulty("throttled") as env:
            assert (await env.execute("echo made")).stdout == "made\n"
            assert sandboxes.living() == {env.sandbox_id}

    @law("J10", started=False)
    async def test_sandbox_quota(self, sandboxes: SandboxDoor) -> None:
        """A quota that is used up is an error with the provider's words, not a missing file and not a retry for ever."""
        env = sandboxes.faulty("quota")
        with pytest.raises(SteadError) as caught:
            await env.start()
        assert not isinstance(caught.value, (FileNotFoundError, EnvironmentLost))
        assert sandboxes.quota_words in str(caught.value)

    @law("J11", started=False)
    async def test_sandbox_paused(self, sandboxes: SandboxDoor) -> None:
        """A paused sandbox has its files when it is attached to again."""
        async with sandboxes.environment(on_close="pause") as env:
            await env.write_file("a.txt", "kept")
        assert env.sandbox_id in sandboxes.living()
        async with sandboxes.environment(sandbox_id=env.sandbox_id, on_close="kill") as again:
            assert await again.read_file("a.txt") == b"kept"

    @law("J12", started=False)
    async def test_sandbox_clean_up(self, sandboxes: SandboxDoor) -> None:
        """Listing and removing touch only the sandboxes that carry stead's label."""
        foreign = sandboxes.foreign()
        async with sandboxes.environment(on_close="keep") as env:
            ours = env.sandbox_id
        other = sandboxes.environment()
        assert {info.id for info in await other.list_sandboxes()} == {ours}
        with pytest.raises(SteadError):
            await other.remove_sandbox(foreign)
        await other.remove_sandbox(ours)
        assert sandboxes.living() == {foreign}

    @law("A7", started=False)
    async def test_sandbox_one_start(self, sandboxes: SandboxDoor) -> None:
        """Ten concurrent first uses make one sandbox."""
        env = sandboxes.environment()
        results = await asyncio.gather(*(env.execute(f"echo {n}") for n in range(10)))
        assert [result.stdout for result in results] == [f"{n}\n" for n in range(10)]
        assert sandboxes.living() == {env.sandbox_id}
        await env.close()

    @law("G28", started=False)
    async def test_sandbox_lost_midway(self, sandboxes: SandboxDoor) -> None:
        """A sandbox that ends while a command runs is EnvironmentLost or Unavailable, soon, not a timeout and not a result."""
        async with sandboxes.environment() as env:
            task = asyncio.ensure_future(env.execute("sleep 60", timeout=50))
            await asyncio.sleep(1)
            sandboxes.expire(env.sandbox_id)
            with pytest.raises((EnvironmentLost, Unavailable)):
                await asyncio.wait_for(task, 30)
