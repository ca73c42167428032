"""Bugs that others have had with sandboxes, on both backends; those with commands are in `test_cases_commands.py`."""

import asyncio
import os
import re
import warnings
from contextlib import aclosing

import pytest
from providers import SCALE, run

from stead.errors import (
    AccessDenied,
    ConfigError,
    EnvironmentClosed,
    EnvironmentLost,
    Unavailable,
)
from stead.reducer import Reducer, ReducerConfig, ToolCall
from stead.results import LineRange
from stead.tools import toolset

_MIB = 1 << 20


def test_large_content_is_no_argument(provider):
    """B022: 300 KB written, read and edited come back equal, and no command that the service is asked to run exceeds 8 KiB."""
    payload = os.urandom(300_000)

    async def use() -> None:
        async with provider.environment() as env:
            await env.write_file("p.bin", payload)
            assert await env.read_file("p.bin") == payload
            await env.write_file("t.txt", "one\nmark\n")
            edited = await toolset(env)["EditFile"](path="t.txt", old_text="mark", new_text="n" * 200_000)
            assert edited["status"] == "ok"
            assert await env.read_file("t.txt") == b"one\n" + b"n" * 200_000 + b"\n"
            assert (await env.execute(f"# {'x' * 100_000}\necho ok")).stdout == "ok\n"

    run(use())
    assert 0 < provider.server.state()["longest_command"] <= 8 << 10


def test_printed_path_is_usable(provider):
    """B054: What `pwd` prints is a path for the file methods, and what they write is where commands run."""

    async def use() -> None:
        async with provider.environment() as env:
            folder = (await env.execute("pwd")).stdout.strip()
            assert folder == str(env.working_dir)
            await env.write_file(f"{folder}/fib.py", "x")
            await env.write_file("sub/y", "1")
            assert (await env.execute("cat fib.py sub/y")).stdout == "x1"
            assert (await env.execute('find "$HOME" -name fib.py | wc -l')).stdout.strip() == "1"

    run(use())


def test_vanished_sandbox_is_no_missing_file(provider):
    """B067: A sandbox that the provider takes away is EnvironmentLost everywhere, and an offload falls back to its policy."""

    async def use() -> None:
        async with provider.environment() as env:
            await env.write_file("notes.txt", "mine")
            reducer = Reducer(env, ReducerConfig(session_id="s", max_length_for_trunc=100))
            notice = await reducer.truncate(ToolCall("1", "Search", {}), "r" * 5_000)
            assert len(notice) < 5_000
            provider.server.expire(env.sandbox_id)
            for call in (env.read_file("notes.txt"), env.execute("ls"), env.write_file("a", "b")):
                with pytest.raises(EnvironmentLost) as caught:
                    await call
                assert not isinstance(caught.value, FileNotFoundError)
            kept = await reducer.truncate(ToolCall("2", "Search", {}), "s" * 5_000)
            assert kept == "s" * 5_000
            path = re.search(r"[^\s]*offloads/[^\s,;]*", notice)[0].rstrip(".")
            answer = await toolset(env)["ReadFile"](path=path)
            assert answer["status"] == "error"
            assert "gone" in answer["error"]

    run(use())


def test_everything_is_closed(provider):
    """B069: Closing twice, after a failed start, or while a stream is open leaves no connection, and never hides an error."""

    async def use() -> None:
        for _ in range(2):
            env = provider.environment()
            async with env:
                await env.write_file("f", b"x" * (16 * _MIB))
                stream = env.read_file_stream("f")
                await anext(stream)
                await env.close()
                with pytest.raises(EnvironmentClosed):
                    await anext(stream)
                await stream.aclose()
            await env.close()
        refused = provider.environment(api_key="wrong_key")
        with pytest.raises(AccessDenied):
            await refused.start()
        await refused.close()
        with pytest.raises(ZeroDivisionError):
            async with provider.environment():
                raise ZeroDivisionError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(use())
    assert provider.server.living() == {}
    assert provider.server.state()["open_streams"] == 0


def test_lifetime_is_not_a_request_timeout(provider_of):
    """B071: The lifetime goes to the provider in its own unit; a request's limit is another option."""
    provider = provider_of("e2b")

    async def use() -> None:
        async with provider.environment(timeout=3600, request_timeout=30) as env:
            await env.execute("true")
        async with provider.environment() as env:
            await env.execute("true")

    run(use())
    assert [created["timeout"] for created in provider.server.state()["created"]] == [3600, 300]


