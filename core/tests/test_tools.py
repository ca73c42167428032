"""What all tools have in common: which are offered, their schemas, their arguments, their names, their errors."""

import asyncio
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from stead import Capabilities, Environment, ExecutionResult
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, EnvironmentLost, FileChanged, Unavailable, Unsupported
from stead.reducer import Reducer, ReducerConfig
from stead.tools import Tool, toolset

ALL = ["Execute", "ReadFile", "WriteFile", "EditFile", "ListFiles", "Glob", "Grep"]


class Commands(MemoryEnvironment):
    """Memory with commands, which all succeed silently."""

    capabilities = Capabilities(execute=True, stat=True, list_files=True, conditional_write=True)

    async def execute(self, command, **options):
        return ExecutionResult(exit_code=0, stdout="", stderr="")


def call(tool: str, /, env: Environment | None = None, **arguments: Any) -> dict[str, Any]:
    """The answer of one tool, called once."""

    async def main():
        async with env or Commands() as opened:
            return await toolset(opened)[tool](**arguments)

    return asyncio.run(main())


class Bare:
    """The least that can be adapted."""

    working_dir = "/w"

    async def read_file(self, path):
        return b"x\n"

    async def write_file(self, path, content):
        pass


@pytest.mark.parametrize(
    ("env", "missing"),
    [
        (Commands(), set()),
        (MemoryEnvironment(), {"Execute"}),
        (Bare(), {"Execute", "ListFiles", "Glob", "Grep"}),
    ],
    ids=["all", "storage", "bare"],
)
def test_a_tool_whose_capability_is_absent_is_not_offered(env, missing):
    """The mapping has the possible tools by name, in one order."""
    tools = toolset(env)
    assert list(tools) == [name for name in ALL if name not in missing]
    assert all(tool.name == name and isinstance(tool, Tool) for name, tool in tools.items())


def test_only_read_file_is_a_reader():
    """The reducer exempts it; the answers of all others may be offloaded."""
    assert [name for name, tool in toolset(Commands()).items() if tool.is_reader] == ["ReadFile"]


@pytest.mark.parametrize("name", ALL)
def test_schemas_are_small_and_closed(name):
    """Every argument has a type and a description, no other is allowed, and nothing in it is only noise."""
    tool = toolset(Commands())[name]
    schema = json.loads(json.dumps(tool.parameters))
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert set(schema["required"]) <= set(schema["properties"])
    for argument in schema["properties"].values():
        assert argument["type"] in ("string", "integer", "number", "boolean")
        assert len(argument["description"]) > 10
    assert not re.search(r'"(title|anyOf|\$defs)"', json.dumps(schema))
    assert len(tool.description) < 420


def test_required_arguments():
    """What a model must give; all else has a default."""
    tools = toolset(Commands())
    assert {name: tool.parameters["required"] for name, tool in tools.items()} == {
        "Execute": ["command"],
        "ReadFile": ["path"],
        "WriteFile": ["path", "content"],
        "EditFile": ["path", "old_text", "new_text"],
        "ListFiles": [],
        "Glob": ["pattern"],
        "Grep": ["pattern"],
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "path is required"),
        ({"path": 5}, "path: Input should be a valid string"),
        ({"path": None}, "path: Input should be a valid string"),
        ({"file_path": "a"}, "there is no argument 'file_path' (did you mean 'path'?)"),
        ({"path": "a", "offset": 1}, "there is no argument 'offset'"),
        ({"path": "a", "self": 1}, "there is no argument 'self'"),
    ],
)
def test_wrong_arguments_are_answered_with_the_right_ones(arguments, words):
    """No exception: the answer names the mistake and what the tool takes."""
    answer = call("ReadFile", **arguments)
    assert answer["status"] == "error"
    assert words in answer["error"]
    assert answer["error"].endswith(
        "It takes path, start_line (optional), end_line (optional), start_column (optional)."
    )


def test_arguments_are_keywords_only():
    """A positional argument is a fault of the caller's code."""
    with pytest.raises(TypeError):
        toolset(MemoryEnvironment())["ReadFile"]("a")


@pytest.mark.parametrize("arguments", [{"path": "a"}, '{"path": "a"}', b'{"path": "a"}'])
def test_call_takes_what_a_framework_has(arguments):
    """A mapping or its JSON text."""

    async def main():
        async with MemoryEnvironment() as env:
            await env.write_file("a", "x\n")
            return await toolset(env)["ReadFile"].call(arguments)

    assert asyncio.run(main())["content"] == "     1\tx"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path": ', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ({1: 2}, "Wrong arguments"),
        ("[1]", "not list"),
        ("1", "not int"),
        ('"a"', "not str"),
    ],
)
def test_call_answers_what_is_no_object(arguments, words):
    """Broken JSON of a model is an error that it can read."""

    async def main():
        async with MemoryEnvironment() as env:
            return await toolset(env)["ReadFile"].call(arguments)

    answer = asyncio.run(main())
    assert answer["status"] == "error"
    assert words in answer["error"]


