"""Streaming tools: chunks pass at once up to the limit, the rest is stored as it arrives, and nothing is ever lost."""

import asyncio
import inspect
import json
import time
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.environments import MemoryEnvironment
from stead.errors import Unavailable
from stead.reducer import Reduced, Reducer, ReducerConfig, Report, ToolCall, handler
from stead.reducer.spool import Spool

CALL = ToolCall("c1", "Execute")


class Source:
    """A stream that says how far it was read and whether it was closed."""

    def __init__(self, items, error=None, step=None):
        self.items, self.error, self.step = items, error, step
        self.given = 0
        self.closed = False

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        try:
            for item in self.items:
                if self.step is not None:
                    await self.step()
                self.given += 1
                yield item
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


def run(body, environment=None, *, reports=None, **options: Any):
    """Runs `body(reducer)` with a reducer over a fresh environment."""

    async def main():
        async with environment or MemoryEnvironment() as env:
            config = ReducerConfig(**{"session_id": "s", "max_length_for_trunc": 1_000, **options})
            async with Reducer(env, config, on_report=None if reports is None else reports.append) as reducer:
                return await body(reducer)

    return asyncio.run(main())


async def collect(reducer, source, call=CALL):
    async with aclosing(reducer.truncate_stream(call, source)) as chunks:
        return [chunk async for chunk in chunks]


def path_in(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(".stead/offloads/"))


LINES = [f"line {n} {'x' * 40}\n" for n in range(500)]
FULL = "".join(LINES)


def test_chunks_pass_at_once_and_one_notice_ends_the_stream():
    """The first chunk is there while the source still runs; nothing comes after the limit but one notice (S01)."""

    async def body(reducer):
        source = Source(LINES)
        seen = []
        async with aclosing(reducer.truncate_stream(CALL, source)) as chunks:
            async for chunk in chunks:
                seen += [(chunk, source.given)]
        assert seen[0] == (LINES[0], 1)
        assert seen[-2][1] < 30
        assert seen[-1][1] == 500
        whole = "".join(chunk for chunk, _ in seen)
        assert len(whole) <= 1_000
        assert whole.startswith(LINES[0] + LINES[1])
        assert f"Execute returned {len(FULL)} characters in 500 lines" in seen[-1][0]
        assert await reducer.offloads.read(path_in(whole)) == FULL.encode()
        assert source.closed

    run(body)


@pytest.mark.parametrize("length", [0, 1, 500, 999, 1_000])
def test_what_fits_arrives_whole_and_stores_nothing(length):
    """Up to the limit the stream is the source's, chunk for chunk as text, without a notice (S02)."""

    async def body(reducer):
        items = [("0123456789" * 100)[i : i + 7] for i in range(0, length, 7)]
        items[-1:] = [items[-1][: length - 7 * (len(items) - 1)]] if items else []
        assert "".join(await collect(reducer, Source(items))) == "".join(items)
        assert await reducer.offloads.list() == []

    run(body)


def test_a_source_that_fails_before_the_limit_gives_all_it_had_and_its_error():
    """Every chunk, held back or not, then the source's own error (S03)."""

    async def body(reducer):
        seen = []
        with pytest.raises(ZeroDivisionError):
            async with aclosing(reducer.truncate_stream(CALL, Source(LINES[:15], ZeroDivisionError()))) as chunks:
                async for chunk in chunks:
                    seen += [chunk]
        assert "".join(seen) == "".join(LINES[:15])

    run(body)


def test_a_source_that_fails_after_the_limit_leaves_a_notice_and_its_error():
    """What came is stored and named before the error rises, and the record says that it is not complete (S09)."""

    async def body(reducer):
        seen = []
        with pytest.raises(ZeroDivisionError):
            async with aclosing(reducer.truncate_stream(CALL, Source(LINES, ZeroDivisionError()))) as chunks:
                async for chunk in chunks:
                    seen += [chunk]
        assert "ended early" in seen[-1]
        assert await reducer.offloads.read(path_in(seen[-1])) == FULL.encode()
        (record,) = await reducer.offloads.list()
        assert not record.complete

    run(body)


