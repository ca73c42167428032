"""Laws about the life of an environment: building, starting, closing."""

import asyncio
import inspect
import pickle
import threading
from contextlib import aclosing
from typing import Any

import pytest

from stead.capabilities import Capabilities
from stead.conformance.audit import construction_io
from stead.conformance.doors import Faults
from stead.conformance.folder import Folder
from stead.conformance.kit import Kit
from stead.conformance.law import Locked, law
from stead.conformance.settings import LawSettings
from stead.conformance.streams import collect
from stead.environment import Environment
from stead.errors import EnvironmentClosed, SteadError

__all__ = ["LifeLaws"]

_METHODS = ("start", "close", "read_file", "write_file", "stat", "delete_file", "read_lines", "execute")
_STREAMS = ("read_file_stream", "list_files", "execute_stream")


class LifeLaws(LawSettings):
    """Group A: shape and life."""

    @law("A1", started=False)
    async def test_life_members(self, env: Environment) -> None:
        """Every member of the contract is there, asynchronous, and takes the contract's arguments."""
        for name in (*_METHODS, *_STREAMS):
            theirs, ours = getattr(type(env), name), getattr(Environment, name)
            wrong_kind = name in _METHODS and not inspect.iscoroutinefunction(theirs)
            assert not wrong_kind, f"{name} is not an async def"
            have, need = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
            takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in have.values())
            lacking = [n for n in need if (have[n].default != need[n].default if n in have else not takes_any)]
            assert not lacking, f"{name} lacks, or has another default for, {', '.join(lacking)}"

    @law("A2", started=False)
    async def test_life_construction_does_no_io(self, env: Environment, kit: Kit) -> None:
        """Building an instance opens no file, starts no process and needs no network."""
        assert construction_io(kit.audited, env) == []

    @law("A3", started=False)
    async def test_life_first_use_starts(self, env: Environment, here: Folder) -> None:
        """An environment that nobody started starts itself when it is first used."""
        await env.write_file(here / "a.txt", "first")
        assert await env.read_file(here / "a.txt") == b"first"

    @law("A3", started=False)
    async def test_life_start_twice(self, env: Environment, here: Folder) -> None:
        """Starting a started environment changes nothing."""
        await env.start()
        await env.write_file(here / "a.txt", "kept")
        await env.start()
        assert await env.read_file(here / "a.txt") == b"kept"

    @law("A4")
    async def test_life_close_twice(self, env: Environment) -> None:
        """Closing a closed environment is fine."""
        await env.close()
        await env.close()

    @law("A4", started=False)
    async def test_life_close_unstarted(self, env: Environment) -> None:
        """Closing an environment that was never started is fine, and it then refuses to start."""
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await env.start()

    @law("A4", started=False)
    async def test_life_close_after_failed_start(self, faulty: Faults) -> None:
        """Closing an environment whose start failed is fine."""
        broken = faulty("unavailable")
        with pytest.raises(SteadError):
            await broken.start()
            await broken.read_file("any.txt")
        await broken.close()

    @law("A5")
    async def test_life_closed_refuses_files(self, env: Environment, here: Folder) -> None:
        """After close, every file method fails with EnvironmentClosed."""
        await env.write_file(here / "a.txt", "x")
        await env.close()
        calls: list[Any] = [env.read_file(here / "a.txt"), env.write_file(here / "b.txt", "x"), env.start()]
        calls += [env.stat(here / "a.txt")] if env.capabilities.stat else []
        calls += [env.delete_file(here / "a.txt")] if env.capabilities.delete_file else []
        for call in calls:
            with pytest.raises(EnvironmentClosed):
                await call

    @law("A5", needs="list_files")
    async def test_life_closed_refuses_listing(self, env: Environment, here: Folder) -> None:
        """After close, listing fails with EnvironmentClosed at its first step."""
        await here.make(env)
        await env.close()
        with pytest.raises(EnvironmentClosed):
            async with aclosing(env.list_files(here.path)) as entries:
                await anext(entries)

    @law("A5", needs="execute")
    async def test_life_closed_refuses_commands(self, env: Environment) -> None:
        """After close, a command fails with EnvironmentClosed."""
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await env.execute("true")

    @law("A6", started=False)
    async def test_life_exit_closes(self, env: Environment) -> None:
        """Leaving `async with` closes."""
        async with env as entered:
            assert entered is env
        await _refuses(env)

    @law("A6", started=False)
    async def test_life_error_closes(self, env: Environment) -> None:
        """An error in `async with` closes and passes unchanged."""
        with pytest.raises(ZeroDivisionError):
            async with env:
                raise ZeroDivisionError
        await _refuses(env)

    @law("A6", started=False)
    async def test_life_cancel_closes(self, env: Environment) -> None:
        """A cancellation in `async with` closes and passes on."""
        inside = asyncio.Event()

        async def hold() -> None:
            async with env:
                inside.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(hold())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _refuses(env)

    @law("A7", started=False)
    async def test_life_ten_first_uses(self, env: Environment, here: Folder) -> None:
        """Ten concurrent first uses share one start: each sees what the others wrote."""
        names = [here / f"{n}.txt" for n in range(10)]
        await asyncio.gather(*(env.write_file(name, name) for name in names))
        assert [await env.read_file(name) for name in names] == [name.encode() for name in names]

    @law("A8", started=False)
    async def test_life_capabilities_plain(self, env: Environment) -> None:
        """Capabilities are a plain value, the same before and after start."""
        before = env.capabilities
        assert isinstance(before, Capabilities)
        assert pickle.loads(pickle.dumps(before)) == before  # noqa: S301  # our own bytes
        await env.start()
        assert env.capabilities == before

    @law("A9", started=False)
    async def test_life_working_dir_before_start(self, env: Environment) -> None:
        """The working directory is absolute, readable before start, and the same after it."""
        before = env.working_dir
        assert before.is_absolute()
        await env.start()
        assert env.working_dir == before

    @law("A10")
    async def test_life_second_loop(self, env: Environment, here: Folder, kit: Kit) -> None:
        """Another event loop can use the environment, or is refused clearly: it neither hangs nor gets something else."""
        await env.write_file(here / "a.txt", "loop")
        outcome: list[Any] = []

        def use() -> None:
            try:
                outcome.append(asyncio.run(asyncio.wait_for(env.read_file(here / "a.txt"), 5)))
            except Exception as error:  # noqa: BLE001  # which error it is, is what the law asks
                outcome.append(error)

        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        await asyncio.to_thread(thread.join, 6 + kit.settings.margin)
        assert outcome and (outcome[0] == b"loop" or isinstance(outcome[0], SteadError)), outcome

    @law("A11")
    async def test_life_no_secret_shown(self, env: Environment, here: Folder) -> None:
        """No secret of the environment stands in its repr or in its errors."""
        secrets = _secrets_of(env)
        if not secrets:
            raise Locked("no attribute of the environment is named as a secret")
        with pytest.raises(SteadError) as caught:
            await env.read_file(here / "missing.txt")
        shown = [repr(env), str(env), str(caught.value), repr(caught.value)]
        assert not [text for text in shown if any(secret in text for secret in secrets)]


async def _refuses(env: Environment) -> None:
    with pytest.raises(EnvironmentClosed):
        await collect(env.read_file_stream("any.txt"))


def _secrets_of(env: Environment) -> list[str]:
    words = ("secret", "token", "key", "password", "credential")
    holders = [vars(env), *(vars(value) for value in vars(env).values() if hasattr(value, "__dict__"))]
    named = ((name.lower(), value) for holder in holders for name, value in holder.items())
    texts = ((name, getattr(value, "get_secret_value", lambda value=value: value)()) for name, value in named)
    return [text for name, text in texts if isinstance(text, str) and len(text) > 5 and any(w in name for w in words)]
