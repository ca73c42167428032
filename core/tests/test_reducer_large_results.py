"""The older preset for large results, and the older way to clear: what they did, done with today's settings."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from stead.environments import MemoryEnvironment
from stead.errors import Unavailable
from stead.reducer import Reducer, ReducerConfig, ToolCall
from stead.reducer.shapes import shape_of

CALL = ToolCall("12345", "Search")


def run(body, environment=None, **options: Any):
    async def main():
        async with environment or MemoryEnvironment() as env:
            return await body(Reducer(env, ReducerConfig.large_results(session_id="s", **options)))

    return asyncio.run(main())


def path_in(notice: str) -> str:
    return next(line for line in notice.splitlines() if line.startswith(".stead/offloads/"))


async def streamed(reducer: Reducer, items: list[str], error: Exception | None = None) -> str:
    async def source():
        for item in items:
            yield item
        if error is not None:
            raise error

    async with aclosing(reducer.truncate_stream(CALL, source())) as chunks:
        return "".join([chunk async for chunk in chunks])


def test_a_small_result_passes_and_no_file_is_made():
    """Up to token_limit x 4 characters, exactly that included, nothing happens (L01, L06)."""

    async def body(reducer):
        for length in (10, 1_000, 80_000):
            text = "x" * length
            assert await reducer.truncate(CALL, text) is text
        assert await reducer.offloads.list() == []
        assert len(await reducer.truncate(CALL, "x" * 80_001)) < 80_000

    run(body)


def test_a_large_result_becomes_a_sample_and_a_path():
    """The notice has path and sample, and the file is exact (L02, L07)."""
    text = "".join(f"row {n}\n" for n in range(200))

    async def body(reducer):
        notice = await reducer.truncate(CALL, text)
        assert "1: row 0\n2: row 1\n" in notice
        assert "10: row 9" in notice
        assert "row 10" not in notice
        assert await reducer.offloads.read(path_in(notice)) == text.encode()
        assert (
            await reducer.offloads.read(path_in(await streamed(reducer, text.splitlines(keepends=True))))
            == text.encode()
        )

    run(body, token_limit=250)


def test_the_limit_of_zero_tokens_is_refused():
    """0 is 0 here, and a limit of no characters is an error (L06 took it for the default)."""
    with pytest.raises(ValueError, match="max_length_for_trunc"):
        ReducerConfig.large_results(token_limit=0)


def test_a_path_of_ones_own_and_its_error():
    """The generator's path is used; what it raises is the caller's (L03, L04)."""
    config = ReducerConfig.large_results(token_limit=250, session_id="s")
    from dataclasses import replace

    def broken(call):
        raise KeyError(call.id)

    async def main():
        async with MemoryEnvironment() as env:
            mine = replace(config, gen_trunc_offload_file_path=lambda call: f"large_tool_result/{call.id}")
            assert "large_tool_result/12345" in await Reducer(env, mine).truncate(CALL, "y" * 2_000)
            with pytest.raises(KeyError):
                await Reducer(env, replace(config, gen_trunc_offload_file_path=broken)).truncate(CALL, "y" * 2_000)

    asyncio.run(main())


def test_tool_and_stream_errors_pass():
    """An error of the tool, before or in its stream, is raised unchanged (L05, L08)."""

    async def broken():
        raise ZeroDivisionError

    async def body(reducer):
        with pytest.raises(ZeroDivisionError):
            await reducer.wrap(broken)()
        with pytest.raises(ZeroDivisionError):
            await streamed(reducer, ["a"], ZeroDivisionError())

    run(body)


def test_a_write_error_keeps_the_result():
    """The result is not lost with the write (L09 failed the tool)."""

    class Down(MemoryEnvironment):
        async def write_file(self, path, content, **options):
            raise Unavailable("down")

    async def body(reducer):
        text = "x" * 90_000
        assert await reducer.truncate(CALL, text) is text
        assert await streamed(reducer, [text]) == text

    run(body, Down())


SAMPLES = [
    ("one", "1: one"),
    ("a\nb\nc", "1: a\n2: b\n3: c"),
    ("a\nb\n", "1: a\n2: b"),
    ("\n".join("abcdefghijkl"), "\n".join(f"{n}: {c}" for n, c in enumerate("abcdefghij", 1))),
    ("a" * 1_500, "1: " + "a" * 1_000),
    ("你" * 1_500, "1: " + "你" * 1_000),
    ("a\r\nb\r\n", "1: a\n2: b"),
    ("", None),
    ("z" * 70_000, "1: " + "z" * 1_000),
]


@pytest.mark.parametrize(("text", "sample"), SAMPLES)
def test_the_sample_has_ten_lines_of_a_thousand_characters(text, sample):
    """Numbered from 1; a line of 64 KiB or more is sampled like any other (L10; there it was empty)."""
    assert shape_of("sample", text, 1_000_000) == sample


@pytest.mark.parametrize("items", [[], [""], ["a"], ["a", "", "b", ""], ["", ""]])
def test_streams_are_joined_whatever_their_chunks(items):
    """One, many, empty and mixed chunks give the same text (L11)."""

    async def body(reducer):
        assert await streamed(reducer, items) == "".join(items)

    run(body)


# ---- clearing as it was: a threshold and a number of recent tokens ----------------------------------------------------


def history(*results: str) -> list[dict[str, Any]]:
    messages = []
    for number, result in enumerate(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "T", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    return messages


def contents(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


def clear(messages: list[dict[str, Any]], *, threshold: int, keep: int, **options: Any) -> list[str]:
    config = ReducerConfig(
        skip_truncation=True,
        max_tokens_for_clear=threshold,
        clear_target_tokens=keep,
        clear_retention_suffix_limit=0,
        **options,
    )
    return contents(asyncio.run(Reducer(None, config).clear(messages)).messages)


RESULTS = ("one " * 100, "two " * 100, "three " * 100)
GONE = "[Old T result cleared]"


def test_old_results_go_until_only_the_recent_ones_are_left():
    """Under the threshold nothing, over it the oldest; what fits into the recent tokens is protected (G01-G03, G08)."""
    assert clear(history(*RESULTS), threshold=10_000, keep=0) == list(RESULTS)
    assert clear(history(*RESULTS), threshold=300, keep=250) == [GONE, GONE, RESULTS[2]]
    assert clear(history(*RESULTS), threshold=300, keep=0) == [GONE] * 3
    assert clear(history(*RESULTS), threshold=1_000, keep=1_000) == list(RESULTS)


def test_the_placeholder_can_be_ones_own():
    """A template replaces the text (G04)."""
    mine = {"cleared_unsaved": "[gone: {tool}]"}
    assert clear(history(*RESULTS), threshold=300, keep=250, templates=mine)[0] == "[gone: T]"


def test_histories_without_results_are_left():
    """No messages, and no tool messages (G05)."""
    assert clear([], threshold=0, keep=0) == []
    assert clear([{"role": "user", "content": "x" * 9_000}], threshold=10, keep=0) == []


def test_words_can_be_counted_and_cleared_results_count_as_they_are():
    """The counter is the caller's; what is cleared already is short and is not cleared again (G06, G07)."""

    def words(item: Any) -> int:
        return len((item.get("content") or "").split())

    assert clear(history(*RESULTS), threshold=250, keep=210, token_counter=words) == [GONE, *RESULTS[1:]]
    assert clear(history(GONE, *RESULTS[1:]), threshold=250, keep=210, token_counter=words) == [GONE, *RESULTS[1:]]