class Failing(MemoryEnvironment):
    """Content cannot be written; an error of None hangs."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error

    async def write_file(self, path, content, **options):
        if self.error is None:
            await asyncio.sleep(60)
        raise self.error


@pytest.mark.parametrize("error", [OSError("no space"), Unavailable("down"), None], ids=["os", "down", "hangs"])
def test_a_store_that_fails_loses_nothing_under_any_policy(error):
    """keep hands the text on, truncate says that the rest is gone, raise raises, each within the time (S06)."""

    async def keep(reducer):
        assert "".join(await collect(reducer, Source(LINES))) == FULL

    async def truncate(reducer):
        whole = "".join(await collect(reducer, Source(LINES)))
        assert "not available" in whole
        assert ".stead" not in whole
        assert len(whole) <= 1_000

    async def fail(reducer):
        with pytest.raises(Unavailable if error is None else type(error)):
            await collect(reducer, Source(LINES))

    for policy, body in (("keep", keep), ("truncate", truncate), ("raise", fail)):
        reports: list[Report] = []
        run(body, Failing(error), on_offload_error=policy, offload_timeout=0.1, reports=reports)
        assert [d.action for r in reports for d in r.decisions] == ["failed"]


def test_a_consumer_that_leaves_early_finds_the_rest_stored():
    """After `aclose` the source is closed, and all that it gave is stored as an incomplete offload."""
    reports: list[Report] = []

    async def body(reducer):
        source = Source(LINES)
        async with aclosing(reducer.truncate_stream(CALL, source)) as chunks:
            async for _ in chunks:
                if source.given >= 500:
                    break
        assert source.closed

    async def leaves_in_the_middle(reducer):
        gate = asyncio.Event()

        async def step():
            if source.given == 100:
                gate.set()
                await asyncio.sleep(30)

        source = Source(LINES, step=step)
        task = asyncio.create_task(collect(reducer, source))
        await gate.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.closed
        (record,) = await reducer.offloads.list()
        assert not record.complete
        assert await reducer.offloads.read(record.path) == "".join(LINES[:100]).encode()

    run(body)
    run(leaves_in_the_middle, reports=reports)
    assert "ended early" in reports[-1].decisions[0].reason


def test_held_back_text_is_stored_when_the_consumer_leaves():
    """Text below the limit that was held back for a notice is not lost with the consumer."""

    async def body(reducer):
        gate = asyncio.Event()

        async def step():
            if source.given == 19:
                gate.set()
                await asyncio.sleep(30)

        source = Source(LINES[:20], step=step)
        task = asyncio.create_task(collect(reducer, source))
        await gate.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (record,) = await reducer.offloads.list()
        assert await reducer.offloads.read(record.path) == "".join(LINES[:19]).encode()

    run(body)


def test_a_consumer_that_is_cancelled_within_an_item_finds_all_of_it_stored(monkeypatch):
    """A list of blocks came in as one: also those are stored that waited behind a slow local disk."""
    real = Spool._write

    def slow(self, block):
        time.sleep(0.2)
        real(self, block)

    monkeypatch.setattr(Spool, "_write", slow)
    blocks = [{"type": "text", "text": str(n) * 300_000} for n in range(3)]

    async def body(reducer):
        task = asyncio.ensure_future(collect(reducer, Source([blocks])))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reducer.flush()
        (record,) = await reducer.offloads.list()
        assert await reducer.offloads.read(record.path) == "".join(block["text"] for block in blocks).encode()

    run(body)


def test_a_stream_that_is_never_started_acquires_nothing():
    """Making and closing the generator reads nothing of the source."""

    async def body(reducer):
        source = Source(LINES)
        await reducer.truncate_stream(CALL, source).aclose()
        assert source.given == 0

    run(body)


def test_a_full_local_disk_hands_everything_on(monkeypatch):
    """If the text cannot be spooled it is handed on whole, in order, and the report says so."""
    reports: list[Report] = []
    written = 0
    real = Spool._write

    def full(self, block):
        nonlocal written
        written += len(block)
        if written > 600_000:
            raise OSError(28, "No space left on device")
        real(self, block)

    monkeypatch.setattr(Spool, "_write", full)
    text = [f"{n:07d}" * 1_000 for n in range(200)]

    async def body(reducer):
        assert "".join(await collect(reducer, Source(text))) == "".join(text)

    run(body, reports=reports)
    assert "local disk" in reports[0].decisions[0].reason
    reports.clear()

    async def lists(reducer):
        written_before = [{"type": "text", "text": part} for part in text]
        whole = await collect(reducer, Source([written_before[:150], written_before[150:]]))
        assert "".join(block["text"] for item in whole for block in item) == "".join(text)

    written = 0
    run(lists, reports=reports)
    assert "local disk" in reports[0].decisions[0].reason


def test_memory_stays_bounded_whatever_the_stream():
    """A stream of 64 MB of text costs less than 8 MB of memory beside what the environment holds."""

    class Counting(MemoryEnvironment):
        size = 0

        async def write_file(self, path, content, **options):
            if not hasattr(content, "__aiter__"):
                return await super().write_file(path, content, **options)
            async for piece in content:
                self.size += len(piece)
            return await super().write_file(path, b"", **options)

    async def body(reducer):
        chunk = "0123456789abcde\n" * 4_096
        tracemalloc.start()
        try:
            await collect(reducer, Source(chunk for _ in range(1_000)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert reducer.environment.size == len(chunk) * 1_000
        assert peak < 8_000_000

    run(body, Counting(), max_length_for_trunc=50_000)


def test_the_store_gets_the_text_while_the_source_still_runs():
    """The write begins when the limit is passed, not when the source ends."""
    begun = asyncio.Event()

    class Watching(MemoryEnvironment):
        async def write_file(self, path, content, **options):
            if hasattr(content, "__aiter__"):
                begun.set()
            return await super().write_file(path, content, **options)

    async def step():
        if source.given == 400:
            await asyncio.wait_for(begun.wait(), 10)

    source = Source(LINES, step=step)
    run(lambda reducer: collect(reducer, source), Watching())
    assert source.given == 500


def test_equal_streams_are_stored_once_and_others_apart():
    """The same stream again, and the same text from a plain tool, share a file; another end makes another file."""

    async def body(reducer):
        first = path_in("".join(await collect(reducer, Source(LINES))))
        again = path_in("".join(await collect(reducer, Source(LINES), ToolCall("c2", "Execute"))))
        plain = path_in(await reducer.truncate(ToolCall("c3", "Execute"), FULL))
        other = path_in("".join(await collect(reducer, Source([*LINES, "more\n"]))))
        assert first == again == plain != other
        assert await reducer.offloads.read(other) == (FULL + "more\n").encode()

    run(body)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_stored_bytes_are_the_same_as_those_of_a_plain_tool(compression):
    """Streamed or not, the offload reads back as the same text."""

    async def streamed(reducer):
        return await reducer.offloads.read(path_in("".join(await collect(reducer, Source(LINES)))))

    async def plain(reducer):
        return await reducer.offloads.read(path_in(await reducer.truncate(CALL, FULL)))

    assert run(streamed, compression=compression) == run(plain, compression=compression) == FULL.encode()


def test_parted_surrogates_are_one_character_again():
    """Halves of a pair in two chunks are stored as the character; a lone half becomes U+FFFD."""

    async def body(reducer):
        items = ["x" * 2_000, "\ud83d", "\ude00", "y\ud83d", "z", "\ud83d"]
        whole = "".join(await collect(reducer, Source(items)))
        stored = (await reducer.offloads.read(path_in(whole))).decode()
        assert stored == "x" * 2_000 + "\U0001f600y\ufffdz\ufffd"

    run(body)


def test_blocks_keep_their_kind_and_media_is_never_swallowed():
    """Text blocks count together, pictures pass whole also after the limit, and the notice is a text block (S10)."""

    async def body(reducer):
        image = {"type": "image", "data": "aGk=" * 100}
        late = {"type": "image", "data": "bG8=" * 100}
        items = [[{"type": "text", "text": line}] for line in LINES[:40]]
        items[3:3] = [[image]]
        items.append([late, {"type": "text", "text": "end"}])
        out = [block for item in await collect(reducer, Source(items)) for block in item]
        assert [block for block in out if block["type"] == "image"] == [image, late]
        assert out[3] is image
        assert out[-1]["type"] == "text"
        texts = [block["text"] for block in out if block["type"] == "text"]
        assert sum(map(len, texts)) <= 1_000
        assert await reducer.offloads.read(path_in(texts[-1])) == ("".join(LINES[:40]) + "end").encode()

    run(body)


def test_blocks_below_the_limit_keep_their_order():
    """A picture after held-back text does not overtake it."""

    async def body(reducer):
        items = [{"type": "text", "text": "a" * 900}, {"type": "image", "data": "x"}, {"type": "text", "text": "b"}]
        out = await collect(reducer, Source(items))
        assert "".join(block.get("text", "#") for block in out) == "a" * 900 + "#b"

    run(body)


def test_an_excluded_streaming_tool_passes_whole():
    """Neither exclusion nor the reader's exemption stores anything (S14)."""

    async def body(reducer):
        for name in ("Tail", "ReadFile"):
            assert await collect(reducer, Source(LINES), ToolCall("c", name)) == LINES
        assert await reducer.offloads.list() == []

    run(body, trunc_exclude_tools=["Tail"])


