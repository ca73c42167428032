"""Real faults of other reducers, each with the record it comes from. The truncation phase first."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from stead import Environment, FileInfo
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, ConfigError, EnvironmentLost
from stead.reducer import Reducer, ReducerConfig, Report, ToolCall, ToolConfig


def reducer_for(environment: Environment, **options: Any) -> Reducer:
    return Reducer(environment, ReducerConfig(session_id="s", **options))


async def trunc_files(environment: Environment) -> list[str]:
    async with aclosing(environment.list_files(".stead/offloads/s/trunc")) as files:
        return [info.path async for info in files]


def path_in(notice: str) -> str:
    return next(line for line in notice.splitlines() if line.startswith(".stead/offloads/"))


class Failing(MemoryEnvironment):
    """Writes fail until `error` is taken away; an error of None hangs."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error
        self.broken = True

    async def write_file(self, path: Any, content: Any, **options: Any) -> FileInfo:
        if self.broken and self.error is None:
            await asyncio.sleep(60)
        if self.broken and self.error is not None:
            raise self.error
        return await super().write_file(path, content, **options)


LONG = "L" * 500 + "KEY" + "R" * 90_000


@pytest.mark.parametrize("text", ["\n".join(["x" * 20_000] * 5), "y" * 200_000], ids=["long lines", "one line"])
def test_b078_what_the_read_tool_returns_is_never_offloaded_again(text):
    """Reading an offload back page by page reaches its end and makes no further file."""

    async def main():
        async with MemoryEnvironment() as env:
            reducer = reducer_for(env)
            path = path_in(await reducer.truncate(ToolCall("c1", "Execute"), text))
            read = ""
            while len(read) < len(text):
                stored = (await reducer.offloads.read(path)).decode()
                page = stored[len(read) : len(read) + 60_000]
                assert await reducer.truncate(ToolCall(f"r{len(read)}", "ReadFile"), page) is page
                read += page
            assert read == text
            assert len(await trunc_files(env)) == 1

    asyncio.run(main())


def test_b080_an_id_that_comes_again_with_other_content_gets_another_file():
    """The first path keeps its text; a retry of the same call and a second agent reuse it."""

    async def main():
        async with MemoryEnvironment() as env:
            first, second = reducer_for(env), reducer_for(env)
            a = await first.truncate(ToolCall("functions.read:0", "Read"), "A" * 60_000)
            b = await first.truncate(ToolCall("functions.read:0", "Read"), "B" * 60_000)
            again = await second.truncate(ToolCall("functions.read:0", "Read"), "A" * 60_000)
            assert path_in(a) != path_in(b)
            assert again == a
            assert await first.offloads.read(path_in(a)) == b"A" * 60_000
            assert await first.offloads.read(path_in(b)) == b"B" * 60_000
            assert len(await trunc_files(env)) == 2

    asyncio.run(main())


HOSTILE = ["../../etc/cron.d/x", "/abs", "..", ".", "a/b", "a_b", "a:b", "CON", "x\x00y", "-rf", "日本", "A", "a", "*?"]


def test_b081_hostile_ids_stay_inside_the_folder_and_apart():
    """Fourteen ids give fourteen direct children, also where case is ignored, each readable by the notice's path."""

    async def main():
        async with MemoryEnvironment() as env:
            reducer = reducer_for(env, max_length_for_trunc=1_000)
            for number, call_id in enumerate(HOSTILE):
                text = f"{number}" + "x" * 5_000
                notice = await reducer.truncate(ToolCall(call_id, "Execute"), text)
                assert (await env.read_file(path_in(notice))).decode() == text
            files = await trunc_files(env)
            assert len({file.lower() for file in files}) == 14
            assert not any("\0" in file or file.rsplit("/", 1)[1].startswith(("-", ".")) for file in files)

    asyncio.run(main())


def test_b081_a_long_id_gives_a_bounded_name():
    """An id of 1,500 bytes, as some providers send, still makes a file name."""

    async def main():
        async with MemoryEnvironment() as env:
            notice = await reducer_for(env).truncate(ToolCall("x" * 1_500, "Execute"), LONG)
            assert len(path_in(notice).rsplit("/", 1)[1]) == 57

    asyncio.run(main())


ERRORS = [OSError("disk full"), AccessDenied("no"), EnvironmentLost("gone"), None]