@pytest.mark.parametrize("value", [0, -1, None, float("nan"), float("inf"), True, "300"])
def test_impossible_lifetimes(provider_of, value):
    """B071: A lifetime of nothing, less, or no number is refused when the environment is made, with the option's name."""
    for name, option in (("e2b", "timeout"), ("daytona", "auto_stop"), ("daytona", "start_timeout")):
        with pytest.raises(ConfigError, match=f"{option} must be"):
            provider_of(name).environment(**{option: value})
    for name in ("e2b", "daytona"):
        with pytest.raises(ConfigError, match="request_timeout must be"):
            provider_of(name).environment(request_timeout=value)


def test_providers_limit_is_told(provider_of):
    """B071: A lifetime beyond the provider's limit is refused in the provider's words, and not silently replaced."""
    provider = provider_of("e2b")

    async def use() -> None:
        with pytest.raises(ConfigError, match="cannot be greater than 1 hours"):
            await provider.environment(timeout=10**9).start()
        async with provider.environment(timeout=60, keep_alive=False) as env:
            with pytest.raises(ConfigError, match="cannot be greater than 1 hours"):
                await env.execute("true", timeout=10_000)
            assert (await env.execute("echo ok", timeout=100)).stdout == "ok\n"

    run(use())


def test_path_is_data(provider):
    """B052: no name runs anything, and each is a name: quotes, substitutions, a dash in front, blanks, newlines."""
    names = [
        "a'; touch pwned; '",
        "$(touch pwned)",
        "`touch pwned`",
        "-n",
        "-rf",
        "a b\nc",
        '"; touch pwned; "',
        "*",
        "a\\",
    ]

    async def use() -> None:
        async with provider.environment() as env:
            read = toolset(env)["ReadFile"]
            for name in names:
                answer = await read(path=name, start_line=1, end_line=1)
                assert (answer["status"], "not found" in answer["error"]) == ("error", True)
            for name in names:
                await env.write_file(name, f"{name} here\n")
            for name in names:
                assert await env.read_file(name) == f"{name} here\n".encode()
                page = await env.read_lines(name, LineRange(start=1, end=1))
                assert page.lines == f"{name} here".split("\n", 1)[0]
            async with aclosing(env.list_files(".")) as entries:
                found = {entry.path.removeprefix(f"{env.working_dir}/") async for entry in entries}
            assert found - {".stead"} == set(names)
            for name in names:
                await env.delete_file(name)

    run(use())


def test_abandoned_streams_give_back_what_they_hold(provider, monkeypatch):
    """B072: left early, dropped, broken by the consumer, cancelled, or failing: nothing stays open, here or there."""
    monkeypatch.setattr("stead.posix.calls.pause_before", lambda attempt, error: 0.01)
    rounds = max(5, int(40 * SCALE))

    async def break_off(env) -> None:
        async with aclosing(env.read_file_stream("f")) as chunks:
            await anext(chunks)

    async def drop(env) -> None:
        env.read_file_stream("f")

    async def raise_in_between(env) -> None:
        with pytest.raises(ZeroDivisionError):
            async with aclosing(env.read_file_stream("f")) as chunks:
                async for _ in chunks:
                    raise ZeroDivisionError

    async def cancel(env) -> None:
        reading = asyncio.Event()

        async def read() -> None:
            async with aclosing(env.read_file_stream("f")) as chunks:
                await anext(chunks)
                reading.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(read())
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def use() -> None:
        async with provider.environment() as env:
            await env.write_file("f", b"x" * (12 * _MIB))
            for way in (break_off, drop, raise_in_between, cancel):
                await way(env)
                before = len(os.listdir("/proc/self/fd"))
                for _ in range(rounds):
                    await way(env)
                # A pool may hold one connection that it did not need before; it holds none for each round.
                assert len(os.listdir("/proc/self/fd")) <= before + 2, way.__name__
            await asyncio.sleep(0.5)
            assert provider.server.state()["open_streams"] == 0
            cut = [
                {"route": provider.start, "kind": "status", "status": 502, "skip": 1, "times": -1},
                {"route": provider.download, "kind": "cut", "after": 9, "times": -1},
            ]
            async with provider.environment(url=provider.fault_url(*cut), sandbox_id=env.sandbox_id) as broken:
                assert (await toolset(broken)["ReadFile"](path="f"))["status"] == "error"
                with pytest.raises(Unavailable):
                    await broken.read_file("f")
            await asyncio.sleep(0.5)
            assert provider.server.state()["open_streams"] == 0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(use())