def test_a_handler_gets_the_whole_result_of_a_stream():
    """It answers for the joined text; None gives every original chunk (S11, S13)."""
    got = []

    async def shorten(call, result):
        got.append(result)
        return Reduced("short: {path}", offload=result) if len(result) > 100 else None

    async def body(reducer):
        (shown,) = await collect(reducer, Source(LINES))
        assert await reducer.offloads.read(shown.removeprefix("short: ")) == FULL.encode()
        assert await collect(reducer, Source(["a", "b"])) == ["a", "b"]
        assert got == [FULL, "ab"]

    run(body, trunc_handler=shorten)


async def seen_before_the_error(reducer):
    """What a consumer gets of a source that fails after ten chunks."""
    seen = []
    with pytest.raises(ZeroDivisionError):
        async with aclosing(reducer.truncate_stream(CALL, Source(LINES[:10], ZeroDivisionError()))) as chunks:
            async for chunk in chunks:
                seen += [chunk]
    return seen


def test_a_source_that_fails_under_a_handler_gives_its_chunks_and_error():
    """Ten chunks and then the error reach the consumer; the handler is not asked (S12)."""

    async def never(call, result):
        raise AssertionError("asked")

    async def body(reducer):
        assert await seen_before_the_error(reducer) == LINES[:10]

    run(body, trunc_handler=never)


