"""What may go wrong on the way to a sandbox or in it, and what both backends make of it."""

import asyncio
import os
from contextlib import aclosing

import pytest
from providers import run

from stead.errors import AccessDenied, EnvironmentLost, FileMissing, SteadError, StreamInterrupted, Unavailable
from stead.tools import toolset

_MIB = 1 << 20


def test_noise_of_a_login_shell(provider):
    """A banner before every answer changes no byte of a file, no count of lines and no error."""

    async def use() -> None:
        noisy = provider.fault_url({"route": provider.start, "kind": "noise", "text": "Welcome!\r\n", "times": -1})
        async with provider.environment(url=noisy) as env:
            await env.write_file("f", b"\x00\xff\r\n" * 1000)
            assert await env.read_file("f") == b"\x00\xff\r\n" * 1000
            async with aclosing(env.read_file_stream("f", offset=4, length=4)) as chunks:
                assert b"".join([chunk async for chunk in chunks]) == b"\x00\xff\r\n"
            answer = await toolset(env)["ReadFile"](path="f", end_line=1)
            assert answer["total_lines"] == 1000
            with pytest.raises(FileMissing):
                await env.read_file("missing")

    run(use())


def test_permission_is_the_users(provider):
    """A file that the sandbox's user may not read is AccessDenied, though one daemon reads as root."""
    if os.geteuid() != 0:
        pytest.skip("the test server needs root to run commands as another user")

    async def use() -> None:
        async with provider.environment() as env:
            await env.write_file("a", "secret")
            await env.execute("chmod 000 a")
            with pytest.raises(AccessDenied):
                await env.read_file("a")

    run(use())


def test_full_disk(provider):
    """No room for a write is an error that says so, and the old content stays."""

    async def use() -> None:
        async with provider.environment() as env:
            await env.write_file("a", "old")
            url = provider.fault_url({"route": provider.upload, "kind": "full", "times": -1})
            async with provider.environment(url=url, sandbox_id=env.sandbox_id) as full:
                with pytest.raises(SteadError, match="space"):
                    await full.write_file("a", b"n" * _MIB)
            assert await env.read_file("a") == b"old"

    run(use())


def test_upload_that_breaks(provider):
    """An upload that breaks in the middle is repeated where it can be; what arrives is whole, or the old content stays."""

    async def pieces():
        for _ in range(8):
            yield b"s" * _MIB

    async def use() -> None:
        async with provider.environment() as env:
            await env.write_file("a", "old")
            once = {"route": provider.upload, "kind": "cut_upload", "after": 300_000, "times": 1}
            async with provider.environment(url=provider.fault_url(once), sandbox_id=env.sandbox_id) as broken:
                await broken.write_file("a", b"n" * (4 * _MIB))
            assert await env.read_file("a") == b"n" * (4 * _MIB)
            async with provider.environment(url=provider.fault_url(once), sandbox_id=env.sandbox_id) as broken:
                with pytest.raises(Unavailable):
                    await broken.write_file("a", pieces())
            assert await env.read_file("a") == b"n" * (4 * _MIB)

    run(use())


def test_slow_producer_is_no_stall(provider):
    """A streamed write whose producer takes longer than a request may take is fine: the service is not to blame."""

    async def slow():
        yield b"a"
        await asyncio.sleep(3)
        yield b"b"

    async def use() -> None:
        async with provider.environment(request_timeout=1.5) as env:
            await env.write_file("f", slow())
            assert await env.read_file("f") == b"ab"

    run(use())


def test_stopped_sandbox_is_woken_by_recreate(provider):
    """With `recreate`, a sandbox that was only stopped is used again, with its files."""

    async def use() -> None:
        events = []
        async with provider.environment(recreate=True, on_close="kill") as env:
            env.on_recreate = events.append
            await env.write_file("a", "kept")
            async with provider.environment(sandbox_id=env.sandbox_id, on_close="pause") as other:
                await other.execute("true")
            with pytest.raises(EnvironmentLost):
                await env.read_file("a")
            assert await env.read_file("a") == b"kept"
            assert events[0].created == events[0].lost

    run(use())


def test_without_the_bare_download(provider_of, monkeypatch):
    """Should Daytona's generated client change, the SDK's form is read instead; what that cuts off is told, not lost."""
    from daytona_toolbox_api_client_async import FileSystemApi

    monkeypatch.delattr(FileSystemApi, "download_file_without_preload_content")
    monkeypatch.setattr("stead.posix.reading.pause_before", lambda attempt, error: 0.01)

    async def use() -> None:
        async with provider_of("daytona").environment() as env:
            await env.write_file("f", b"0123456789" * _MIB)
            assert await env.read_file("f") == b"0123456789" * _MIB
            await env.write_file("f", b"x" * 100_000 + b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n" + b"y" * (9 * _MIB))
            with pytest.raises((StreamInterrupted, Unavailable)):
                await env.read_file("f")

    run(use())


def test_attached_to_be_paused(provider):
    """Pausing a sandbox that was made to be killed keeps it, with its files."""

    async def use() -> None:
        owner = provider.environment()
        await owner.write_file("a", "kept")
        async with provider.environment(sandbox_id=owner.sandbox_id, on_close="pause") as other:
            assert await other.read_file("a") == b"kept"
        async with provider.environment(sandbox_id=owner.sandbox_id) as last:
            assert await last.read_file("a") == b"kept"
        await owner.close()

    run(use())


def test_temporary_files_are_removed(provider):
    """After a command that removes all temporary files, which tells its own result, files and commands go on as before."""

    async def use() -> None:
        async with provider.environment() as env:
            temporary = env._caller.place.scratch.rpartition("/")[0]
            for _ in range(2):
                result = await env.execute(f"rm -rf {temporary}/*; echo cleaned; exit 3", timeout=20)
                assert (result.stdout, result.exit_code) == ("cleaned\n", 3)
                await env.write_file("a", "new")
                assert await env.read_file("a") == b"new"
                await env.execute(f"rm -rf {temporary}/*")
                assert (await env.execute("cat", stdin="in")).stdout == "in"

    run(use())