@pytest.mark.parametrize("arguments", [None, "", " ", "null", "{}", {}])
def test_call_without_arguments(arguments):
    """Nothing, in any form, is no arguments."""

    async def main():
        async with MemoryEnvironment() as env:
            return await toolset(env)["ListFiles"].call(arguments)

    assert asyncio.run(main())["entries"] == []


@pytest.mark.parametrize("tool", ["ReadFile", "WriteFile", "EditFile", "ListFiles", "Glob", "Grep", "Execute"])
def test_answers_can_always_be_encoded(tool):
    """A lone surrogate in any argument ends in JSON that is UTF-8, never in an exception."""
    bad = "a\ud83d"
    arguments = {
        "ReadFile": {"path": bad},
        "WriteFile": {"path": "f", "content": bad},
        "EditFile": {"path": bad, "old_text": bad, "new_text": "x"},
        "ListFiles": {"path": bad},
        "Glob": {"pattern": bad + "/*"},
        "Grep": {"pattern": bad, "glob": bad},
        "Execute": {"command": bad},
        "Unknown": {bad: 1},
    }[tool]
    for given in (arguments, {bad: 1}):
        answer = call(tool, **given)
        assert json.loads(json.dumps(answer)) == answer
        json.dumps(answer, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (FileNotFoundError(2, "No such file"), "Not found: "),
        (AccessDenied("no"), "Permission denied: no. "),
        (PermissionError(13, "no"), "Permission denied: "),
        (IsADirectoryError(21, "d"), "This is a directory: "),
        (FileChanged("c"), "The file is being changed by something else: c. "),
        (Unavailable("503"), "The service did not answer: 503. "),
        (EnvironmentLost("expired"), "The environment is gone: expired. "),
        (Unsupported("a FIFO"), "Not possible here: a FIFO. "),
        (ValueError("the command is empty"), "Not possible: the command is empty."),
        (OSError(5, "I/O error"), "OSError: "),
        (RuntimeError("boom."), "RuntimeError: boom."),
    ],
)
def test_errors_say_what_happened_and_what_to_do(error, start):
    """Ours, the builtins, and those of a foreign SDK are all answers."""

    class Failing(MemoryEnvironment):
        async def write_file(self, path, content, **conditions):
            raise error

    answer = call("WriteFile", Failing(), path="a", content="")
    assert answer["status"] == "error"
    assert answer["error"].startswith(start)


def test_names_are_used_everywhere():
    """Renamed and left-out tools: no description, hint or error names a tool that is not there."""
    names = {"ReadFile": "fs_read", "Glob": None, "ListFiles": "ls", "EditFile": None, "Execute": "run"}

    async def main():
        async with Commands() as env:
            await env.write_file("a", "x\n")
            tools = toolset(env, names=names)
            answers = [
                await tools["fs_read"](path="missing"),
                await tools["fs_read"](path="/"),
                await tools["fs_read"](pth="/"),
                await tools["Grep"](pattern="x"),
            ]
            return tools, answers

    tools, answers = asyncio.run(main())
    assert list(tools) == ["run", "fs_read", "WriteFile", "ls", "Grep"]
    text = json.dumps([(t.name, t.description, t.parameters) for t in tools.values()]) + json.dumps(answers)
    assert not re.search("ReadFile|Glob|ListFiles|EditFile|Execute", text)
    assert "Look for the right path with ls." in text


@pytest.mark.parametrize("names", [{"Readfile": "x"}, {"ReadFile": "Grep"}, {"ReadFile": ""}])
def test_impossible_names_are_refused(names):
    """An unknown tool, a taken name and an empty one are faults of the caller."""
    with pytest.raises(ValueError, match=r"ReadFile|name"):
        toolset(MemoryEnvironment(), names=names)


@pytest.mark.parametrize(
    "options",
    [{"max_output_chars": 0}, {"scan_limit": -1}, {"default_timeout": 0}, {"max_timeout": -1.0}],
)
def test_impossible_options_are_refused(options):
    """A limit that cannot be meant is a ValueError at once."""
    with pytest.raises(ValueError, match=next(iter(options))):
        toolset(MemoryEnvironment(), **options)


def test_the_reducers_notices_must_name_the_tool_that_reads():
    """A notice that points to a tool the model does not have is refused when the tools are made."""
    env = MemoryEnvironment()
    with pytest.raises(ValueError, match="read_file_tool_name='fs_read'"):
        toolset(env, offloads=Reducer(env), names={"ReadFile": "fs_read"})
    named = Reducer(env, ReducerConfig(read_file_tool_name="fs_read"))
    assert "fs_read" in toolset(env, offloads=named, names={"ReadFile": "fs_read"})


def test_import_stead_does_not_load_the_tools():
    """Pydantic costs more than all the rest, and comes with the first use of the tools."""
    code = "import stead, sys; print('pydantic' in sys.modules); stead.tools; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
