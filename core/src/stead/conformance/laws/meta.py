"""Laws about what an environment says of itself: declarations, and what is left of it."""

import asyncio
from contextlib import aclosing

import pytest

from stead.conformance.folder import Folder
from stead.conformance.held import child_processes, open_files
from stead.conformance.law import Locked, law
from stead.conformance.settings import LawSettings
from stead.environment import Environment
from stead.errors import Unsupported

__all__ = ["MetaLaws"]


class MetaLaws(LawSettings):
    """Group L: the gate in both directions. A lie about an operation fails here, whichever way it goes."""

    @law("A9", started=False)
    async def test_declares_backend(self, env: Environment) -> None:
        """The plugin says its name, contract and options without credentials, and its environments claim no more."""
        if self.backend is None:
            raise Locked("the attribute `backend` names no backend")
        from stead.registry import load_backend, option_table

        spec = load_backend(self.backend)
        assert spec.name == self.backend
        assert option_table(self.backend).options is not None
        assert set(env.capabilities.declared()) <= set(spec.capabilities.declared())

    @law("G30")
    async def test_declares_execute(self, env: Environment) -> None:
        """`execute` works if it is declared, and raises Unsupported at once if it is not."""
        if env.capabilities.execute:
            assert (await env.execute("true")).exit_code == 0
            return
        with pytest.raises(Unsupported):
            await env.execute("true")

    @law("L3")
    async def test_declares_execute_stream(self, env: Environment) -> None:
        """`execute_stream` works if it is declared, and raises Unsupported at the call or first step if it is not."""
        if env.capabilities.execute_stream:
            async with aclosing(env.execute_stream("true")) as items:
                assert [item async for item in items]
            return
        with pytest.raises(Unsupported):
            async with aclosing(env.execute_stream("true")) as items:
                await anext(items)

    @law("L3")
    async def test_declares_stat(self, env: Environment, here: Folder) -> None:
        """`stat` works if it is declared, and raises Unsupported if it is not."""
        await env.write_file(here / "a", "x")
        if env.capabilities.stat:
            assert (await env.stat(here / "a")).size == 1
            return
        with pytest.raises(Unsupported):
            await env.stat(here / "a")

    @law("L3")
    async def test_declares_list_files(self, env: Environment, here: Folder) -> None:
        """`list_files` works if it is declared, and raises Unsupported at the call or first step if it is not."""
        await here.make(env)
        if env.capabilities.list_files:
            async with aclosing(env.list_files(here.path)) as entries:
                assert (await anext(entries)).kind == "file"
            return
        with pytest.raises(Unsupported):
            async with aclosing(env.list_files(here.path)) as entries:
                await anext(entries)

    @law("L3")
    async def test_declares_delete_file(self, env: Environment, here: Folder) -> None:
        """`delete_file` works if it is declared, and raises Unsupported, deleting nothing, if it is not."""
        await env.write_file(here / "a", "x")
        if env.capabilities.delete_file:
            await env.delete_file(here / "a")
            return
        with pytest.raises(Unsupported):
            await env.delete_file(here / "a")
        assert await env.read_file(here / "a") == b"x"

    @law("L3")
    async def test_declares_create_only(self, env: Environment, here: Folder) -> None:
        """`if_absent` works if `create_only` is declared, and raises Unsupported, writing nothing, if it is not."""
        await env.write_file(here / "a", "x")
        if env.capabilities.create_only:
            await env.write_file(here / "b", "y", if_absent=True)
            return
        with pytest.raises(Unsupported):
            await env.write_file(here / "a", "y", if_absent=True)
        assert await env.read_file(here / "a") == b"x"

    @law("L3")
    async def test_declares_conditional_write(self, env: Environment, here: Folder) -> None:
        """`if_version` works if `conditional_write` is declared, and raises Unsupported, writing nothing, if not."""
        info = await env.write_file(here / "a", "x")
        if env.capabilities.conditional_write:
            await env.write_file(here / "a", "y", if_version=info.version)
            return
        with pytest.raises(Unsupported):
            await env.write_file(here / "a", "y", if_version=info.version or "1")
        assert await env.read_file(here / "a") == b"x"

    @law("L2", imports="stead.conformance.machine")
    async def test_agrees_with_memory(self, env: Environment, here: Folder) -> None:
        """Random sequences of file calls get the answers that the in-memory environment gives."""
        try:
            from stead.conformance.machine import compare_with_memory
        except ModuleNotFoundError as error:
            raise Locked(f"needs {error.name}: pip install 'stead[conformance]'") from None
        await compare_with_memory(env, here)

    @law("L4", started=False)
    async def test_leaves_nothing(self, env: Environment, here: Folder) -> None:
        """After close, no descriptor, child process or task of the environment is left in this process."""
        before = open_files(), child_processes(), asyncio.all_tasks()
        async with env:
            await env.write_file(here / "a", b"x" * (1 << 20))
            async with aclosing(env.read_file_stream(here / "a")) as chunks:
                await anext(chunks)
            if env.capabilities.execute:
                await env.execute("sleep 5 & echo x")
        assert (open_files(), child_processes(), asyncio.all_tasks()) == before
