"""Laws about what an environment says of itself: declarations, and what is left of it."""

from contextlib import aclosing

import pytest

from stead.conformance.folder import Folder
from stead.conformance.kit import LawSettings
from stead.conformance.law import law
from stead.environment import Environment
from stead.errors import Unsupported

__all__ = ["MetaLaws"]


class MetaLaws(LawSettings):
    """Group L: the gate in both directions. A lie about an operation fails here, whichever way it goes."""

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