@pytest.mark.parametrize("error", ERRORS, ids=["oserror", "denied", "gone", "hangs"])
def test_b083_a_failed_write_keeps_the_whole_result(error):
    """No exception, nothing lost, no path named, and a later retry stores it."""

    async def main():
        async with Failing(error) as env:
            reports: list[Report] = []
            config = ReducerConfig(session_id="s", max_length_for_trunc=1_000, offload_timeout=0.1)
            reducer = Reducer(env, config, on_report=reports.append)
            assert await reducer.truncate(ToolCall("c", "Execute"), LONG) is LONG
            assert [d.action for r in reports for d in r.decisions] == ["failed"]
            env.broken = False
            notice = await reducer.truncate(ToolCall("c", "Execute"), LONG)
            assert (await env.read_file(path_in(notice))).decode() == LONG

    asyncio.run(main())


@pytest.mark.parametrize("error", ERRORS[:3], ids=["oserror", "denied", "gone"])
def test_b083_the_other_policies_are_explicit(error):
    """`raise` gives the store's own error; `truncate` says that the rest is not available and names no path."""

    async def main():
        async with Failing(error) as env:
            strict = reducer_for(env, on_offload_error="raise")
            with pytest.raises(type(error)):
                await strict.truncate(ToolCall("c", "Execute"), LONG)
            lossy = reducer_for(env, on_offload_error="truncate", max_length_for_trunc=1_000)
            text = await lossy.truncate(ToolCall("c", "Execute"), LONG)
            assert ".stead" not in text
            assert "is not available" in text
            assert len(text) <= 1_000

    asyncio.run(main())


@dataclass
class ToolResult:
    content: Any
    is_error: bool = False
    tool_call_id: str = ""
    name: str = ""
    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    artifact: object = None


def test_b084_only_the_content_of_a_result_object_changes():
    """Status, name, ids, metadata and artifact are the same objects afterwards."""

    async def main():
        async with MemoryEnvironment() as env:
            old = ToolResult("E" * 90_000, True, "c1", "Execute", "m1", {"exit_code": 2}, object())
            new = await reducer_for(env).truncate(ToolCall("c1", "Execute"), old)
            assert isinstance(new, ToolResult)
            assert len(new.content) <= 50_000 < len(old.content)
            for item in fields(old):
                if item.name != "content":
                    assert getattr(new, item.name) is getattr(old, item.name)

    asyncio.run(main())


def test_b085_text_blocks_count_together_and_others_are_opaque():
    """Two long text blocks are cut, the picture between them is the same object, and the file holds both texts."""

    async def main():
        async with MemoryEnvironment() as env:
            image = {"type": "image", "data": "x" * 3_000_000}
            blocks = [{"type": "text", "text": "A" * 60_000}, image, {"type": "text", "text": "B" * 60_000}]
            out = await reducer_for(env).truncate(ToolCall("c", "Shot"), blocks)
            assert sum(len(block["text"]) for block in out if block["type"] == "text") <= 50_000
            assert out[1] is image
            assert blocks[0]["text"] == "A" * 60_000
            stored = (await env.read_file(path_in(out[0]["text"]))).decode()
            assert stored == "A" * 60_000 + "\n" + "B" * 60_000

    asyncio.run(main())


def test_b085_many_small_blocks_are_reduced_too():
    """200 blocks of 1,000 characters come below the limit, and none of what is left grew."""

    async def main():
        async with MemoryEnvironment() as env:
            blocks = [{"type": "text", "text": f"{i:04}" * 250} for i in range(200)]
            out = await reducer_for(env).truncate(ToolCall("c", "List"), blocks)
            assert sum(len(block["text"]) for block in out) <= 50_000
            stored = (await env.read_file(path_in(out[0]["text"]))).decode()
            assert all(block["text"] in stored for block in blocks)

    asyncio.run(main())


@pytest.mark.parametrize("result", [None, [], {}, b"x" * 90_000, 7, {"a": 1}, [1, 2]])
def test_b085_what_is_no_text_passes_as_it_is(result):
    """Values without text, and small data, are returned as the same object."""

    async def main():
        async with MemoryEnvironment() as env:
            assert await reducer_for(env).truncate(ToolCall("c", "T"), result) is result

    asyncio.run(main())


def test_b085_large_data_counts_as_its_json_text():
    """A dict over the limit becomes its JSON text, reduced, and the stored text parses back."""

    async def main():
        async with MemoryEnvironment() as env:
            import json

            data = {"rows": list(range(20_000)), "名": "值"}
            notice = await reducer_for(env).truncate(ToolCall("c", "Query"), data)
            assert json.loads(await env.read_file(path_in(notice))) == data

    asyncio.run(main())


