"""Bugs that others have had with commands in sandboxes, on both backends."""

import time

import pytest
from providers import run

from stead.errors import FileMissing, Unavailable
from stead.tools import toolset


def test_timeout_is_a_result(provider):
    """B066: A command that times out gives what it printed, its process is gone, and the next one works."""

    async def use() -> None:
        async with provider.environment() as env:
            began = time.monotonic()
            result = await env.execute("echo a; sleep 60", timeout=0.5)
            assert (result.timed_out, result.stdout, result.exit_code) == (True, "a\n", 124)
            assert time.monotonic() - began < 4
            assert (await env.execute("pgrep -f 'sleep 6[0]' | wc -l")).stdout.strip() == "0"

    run(use())


def test_streams_apart(provider):
    """B075: Both streams come back apart, though one of the services merges them."""

    async def use() -> None:
        async with provider.environment() as env:
            result = await env.execute("echo 1; echo err >&2")
            assert (result.stdout, result.stderr) == ("1\n", "err\n")
            none = await env.execute("true")
            assert (none.stdout, none.stderr) == ("", "")

    run(use())


def test_lost_daemon_is_no_result(provider, monkeypatch):
    """B077: A daemon that answers 502 is an error that names the backend: no result, no timeout, and nothing runs twice."""
    monkeypatch.setattr("stead.posix.calls.pause_before", lambda attempt, error: 0.01)

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
    """B074: A service that ignores the timeout, or says that it took too long, still gives a timed-out result in time."""
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


def test_sandbox_outlives_its_command(provider_of):
    """B071: A command with a timeout beyond the sandbox's lifetime extends it first, and only then."""
    provider = provider_of("e2b")

    async def use() -> None:
        async with provider.environment(timeout=120, keep_alive=False) as env:
            await env.execute("true", timeout=10)
            assert provider.server.calls("/timeout") == 0
            await env.execute("true", timeout=600)
            assert provider.server.calls("/timeout") == 1
            assert provider.server.living()[env.sandbox_id]["left"] > 600

    run(use())


def test_end_does_not_depend_on_the_output(provider):
    """B042: without a newline at its end, or with what looks like the end of an answer, output is what was printed."""

    async def use() -> None:
        async with provider.environment() as env:
            for text, out, code in (
                ("printf hi", "hi", 0),
                ("printf 'a\\nb'; exit 2", "a\nb", 2),
                (
                    "printf '@0123456789abcdef ended b @0123456789abcdef'",
                    "@0123456789abcdef ended b @0123456789abcdef",
                    0,
                ),
                ('env | grep -a ^STEAD_; printf \'@%s ended b @%s\' "$STEAD_ID" "$STEAD_ID"', "@ ended b @", 0),
            ):
                result = await env.execute(text, timeout=5)
                assert (result.stdout, result.exit_code, result.timed_out) == (out, code, False)

    run(use())


def test_exit_code_is_no_failure(provider):
    """B045: a code other than 0 is a result with the output, though one SDK raises it; the tool shows both."""

    async def use() -> None:
        async with provider.environment() as env:
            result = await env.execute("printf report; printf why >&2; exit 1")
            assert (result.exit_code, result.stdout, result.stderr) == (1, "report", "why")
            assert result.timed_out is False
            answer = await toolset(env)["Execute"](command="printf report; exit 1")
            assert (answer["exit_code"], answer["stdout"]) == (1, "report")

    run(use())


def test_command_runs_in_a_shell_of_its_own(provider):
    """B073: `exec`, `exit`, `set -e` and `cd` end or change nothing but their own command."""

    async def use() -> None:
        async with provider.environment() as env:
            texts = (
                "exec true",
                "exit 3",
                "set -e; false",
                "cd /; export A=1",
                "exec 1>&- 2>&-",
                "trap '' 0 1 2 15; exit 4",
            )
            results = [await env.execute(text, timeout=10) for text in texts]
            assert [result.exit_code for result in results] == [0, 3, 1, 0, 0, 4]
            assert not any(result.timed_out for result in results)
            assert (await env.execute("pwd; echo [$A]")).stdout == f"{env.working_dir}\n[]\n"

    run(use())