def test_a_streaming_handler_is_strictly_incremental():
    """A handler made with `streaming=True` gets an iterator and may return one; None passes the source on."""

    @handler(streaming=True)
    async def upper(call, result):
        if call.name == "Leave":
            assert await anext(result) == LINES[0]
            return None

        async def made():
            async for chunk in result:
                yield chunk.upper()

        return made()

    async def body(reducer):
        source = Source(LINES)
        async with aclosing(reducer.truncate_stream(CALL, source)) as chunks:
            assert await anext(chunks) == LINES[0].upper()
            assert source.given == 1
        assert source.closed
        assert await collect(reducer, Source(LINES), ToolCall("c", "Leave")) == LINES

    run(body, trunc_handler=upper)


def test_a_streaming_handler_that_read_a_part_loses_nothing():
    """If its offload cannot be stored, or the source fails under it, every chunk of the source is handed on."""

    @handler(streaming=True)
    async def first_three(call, result):
        got = [await anext(result) for _ in range(3)]
        return Reduced("short: {path}", offload="".join(got))

    @handler(streaming=True)
    async def read_on(call, result):
        return Reduced("never", offload="".join([chunk async for chunk in result]))

    async def store_fails(reducer):
        assert await collect(reducer, Source(LINES)) == LINES

    async def source_fails(reducer):
        assert await seen_before_the_error(reducer) == LINES[:10]

    run(store_fails, Failing(Unavailable("down")), trunc_handler=first_three)
    run(source_fails, trunc_handler=read_on)