@pytest.mark.parametrize("length", [999, 1_000, 1_001, 1_050, 1_200, 5_000])
def test_b087_truncation_never_makes_a_result_longer(length):
    """At the limit nothing happens; above it the answer is shorter and shows no character twice."""

    async def main():
        async with MemoryEnvironment() as env:
            text = "".join(chr(0x4E00 + i) for i in range(length))
            out = await reducer_for(env, max_length_for_trunc=1_000).truncate(ToolCall("c", "T"), text)
            assert (out is text) == (length <= 1_000)
            assert len(out) <= min(length, 1_000)
            shown = [c for c in out if c in text] if length > 1_000 else []
            assert len(shown) == len(set(shown))

    asyncio.run(main())


def test_b087_a_limit_below_one_is_refused():
    """0 and negative limits are errors; a limit of 10 works and never grows a text."""
    for limit in (0, -1):
        with pytest.raises(ValueError, match="max_length_for_trunc"):
            ReducerConfig(max_length_for_trunc=limit)

    async def main():
        async with MemoryEnvironment() as env:
            reducer = reducer_for(env, max_length_for_trunc=10)
            for length in (9, 10, 11, 300, 600, 5_000):
                assert len(await reducer.truncate(ToolCall("c", "T"), "x" * length)) <= length

    asyncio.run(main())


@pytest.mark.parametrize(("length", "limit"), [(1_000, 200), (90_000, 50_000)])
def test_b088_the_notice_counts_and_a_second_pass_changes_nothing(length, limit):
    """The answer keeps to the limit (plus one notice where the limit is smaller than that), and is stable."""

    async def main():
        async with MemoryEnvironment() as env:
            reducer = reducer_for(env, max_length_for_trunc=limit)
            once = await reducer.truncate(ToolCall("c", "T"), "z" * length)
            assert len(once) <= max(limit, 1_000)
            assert await reducer.truncate(ToolCall("c", "T"), once) is once
            assert await reducer.truncate(ToolCall("d", "Other"), once) is once
            assert len(await trunc_files(env)) == 1
            assert f" {length - once.count('z')} characters left out" in once

    asyncio.run(main())


def test_b088_a_path_of_300_characters_fits_into_the_limit():
    """A long path of the caller's own shortens the preview, not the promise."""

    async def main():
        async with MemoryEnvironment() as env:
            own = "deep/" + "p" * 200 + "/" + "q" * 94
            reducer = reducer_for(env, max_length_for_trunc=1_000, gen_trunc_offload_file_path=lambda call: own)
            out = await reducer.truncate(ToolCall("c", "T"), "z" * 5_000)
            assert own in out
            assert len(out) <= 1_000
            assert await env.read_file(own) == b"z" * 5_000

    asyncio.run(main())


def test_b090_a_notice_names_only_the_tool_that_reads():
    """The hint has the configured name; with none configured it names no tool."""

    async def main():
        async with MemoryEnvironment() as env:
            renamed = await reducer_for(env, read_file_tool_name="fs_read").truncate(ToolCall("c", "T"), LONG)
            silent = await reducer_for(env, read_file_tool_name="", language="en").truncate(
                ToolCall("c", "T"), "S" * 60_000
            )
            assert "with fs_read" in renamed
            assert "ReadFile" not in renamed + silent
            assert "Read it with" not in silent

    asyncio.run(main())


def test_b090_a_path_in_another_environment_is_found():
    """The reducer says in which environment an offload lies, so that a read tool can follow the notice."""

    async def main():
        async with MemoryEnvironment() as env, MemoryEnvironment() as other:
            reducer = reducer_for(env, tool_config={"Query": ToolConfig(environment=other)})
            here = path_in(await reducer.truncate(ToolCall("c", "Execute"), LONG))
            there = path_in(await reducer.truncate(ToolCall("c", "Query"), LONG))
            assert reducer.environment_of(here) is env or here == there
            assert reducer.environment_of(there) is other
            assert await other.read_file(there) == LONG.encode()
            assert reducer.environment_of("notes.txt") is None

    asyncio.run(main())


def test_truncation_without_an_environment_is_refused():
    """A reducer that would have nowhere to store is an error when it is made."""
    with pytest.raises(ConfigError, match="environment"):
        Reducer(None, ReducerConfig())
    Reducer(None, ReducerConfig(skip_truncation=True))
