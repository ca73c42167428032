"""Bugs that others have had with sandboxes, on both backends."""

import asyncio
import os
import re
import time
import warnings
from contextlib import aclosing

import pytest
from providers import run

from stead.errors import (
    AccessDenied,
    ConfigError,
    EnvironmentClosed,
    EnvironmentLost,
    FileMissing,
    SteadError,
    Unavailable,
)
from stead.reducer import Reducer, ReducerConfig, ToolCall
from stead.tools import toolset

_MIB = 1 << 20


def test_large_content_is_no_argument(provider):
    """300 KB written, read and edited come back equal, and no command that the service is asked to run exceeds 8 KiB."""
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
    """What `pwd` prints is a path for the file methods, and what they write is where commands run."""

    async def use() -> None:
        async with provider.environment() as env:
            folder = (await env.execute("pwd")).stdout.strip()
            assert folder == str(env.working_dir)
            await env.write_file(f"{folder}/fib.py", "x")
            await env.write_file("sub/y", "1")
            assert (await env.execute("cat fib.py sub/y")).stdout == "x1"
            assert (await env.execute("find / -name fib.py -newer /proc/1 2>/dev/null | wc -l")).stdout.strip() == "1"

    run(use())


def test_timeout_is_a_result(provider):
    """A command that times out gives what it printed, its process is gone, and the next one works."""

    async def use() -> None:
        async with provider.environment() as env:
            began = time.monotonic()
            result = await env.execute("echo a; sleep 60", timeout=0.5)
            assert (result.timed_out, result.stdout, result.exit_code) == (True, "a\n", 124)
            assert time.monotonic() - began < 4
            assert (await env.execute("pgrep -f 'sleep 6[0]' | wc -l")).stdout.strip() == "0"

    run(use())


def test_streams_apart(provider):
    """Both streams come back apart, though one of the services merges them."""

    async def use() -> None:
        async with provider.environment() as env:
            result = await env.execute("echo 1; echo err >&2")
            assert (result.stdout, result.stderr) == ("1\n", "err\n")
            none = await env.execute("true")
            assert (none.stdout, none.stderr) == ("", "")

    run(use())


def test_vanished_sandbox_is_no_missing_file(provider):
    """A sandbox that the provider takes away is EnvironmentLost everywhere, and an offload falls back to its policy."""

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
    """Closing twice, after a failed start, or while a stream is open leaves no connection, and never hides an error."""

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


def test_lost_daemon_is_no_result(provider):
    """A daemon that answers 502 is an error that names the backend: no result, no timeout, and nothing runs twice."""

    async def use() -> None:
        async with provider.environment() as env:
            dead = provider.fault_url(
                {
                    "route": provider.start,
                    "kind": "status",
                    "status": 502,
                    "body": "bad gateway",
                    "skip": 1,
                    "times": -1,
                }
            )
            async with provider.environment(url=dead, sandbox_id=env.sandbox_id) as broken:
                for call in (broken.execute("echo x >> ran"), broken.read_file("ran")):
                    with pytest.raises(Unavailable) as caught:
                        await call
                    assert caught.value.backend == provider.name
            with pytest.raises(FileMissing):
                await env.read_file("ran")

    run(use())


@pytest.mark.parametrize("timeout", [1, 0.5])
def test_deadline_is_ours(provider, timeout):
    """A service that ignores the timeout, or says that it took too long, still gives a timed-out result in time."""
    kinds = [{"kind": "stall", "seconds": 60}]
    if provider.name == "daytona":
        kinds += [{"kind": "execution_timeout"}]

    async def use(kind: dict) -> None:
        url = provider.fault_url({"route": provider.start, "skip": 1, "times": -1, **kind})
        async with provider.environment(url=url) as env:
            began = time.monotonic()
            result = await env.execute("sleep 60", timeout=timeout)
            assert (result.timed_out, result.exit_code) == (True, 124)
            assert time.monotonic() - began < 5

    for kind in kinds:
        run(use(kind))


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


def test_lifetime_is_not_a_request_timeout(provider_of):
    """The lifetime goes to the provider in its own unit; a request's limit is another option."""
    provider = provider_of("e2b")

    async def use() -> None:
        async with provider.environment(timeout=3600, request_timeout=30) as env:
            await env.execute("true")
        async with provider.environment() as env:
            await env.execute("true")

    run(use())
    assert [created["timeout"] for created in provider.server.state()["created"]] == [3600, 300]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "300"])
def test_impossible_lifetimes(provider_of, value):
    """A lifetime of nothing, less, or no number is refused when the environment is made, with the option's name."""
    with pytest.raises(ConfigError, match="timeout"):
        provider_of("e2b").environment(timeout=value)
    with pytest.raises(ConfigError, match="auto_stop"):
        provider_of("daytona").environment(auto_stop=value)


def test_providers_limit_is_told(provider_of):
    """A lifetime beyond the provider's limit is refused in the provider's words, and not silently replaced."""
    provider = provider_of("e2b")

    async def use() -> None:
        with pytest.raises(ConfigError, match="cannot be greater than 1 hours"):
            await provider.environment(timeout=10**9).start()
        async with provider.environment(timeout=60, keep_alive=False) as env:
            with pytest.raises(ConfigError, match="cannot be greater than 1 hours"):
                await env.execute("true", timeout=10_000)
            assert (await env.execute("echo ok", timeout=100)).stdout == "ok\n"

    run(use())


def test_sandbox_outlives_its_command(provider_of):
    """A command with a timeout beyond the sandbox's lifetime extends it first, and only then."""
    provider = provider_of("e2b")

    async def use() -> None:
        async with provider.environment(timeout=120, keep_alive=False) as env:
            await env.execute("true", timeout=10)
            assert provider.server.calls("/timeout") == 0
            await env.execute("true", timeout=600)
            assert provider.server.calls("/timeout") == 1
            assert provider.server.living()[env.sandbox_id]["left"] > 600

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
    from stead_daytona import DaytonaEnvironment

    async def use() -> None:
        events = []
        async with provider.environment(recreate=True, on_close="kill") as env:
            env.on_recreate = events.append
            await env.write_file("a", "kept")
            async with provider.environment(sandbox_id=env.sandbox_id, on_close="pause") as other:
                await other.execute("true")
            with pytest.raises(EnvironmentLost):
                await env.read_file("a")
            # A sandbox of Daytona that is to be killed is deleted when it stops; of E2B it is paused.
            expected = isinstance(env, DaytonaEnvironment)
            assert (await env.stat(".")).kind == "directory"
            assert (events[0].created != events[0].lost) is expected

    run(use())