def test_what_a_handler_raises_reaches_the_consumer():
    """For streams as for plain results (T10)."""

    async def broken(call, result):
        raise KeyError("mine")

    async def body(reducer):
        with pytest.raises(KeyError):
            await collect(reducer, Source(LINES))

    run(body, trunc_handler=broken)


def test_generator_tools_are_wrapped_as_generators():
    """Async and sync generator tools become async generator functions with their signature; errors pass (T09)."""

    async def count(upto: int) -> AsyncGenerator[str, None]:
        for n in range(upto):
            yield f"{n}\n"

    def count_now(upto: int):
        for n in range(upto):
            yield f"{n}\n"
            if n == 4_999:
                raise ZeroDivisionError

    async def body(reducer):
        for tool in (count, count_now):
            wrapped = reducer.wrap(tool)
            assert inspect.isasyncgenfunction(wrapped)
            assert inspect.signature(wrapped) == inspect.signature(tool)
            async with aclosing(wrapped(3)) as chunks:
                assert [chunk async for chunk in chunks] == ["0\n", "1\n", "2\n"]
            async with aclosing(wrapped(upto=2_000)) as chunks:
                whole = "".join([chunk async for chunk in chunks])
            assert len(whole) <= 1_000
            assert (await reducer.offloads.read(path_in(whole))).count(b"\n") == 2_000
        with pytest.raises(ZeroDivisionError):
            async with aclosing(reducer.wrap(count_now)(9_999)) as chunks:
                async for _ in chunks:
                    pass

    run(body)


def test_redaction_runs_over_chunk_borders_before_anything_leaves():
    """A secret that is parted by a chunk border is neither forwarded, shown nor stored."""

    def redact(line):
        return line.replace("hunter2", "***")

    async def body(reducer):
        text = "".join(f"{n} password=hunter2 {'.' * 30}\n" for n in range(200)) + "tail hunter2"
        items = [text[i : i + 5] for i in range(0, len(text), 5)]
        whole = "".join(await collect(reducer, Source(items)))
        stored = (await reducer.offloads.read(path_in(whole))).decode()
        assert stored == text.replace("hunter2", "***")
        assert "hunter2" not in whole
        assert "tail ***" in whole or "***" in whole

    run(body, redact=redact)


def test_the_record_repeats_what_the_model_saw():
    """Forwarded text and notice together are known again: truncating or clearing them stores nothing anew."""

    async def body(reducer):
        whole = "".join(await collect(reducer, Source(LINES)))
        call = {"id": "c1", "type": "function", "function": {"name": "Execute", "arguments": "{}"}}
        history = [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": whole},
        ]
        outcome = await reducer.clear(history)
        assert path_in(whole) in outcome.messages[1]["content"]
        assert {record.path for record in await reducer.offloads.list()} == {path_in(whole)}

    run(body, max_tokens_for_clear=10, clear_retention_suffix_limit=0)


@settings(max_examples=40, deadline=None)
@given(
    pieces=st.lists(st.text(st.characters(codec="utf-8"), max_size=400), max_size=12),
    limit=st.integers(1, 2_500),
    language=st.sampled_from(["en", "zh"]),
)
def test_streaming_and_plain_decide_alike(pieces, limit, language):
    """For any text in any chunks: both reduce it or neither does, both stay within the same bound, both store it."""
    text = "".join(pieces)

    async def body(reducer):
        plain = await reducer.truncate(ToolCall("p", "T"), text)
        streamed = "".join(await collect(reducer, Source(pieces), ToolCall("p", "T")))
        assert (plain == text) == (streamed == text)
        if streamed != text:
            assert len(streamed) < len(text)
            assert await reducer.offloads.read(path_in(streamed)) == text.encode()
        json.dumps(streamed).encode()

    run(body, max_length_for_trunc=limit, language=language)
