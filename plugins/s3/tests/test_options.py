"""Options, from code and from files; secrets stay unseen; life and death of an environment."""

import asyncio
import json
import pickle
import subprocess
import sys
import warnings

import pytest
from s3_support import run

import stead
from stead.errors import ConfigError, SteadError
from stead_s3 import S3Environment


def test_by_name(place):
    """`create_environment` makes it by name, with the options that its class has."""

    async def main():
        async with stead.create_environment("s3", **place) as env:
            assert isinstance(env, S3Environment)
            await env.write_file("a", "x")
            return await env.read_file("a")

    assert asyncio.run(main()) == b"x"


def test_by_file(place, tmp_path, monkeypatch):
    """A configuration makes it, with the secret by reference."""
    monkeypatch.setenv("THE_SECRET", place["secret_key"])
    file = tmp_path / "stead.toml"
    file.write_text(
        f'[environments.archive]\nbackend = "s3"\nbucket = "{place["bucket"]}"\nprefix = "{place["prefix"]}"\n'
        f'endpoint_url = "{place["endpoint_url"]}"\nregion = "us-east-1"\naccess_key = "testkey"\n'
        'secret_key = { env = "THE_SECRET" }\n'
    )

    async def main():
        async with stead.load_config(file).create_environment("archive") as env:
            await env.write_file("a", "x")
            return await env.read_file("a")

    assert asyncio.run(main()) == b"x"


def test_usual_places_of_the_sdk(place, monkeypatch):
    """Credentials that are not given are taken from the SDK's own variables."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", place["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", place["secret_key"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    options = {name: place[name] for name in ("bucket", "prefix", "endpoint_url")}

    async def use(env):
        await env.write_file("a", "x")
        assert await env.read_file("a") == b"x"

    run(options, use)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bucket": ""}, "bucket"),
        ({"bucket": "a/b"}, "prefix"),
        ({"bucket": "b", "timeout": 0}, "timeout"),
        ({"bucket": "b", "parallel": 0}, "parallel"),
        ({"bucket": "b", "anonymous": True, "access_key": "a", "secret_key": "s"}, "anonymous"),
        ({"bucket": "b", "access_key": "a"}, "go together"),
        ({"bucket": "b", "prefix": "\0"}, "prefix"),
    ],
)
def test_wrong_options(options, said):
    """Options that cannot be meant are refused when the environment is made."""
    with pytest.raises(ConfigError, match=said):
        S3Environment(**options)


def test_unknown_profile(place):
    """A profile that does not exist is a ConfigError at start."""
    with pytest.raises(ConfigError, match="profile"):
        run({**place, "profile": "nobody"}, lambda env: env.read_file("a"))


def test_nothing_shows_a_secret(place):
    """No repr, error, pickle or attribute by its name gives the secret away."""
    env = S3Environment(**{**place, "secret_key": "very-secret", "session_token": "token-secret"})
    assert "secret" not in repr(env) + str(env) + repr(env._store._access)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(env)
    with pytest.raises(SteadError) as caught:
        run({**place, "secret_key": "very-secret", "session_token": "token-secret"}, lambda env: env.read_file("a"))
    told = f"{caught.value!r} {caught.value.__cause__!r}"
    assert "very-secret" not in told
    assert "token-secret" not in told


def test_making_one_imports_no_sdk():
    """Making an environment imports no SDK: that waits for the start, and happens in a thread."""
    code = (
        "import sys, stead_s3; stead_s3.S3Environment('b'); print([m for m in ('s3fs', 'boto3') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_one_for_each_loop(place):
    """Environments of several loops, one after the other and in threads, do not share what belongs to a loop."""

    async def use(env):
        await env.write_file("a", "x")
        return await env.read_file("a")

    for _ in range(3):
        assert run(place, use) == b"x"

    async def in_threads():
        return await asyncio.gather(*(asyncio.to_thread(run, place, use) for _ in range(3)))

    assert asyncio.run(in_threads()) == [b"x"] * 3


_FORK = """
import asyncio, json, os, sys
from stead.errors import SteadError
from stead_s3 import S3Environment

async def child(env):
    try:
        await asyncio.wait_for(env.read_file("a"), 10)
    except SteadError as error:
        print("child:", error.message, flush=True)

async def main():
    async with S3Environment(**json.loads(sys.argv[1])) as env:
        await env.write_file("a", "x")
        await asyncio.to_thread(fork, env)
        print("parent:", await env.read_file("a"), flush=True)

def fork(env):
    process = os.fork()
    if process == 0:
        asyncio.run(child(env))
        os._exit(0)
    os.waitpid(process, 0)

asyncio.run(main())
"""


def test_a_fork_is_refused(place):
    """A process that was forked cannot use its parent's connections, and is told so; the parent goes on."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK, json.dumps(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    told = done.stdout.splitlines()
    assert "another event loop" in told[0]
    assert told[1] == "parent: b'x'"


def test_start_does_not_block_the_loop(place):
    """While the SDK is loaded, the event loop goes on."""

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        async with S3Environment(**place):
            pass
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) > 2


def test_no_warning_is_left(place):
    """A life with reads, writes and abandoned streams leaves no unclosed session, connector or transport."""

    async def use(env):
        await env.write_file("a", b"x" * 3_000_000)
        stream = env.read_file_stream("a")
        await anext(stream)
        await stream.aclose()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(place, use)
        import gc

        gc.collect()
    assert [str(item.message) for item in seen] == []
