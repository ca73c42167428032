"""Execute: its answer, its timeouts, and output that is cut without being lost."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead import Capabilities, ExecutionResult, adapt
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, Unavailable
from stead.tools import toolset


class Prints(MemoryEnvironment):
    """Every command gives the same result; the calls are recorded."""

    capabilities = Capabilities(execute=True, stat=True, list_files=True)

    def __init__(self, stdout: str = "", stderr: str = "", **result: Any) -> None:
        super().__init__()
        sizes = {"stdout_bytes": len(stdout.encode()), "stderr_bytes": len(stderr.encode())}
        self.result = ExecutionResult(**{"exit_code": 0, "stdout": stdout, "stderr": stderr, **sizes, **result})
        self.calls: list[Any] = []

    async def execute(self, command, **options):
        self.calls.append((command, options))
        return self.result


def execute(env: Any, /, options: Any = None, **arguments: Any) -> dict[str, Any]:
    """The answer of Execute; the files of the environment are in `files`, apart from the answer."""

    async def main():
        async with env:
            answer = await toolset(env, **(options or {}))["Execute"](**({"command": "c"} | arguments))
            paths = [answer[key] for key in ("stdout_path", "stderr_path") if key in answer]
            return answer, {path: (await env.read_file(path)).decode() for path in paths}

    answer, files = asyncio.run(main())
    return {**answer, "files": files}


def test_the_answer_of_a_command():
    """Exit code, both streams, timed_out and duration; nothing about files where there are none."""
    assert execute(Prints("out\n", "err\n", exit_code=3, duration=0.12345)) == {
        "status": "ok",
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
        "timed_out": False,
        "duration": 0.123,
        "truncated": False,
        "files": {},
    }


@pytest.mark.parametrize(
    ("options", "given_timeout", "used"),
    [
        ({}, None, 120.0),
        ({"default_timeout": 5}, None, 5),
        ({"default_timeout": None}, None, None),
        ({}, 7, 7.0),
        ({}, "7.5", 7.5),
        ({}, 10_000, 600.0),
        ({"max_timeout": 60}, None, 60),
        ({"max_timeout": 60}, 90, 60.0),
        ({"default_timeout": 3600}, None, 3600),
        ({"default_timeout": 3600}, 5000, 3600.0),
    ],
)
def test_timeouts(options, given_timeout, used):
    """The caller's default, the model's own up to the caller's maximum, which is never below the default."""
    env = Prints()
    execute(env, options, **({} if given_timeout is None else {"timeout": given_timeout}))
    assert env.calls[0][1]["timeout"] == used


@pytest.mark.parametrize("timeout", [0, -1, True, "soon", float("nan"), float("inf")])
def test_impossible_timeouts_are_answered(timeout):
    """Nothing is run."""
    env = Prints()
    answer = execute(env, timeout=timeout)
    assert (answer["status"], env.calls) == ("error", [])
    assert "timeout" in answer["error"]


def test_a_timeout_says_how_long_it_was():
    """And how long it could have been."""
    result = {"timed_out": True, "exit_code": 124}
    assert execute(Prints("so far", **result))["hint"] == "The command was ended after 120 s; timeout can be up to 600."
    assert execute(Prints(**result), timeout=9999)["hint"] == (
        "The command was ended after 600 s, the longest timeout allowed."
    )


def test_the_directory_is_handed_on():
    """cwd is a path for the environment to judge."""
    env = Prints()
    execute(env, cwd="sub")
    assert env.calls == [("c", {"timeout": 120.0, "cwd": "sub", "output_limit": 120_000})]


