"""Redaction: nothing is stored or repeated that it takes out, and where it fails nothing is lost."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from stead.environments import MemoryEnvironment
from stead.reducer import Reduced, Reducer, ReducerConfig, Report, ToolCall, handler

CALL = ToolCall("c1", "Execute")
SECRET = "SECRET123"
LONG = [f"{n:04d} {'x' * 94}" for n in range(60)]


def redact(line: str) -> str:
    return line.replace(SECRET, "***")


def run(body, *, reports=None, **options: Any):
    """Runs `body(reducer, environment)`; no file may hold the secret afterwards."""

    async def main():
        async with MemoryEnvironment() as env:
            settings = {"session_id": "s", "max_length_for_trunc": 1_000, "max_tokens_for_clear": 100, "redact": redact}
            config = ReducerConfig(**{**settings, "clear_target_tokens": 0, **options})
            await body(Reducer(env, config, on_report=None if reports is None else reports.append), env)
            stored = [
                await env.read_file(file.path)
                async for file in env.list_files(".", recursive=True)
                if file.kind == "file"
            ]
            assert not any(SECRET.encode() in data for data in stored)
            return stored

    return asyncio.run(main())


async def items_of(*items, error=None):
    for item in items:
        yield item
    if error is not None:
        raise error


async def collect(reducer, source):
    async with aclosing(reducer.truncate_stream(CALL, source)) as chunks:
        return [chunk async for chunk in chunks]


def openai(arguments: dict[str, Any], content: Any) -> list[dict[str, Any]]:
    call = {"id": "a", "type": "function", "function": {"name": "T", "arguments": json.dumps(arguments)}}
    newest = {"id": "b", "type": "function", "function": {"name": "T", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": content},
        {"role": "assistant", "content": None, "tool_calls": [newest]},
        {"role": "tool", "tool_call_id": "b", "content": "new"},
    ]


def anthropic(content: Any) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = []
    for name, held in (("a", content), ("b", "new")):
        use = {"type": "tool_use", "id": name, "name": "T", "input": {}}
        result = {"type": "tool_result", "tool_use_id": name, "content": held}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return history


# ---- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["ends", "fails"])
def test_a_first_line_longer_than_the_limit_is_stored(error):
    """The redaction waits for the line's end, which comes after the limit; a source's error stays its own."""

    async def body(reducer, env):
        seen = []
        try:
            async with aclosing(reducer.truncate_stream(CALL, items_of(*LONG, error=error))) as chunks:
                async for chunk in chunks:
                    seen += [chunk]
        except ZeroDivisionError:
            assert error is not None
        (record,) = await reducer.offloads.list()
        assert await reducer.offloads.read(record.path) == "".join(LONG).encode()
        assert record.path in "".join(seen)
        assert len("".join(seen)) <= 1_000

    run(body)


def test_a_consumer_that_leaves_within_the_first_line_finds_it_stored():
    """What the redaction still held is stored when the stream is closed."""

    async def body(reducer, env):
        async with aclosing(reducer.truncate_stream(CALL, items_of("ok\nand", *LONG))) as chunks:
            assert await anext(chunks) == "ok\n"
        (record,) = await reducer.offloads.list()
        assert await reducer.offloads.read(record.path) == b"ok\nand"

    run(body)


def test_a_picture_stays_where_it_was_between_two_texts():
    """An open line ends before a block that is no text, so the order stays."""
    image = {"type": "image", "data": "x"}
    blocks = [{"type": "text", "text": f"before {SECRET}"}, image, {"type": "text", "text": "after\n"}]

    async def body(reducer, env):
        expected = [{"type": "text", "text": "before ***"}, image, {"type": "text", "text": "after\n"}]
        assert await collect(reducer, items_of(*blocks)) == expected
        whole = await collect(reducer, items_of(blocks))
        assert [block for item in whole for block in item] == expected

    run(body)


# ---- a redaction that fails ------------------------------------------------------------------------------------------


def broken(line: str) -> str:
    if "0030" in line:
        raise ValueError("cannot redact")
    return line


LINES = "".join(f"{line}\n" for line in LONG)


def test_a_redaction_that_fails_is_a_store_that_failed():
    """keep gives everything, truncate shows and stores nothing of it, raise raises; streams and texts alike."""

    async def keep(reducer, env):
        assert await reducer.truncate(CALL, LINES) == LINES
        assert "".join(await collect(reducer, items_of(*LINES.splitlines(keepends=True)))) == LINES

    async def truncate(reducer, env):
        assert "(cannot redact)" in await reducer.truncate(CALL, LINES)
        blocks = await reducer.truncate(CALL, [{"type": "text", "text": LINES}, {"type": "text", "text": "0030"}])
        assert [len(blocks), "0030" in blocks[0]["text"]] == [1, False]
        streamed = "".join(await collect(reducer, items_of(*LINES.splitlines(keepends=True))))
        assert "(cannot redact)" in streamed
        assert "0030" not in streamed
        assert len(streamed) <= 1_000

    async def fail(reducer, env):
        with pytest.raises(ValueError, match="cannot redact"):
            await reducer.truncate(CALL, LINES)
        with pytest.raises(ValueError, match="cannot redact"):
            await collect(reducer, items_of(*LINES.splitlines(keepends=True)))

    for policy, body in (("keep", keep), ("truncate", truncate), ("raise", fail)):
        reports: list[Report] = []
        assert run(body, redact=broken, on_offload_error=policy, reports=reports) == []
        assert {d.action for r in reports for d in r.decisions} == {"failed"}


def test_a_redaction_that_fails_below_the_limit_changes_nothing():
    """A stream that fits is handed on, as a text that fits is."""

    async def body(reducer, env):
        assert "".join(await collect(reducer, items_of("0001 a\n", "0030 b", " c\n", "d"))) == "0001 a\n0030 b c\nd"

    run(body, redact=broken)


def test_a_redaction_that_ends_an_iteration_does_not_hang():
    """StopIteration cannot leave a thread, in which long texts are redacted."""
    text = "x\n" * 1_500_000

    async def body(reducer, env):
        assert await asyncio.wait_for(reducer.truncate(CALL, text), 30) is text

    run(body, redact=lambda line: next(iter("")))


# ---- what else is stored ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offload", [f"{SECRET} x" * 100, f"{SECRET} x".encode() * 100], ids=["text", "bytes"])
def test_what_handlers_store_is_redacted(offload):
    """In both phases and from streams; bytes that are no text are stored as they are."""

    async def reduce(call, result):
        return Reduced(f"{SECRET} in {{path}}", offload=offload, arguments={"key": SECRET} if result else None)

    @handler(streaming=True)
    async def reduce_stream(call, source):
        return Reduced("in {path}", offload=await anext(source))

    async def body(reducer, env):
        await reducer.truncate(CALL, "x" * 2_000)
        history = openai({"key": SECRET}, "x" * 3_000)
        first = await reducer.clear(history)
        again = Reducer(env, reducer.config)
        assert (await again.clear(history)).messages == first.messages
        assert "*** in .stead" in first.messages[1]["content"]

    async def stream(reducer, env):
        await collect(reducer, items_of(offload))

    run(body, trunc_handler=reduce, clear_handler=reduce)
    assert len(run(stream, trunc_handler=reduce_stream)) == 2
    picture = b"\x89PNG" + SECRET[:4].encode()

    async def as_it_is(call, result):
        return Reduced("x", offload=picture)

    async def store(reducer, env):
        await reducer.truncate(CALL, "x")

    assert picture in run(store, trunc_handler=as_it_is)


def test_short_arguments_are_redacted_beside_long_ones():
    """The record and the message have the same, in this process and the next; the path in a marker stays."""

    def strict(line):
        return "***" if ".stead" in line or SECRET in line else line

    async def body(reducer, env):
        history = openai({"key": SECRET, "path": "a.py", "deep": {"key": [SECRET]}, "content": "x" * 5_000}, "ok")
        first = await reducer.clear(history)
        cleared = json.loads(first.messages[0]["tool_calls"][0]["function"]["arguments"])
        assert cleared["key"] == "***"
        assert cleared["deep"] == {"key": ["***"]}
        assert cleared["path"] == "a.py"
        path = cleared["content"].rpartition(" ")[2].rstrip("]")
        assert await reducer.offloads.read(path)
        assert (await Reducer(env, reducer.config).clear(history)).messages == first.messages

    run(body, redact=strict)


def test_a_rewritten_round_is_redacted():
    """Texts and arguments in it, but neither ids nor paths; the next process repeats it byte for byte."""

    def rewrite(call, results):
        return [call, *({**result, "content": f"short {SECRET}"} for result in results)]

    async def body(reducer, env):
        history = openai({"key": SECRET}, "z " * 3_000)
        first = await reducer.clear(history)
        assert first.messages[1] == {"role": "tool", "tool_call_id": "a", "content": "short ***"}
        assert first.messages[0]["tool_calls"][0]["function"]["arguments"] == '{"key": "***"}'
        assert (await Reducer(env, reducer.config).clear(history)).messages == first.messages

    run(body, clear_message_rewriter=rewrite, redact=lambda line: "***" if line == "a" else redact(line))


@pytest.mark.parametrize("source", ["page", "https://example.org"])
def test_texts_in_other_blocks_are_redacted(source):
    """A search result is stored as JSON, or kept in the record if it names an address."""
    found = {"type": "search_result", "source": source, "content": [{"type": "text", "text": f"{SECRET} x" * 1_000}]}

    async def body(reducer, env):
        first = await reducer.clear(anthropic([{"type": "text", "text": "hello"}, found]))
        assert "cleared" in first.messages[1]["content"][0]["content"]

    assert any(b"*** x" in data for data in run(body))