@pytest.mark.parametrize("character", ["x", "\u754c", "\U0001f600"])
@pytest.mark.parametrize("length", [9_999, 10_000, 10_001, 16_384])
def test_the_limit_is_exact_and_in_characters(character, length):
    """Up to the limit the text is whole and unflagged; beyond it, it is cut and all of it is in a file."""
    text = character * length
    answer = execute(Prints(text), {"max_output_chars": 10_000})
    assert answer["truncated"] is (length > 10_000)
    if length <= 10_000:
        assert answer["stdout"] == text
        assert "stdout_path" not in answer
    else:
        assert len(answer["stdout"]) == 10_000
        assert answer["files"] == {answer["stdout_path"]: text}
        assert answer["hint"] == "All of the output is in the file of stdout_path: read it with ReadFile."
        assert f"stdout has {len(text.encode())} bytes; all of it is in {answer['stdout_path']}" in answer["stdout"]


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 300))
def test_both_streams_share_the_limit(out, err, limit):
    """Together they are within it, each keeps its half if the other needs it all, and nothing is lost."""
    stdout, stderr = "o" * out, "e" * err
    answer = execute(Prints(stdout, stderr), {"max_output_chars": limit})
    assert len(answer["stdout"]) + len(answer["stderr"]) <= max(limit, 0)
    assert answer["truncated"] is (out + err > limit)
    assert answer["files"].get(answer.get("stdout_path"), answer["stdout"]) == stdout
    assert answer["files"].get(answer.get("stderr_path"), answer["stderr"]) == stderr
    assert len(answer["stdout"]) >= min(out, limit // 2)
    assert len(answer["stderr"]) >= min(err, limit // 2)


def test_head_and_tail_are_kept():
    """The middle gives way to one line."""
    answer = execute(Prints("HEAD" + "x" * 1000 + "TAIL"), {"max_output_chars": 300})
    assert answer["stdout"].startswith("HEADxxx")
    assert answer["stdout"].endswith("xxxTAIL")
    assert answer["stdout"].count("\n") == 2


def test_what_the_environment_spilled_is_not_written_again():
    """Its path is the answer's."""

    class Spills(Prints):
        async def execute(self, command, **options):
            await self.write_file(".stead/spill/1.out", "everything")
            return await super().execute(command, **options)

    env = Spills("head\n[...]\ntail", stdout_path="/.stead/spill/1.out", stdout_bytes=10**9)
    answer = execute(env)
    assert (answer["stdout"], answer["truncated"]) == ("head\n[...]\ntail", True)
    assert answer["files"] == {"/.stead/spill/1.out": "everything"}


def test_what_could_not_be_kept_is_said():
    """The reason is in the answer, and no path that leads nowhere."""
    spilled = execute(Prints("x" * 500, spill_error="disk full"), {"max_output_chars": 300})
    assert (spilled["spill_error"], spilled["truncated"]) == ("disk full", True)
    assert "stdout_path" not in spilled

    class ReadOnly(Prints):
        async def write_file(self, path, content, **conditions):
            raise AccessDenied("read-only")

    refused = execute(ReadOnly("x" * 500), {"max_output_chars": 300})
    assert refused["spill_error"] == "read-only"
    assert "stdout_path" not in refused
    assert "cut here: stdout has 500 bytes ...]" in refused["stdout"]


def test_what_is_kept_has_a_record_and_is_ignored_by_git():
    """As what the environment itself spills: listed and expired by its record, out of sight of version control."""

    async def main():
        async with Prints("", "e" * 500) as env:
            path = (await toolset(env, max_output_chars=300)["Execute"](command="c"))["stderr_path"]
            return path, json.loads(await env.read_file(path + ".json")), await env.read_file(".stead/.gitignore")

    path, record, ignored = asyncio.run(main())
    assert (record["kind"], record["stream"], record["path"], record["size"]) == ("spill", "stderr", path, 500)
    assert path == f"/.stead/spill/{record['id']}.err"
    assert ignored == b"*\n"


def test_a_limit_that_ended_the_command_is_named():
    """limit_hit is in the answer only if there is one."""
    assert execute(Prints(limit_hit="cpu_seconds"))["limit_hit"] == "cpu_seconds"


def test_a_class_for_the_older_contract_runs_commands_too():
    """It knows neither output_limit nor spilling: the command runs once, and what is cut is kept in a file."""

    class Old:
        working_dir = "/w"

        def __init__(self):
            self.files, self.commands = {}, []

        async def execute(self, command, timeout=None):
            self.commands.append(command)
            return ExecutionResult(exit_code=1, stdout="y" * 1000, stderr="")

        async def read_file(self, path):
            if str(path) not in self.files:
                raise FileNotFoundError(path)
            return self.files[str(path)]

        async def write_file(self, path, content):
            self.files[str(path)] = content

    old = Old()
    answer = execute(adapt(old), {"max_output_chars": 400})
    assert (answer["exit_code"], old.commands) == (1, ["c"])
    assert list(answer["files"].values()) == ["y" * 1000]
    assert old.files["/w/.stead/.gitignore"] == b"*\n"


def test_errors_of_commands_are_answers():
    """A command that could not be started, or may have run, is an error with advice; it is not repeated."""

    class Away(Prints):
        async def execute(self, command, **options):
            self.calls.append(command)
            raise Unavailable("no answer; the command may have run")

    env = Away()
    answer = execute(env)
    assert (answer["status"], env.calls) == ("error", ["c"])
    assert answer["error"].startswith("The service did not answer: no answer; the command may have run.")
