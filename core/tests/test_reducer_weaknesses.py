"""The known weaknesses of the reducer that this one is modelled on, one test each: ours does not have it."""

import asyncio
import copy
import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from stead.environments import MemoryEnvironment
from stead.errors import ConfigError, Unavailable
from stead.reducer import Reduced, Reducer, ReducerConfig, Report, ToolCall, ToolConfig
from stead.reducer.messages.openai_chat import OpenAIChat
from stead.reducer.tokens import TokenMeter
from stead.tools import toolset


def asks(*ids: str, name: str = "Read", arguments: str = "{}") -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def says(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def old(*ids: str, size: int = 4_000) -> list[dict[str, Any]]:
    return [asks(*ids), *(says(i, f"{i} " * (size // 2)) for i in ids)]


PLAIN = {"role": "assistant", "content": "I see."}
USER = {"role": "user", "content": "Go on."}
LONG = "".join(f"line {n}\n" for n in range(2_000))
CALL = ToolCall("c", "T")


class Watched(MemoryEnvironment):
    """Remembers what was written, and fails when told."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.down = False

    async def write_file(self, path, content, **options):
        if self.down:
            raise Unavailable("down")
        self.written.append(str(path))
        return await super().write_file(path, content, **options)


def run(body, *, reports: list[Report] | None = None, **options: Any):
    async def main():
        async with Watched() as env:
            base = {"session_id": "s", "max_length_for_trunc": 1_000, "max_tokens_for_clear": 100}
            config = ReducerConfig(**{**base, "clear_target_tokens": 0, **options})
            return await body(Reducer(env, config, on_report=None if reports is None else reports.append))

    return asyncio.run(main())


def path_in(text: str) -> str:
    return next(word.rstrip("().,:]>") for word in text.split() if word.startswith(".stead/"))


async def stream(reducer: Reducer, items: list[Any], call: ToolCall = CALL) -> list[Any]:
    async def source():
        for item in items:
            yield item

    async with aclosing(reducer.truncate_stream(call, source())) as chunks:
        return [chunk async for chunk in chunks]


def test_b1_a_cleared_round_is_never_cleared_again():
    """A plain assistant message before old rounds changes nothing: no file is overwritten by a placeholder."""

    async def body(reducer):
        history = [USER, PLAIN, *old("a"), PLAIN, *old("b")]
        first = (await reducer.clear(history)).messages
        second = (await reducer.clear([*first, USER, PLAIN, *old("c")])).messages
        assert second[3] is first[3]
        assert await reducer.offloads.read(path_in(second[3]["content"])) == history[3]["content"].encode()
        written = reducer.environment.written
        assert len(written) == len(set(written))

    run(body)


def test_b2_equal_ids_do_not_collide():
    """Two calls with one id in one message: both results are cleared, each under its own text."""

    async def body(reducer):
        history = [asks("k", "k"), says("k", "one " * 1_000), says("k", "two " * 1_000), *old("z")]
        messages = (await reducer.clear(history)).messages
        assert await reducer.offloads.read(path_in(messages[1]["content"])) == b"one " * 1_000
        assert await reducer.offloads.read(path_in(messages[2]["content"])) == b"two " * 1_000

    run(body)


def test_b3_ids_are_never_paths():
    """Traversal and very long ids stay inside the folder of their phase."""

    async def body(reducer):
        for call_id in ("../../etc/passwd", "/etc/passwd", "x" * 1_500):
            await reducer.truncate(ToolCall(call_id, "T"), call_id + LONG)
            await reducer.clear([*old(call_id), *old("z")])
        assert all(path.startswith(".stead/offloads/s/") and ".." not in path for path in reducer.environment.written)
        assert max(len(path.rsplit("/", 1)[1]) for path in reducer.environment.written) < 100

    run(body)


def test_b4_reading_back_does_not_loop():
    """One long line, offloaded, can be read to its end by the read tool through the reducer, and nothing new is made."""
    from stead.tools import toolset

    async def body(reducer):
        text = "x" * 100_000 + "END"
        path = path_in(await reducer.truncate(CALL, text))
        before = list(reducer.environment.written)
        read = reducer.wrap(toolset(reducer.environment, offloads=reducer, number_lines=False)["ReadFile"])
        got, column = "", 1
        for _ in range(10):
            page = await read(path=path, start_line=1, start_column=column)
            got += page["content"]
            if not page["truncated"]:
                break
            column = page["next_start_column"]
        assert "END" in got
        assert reducer.environment.written == before

    run(body)


def test_b5_schemas_media_and_other_scripts_count():
    """A tool's parameter description, a picture and Chinese text have their tokens."""

    async def body(reducer):
        schema = {"name": "T", "parameters": {"properties": {"x": {"description": "words " * 1_000}}}}
        picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}
        counted = [
            (await reducer.clear([message], tools=tools)).report.before_tokens
            for message, tools in (
                (USER, []),
                (USER, [schema]),
                (picture, []),
                ({"role": "user", "content": "汉" * 400}, []),
            )
        ]
        assert counted[1] - counted[0] >= 1_000
        assert counted[2] >= 250
        assert counted[3] >= 400

    run(body, max_tokens_for_clear=10**9)


def test_b6_one_policy_for_all_modes():
    """A store that is down: plain, streamed and cleared results are whole under `keep`, and raise under `raise`."""

    async def keeps(reducer):
        reducer.environment.down = True
        assert await reducer.truncate(CALL, LONG) == LONG
        assert "".join(await stream(reducer, [LONG])) == LONG
        history = [*old("a"), *old("b")]
        assert (await reducer.clear(history)).messages == history

    async def raises(reducer):
        reducer.environment.down = True
        for work in (reducer.truncate(CALL, LONG), stream(reducer, [LONG]), reducer.clear([*old("a"), *old("b")])):
            with pytest.raises(Unavailable):
                await work

    run(keeps)
    run(raises, on_offload_error="raise")


def test_b7_neither_messages_nor_results_are_edited_in_place():
    """A tool's own result object, and the history, are equal to a copy, also after a failed write."""

    @dataclass
    class Result:
        content: list[dict[str, Any]]

    async def body(reducer):
        result = Result([{"type": "text", "text": LONG}])
        history = [*old("a"), *old("b")]
        before = copy.deepcopy((result, history))
        for reducer.environment.down in (True, False):
            await reducer.truncate(CALL, result)
            await reducer.clear(history)
            assert (result, history) == before

    run(body)


def test_b8_memory_of_a_stream_is_bounded_and_an_early_close_saves():
    """See test_reducer_stream for the memory; what was swallowed before the close is stored."""

    async def body(reducer):
        source_items = [LONG, LONG]

        async def source():
            for item in source_items:
                yield item
            await asyncio.sleep(60)

        async with aclosing(reducer.truncate_stream(CALL, source())) as chunks:
            assert await anext(chunks)
            task = asyncio.ensure_future(anext(chunks))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        (record,) = await reducer.offloads.list()
        assert await reducer.offloads.read(record.path) == (LONG + LONG).encode()

    run(body)


@pytest.mark.parametrize("sizes", [[101], [60, 41], [10, 95], [50, 50, 50], [1] * 150, [199]])
def test_b9_a_result_never_grows(sizes):
    """The sizes that grew: none does, in blocks or as one text."""

    async def body(reducer):
        blocks = [{"type": "text", "text": "x" * size} for size in sizes]
        out = await reducer.truncate(CALL, blocks)
        assert sum(len(block["text"]) for block in out) <= sum(sizes)
        assert len(await reducer.truncate(CALL, "x" * sum(sizes))) <= sum(sizes)

    run(body, max_length_for_trunc=100)


def test_b10_settings_mean_what_they_say():
    """A tool's environment, skip flags, a retention of 0 and the strict limit hold; negative numbers are refused."""

    async def handler(call, result):
        raise AssertionError("a skipped tool's handler was called")

    async def body(reducer):
        assert await reducer.truncate(ToolCall("c", "Quiet"), LONG) is LONG
        assert "".join(await stream(reducer, [LONG], ToolCall("c", "Quiet"))) == LONG
        exact = "x" * 1_000
        assert await reducer.truncate(CALL, exact) is exact
        assert "".join(await stream(reducer, [exact])) == exact
        assert (await reducer.clear(old("a"))).changed

    quiet = ToolConfig(skip_truncation=True, trunc_handler=handler)
    run(body, tool_config={"Quiet": quiet}, clear_retention_suffix_limit=0)
    for name in ("max_length_for_trunc", "max_tokens_for_clear", "clear_retention_suffix_limit"):
        with pytest.raises(ValueError, match=name):
            ReducerConfig(**{name: -1})


def test_a_toolset_counts_as_its_tools():
    """The mapping that `toolset` makes is taken for its tools, not for their names."""
    tools = toolset(MemoryEnvironment())

    async def body(reducer):
        return [
            (await reducer.clear([USER], tools=given)).report.before_tokens for given in ((), tools, tools.values())
        ]

    without, mapping, values = run(body, max_tokens_for_clear=10**9)
    assert mapping == values > without + 500


def test_b11_odd_values_do_not_crash():
    """None in the history, more retention than rounds, a tool entry of None, a handler's answer without parts."""

    async def empty(call, result):
        return Reduced("")

    async def body(reducer):
        assert await reducer.truncate(CALL, LONG) == ""
        messages = (await reducer.clear([None, *old("a")])).messages
        assert messages[0] is None
        assert messages[2]["content"] == ""

    run(body, trunc_handler=empty, clear_handler=empty, tool_config={"X": None}, clear_retention_suffix_limit=0)
    run(lambda reducer: reducer.clear(old("a")), clear_retention_suffix_limit=10**9)

    async def wrong(call, result):
        return "text"

    async def refuses(reducer):
        with pytest.raises(TypeError, match="Reduced"):
            await reducer.truncate(CALL, LONG)

    run(refuses, trunc_handler=wrong)


def test_nesting_without_end_is_cleared_like_anything_else():
    """A model may open brackets for ever: in arguments, as their JSON text or an object, and in a tool's blocks."""
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    blocks = [{"type": "text", "text": "word " * 800}, {"type": "new", "value": deep}]
    chat = [asks("a", arguments='{"a":' + "[" * 100_000), *old("b")[1:], says("a", "word " * 800), *old("z")]
    anthropic = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"deep": deep}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": blocks}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "short"}]},
    ]

    async def body(reducer):
        for history in (chat, anthropic):
            report = (await reducer.clear(history)).report
            assert [decision.action for decision in report.decisions] == ["reduced"]
            assert report.after_tokens < report.before_tokens

    run(body)


def test_b12_a_rewriter_never_gets_a_users_message():
    """With a result missing, the user's next message is not taken for it; orphan results stay."""
    got = []

    def rewriter(message, results):
        got.extend(results)
        return []

    async def body(reducer):
        history = [asks("a", "b"), says("a", "x" * 4_000), USER, says("stray", "y" * 4_000), *old("z")]
        assert (await reducer.clear(history)).messages == history
        assert got == []

    run(body, clear_message_rewriter=rewriter)


def test_b13_media_goes_with_its_result_and_is_never_lost():
    """A picture is cleared into a file of its own; after the cut of a stream it still reaches the model."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoA" * 900}}

    async def body(reducer):
        messages = (await reducer.clear([asks("p"), says("p", [image]), *old("z")])).messages
        assert isinstance(messages[1]["content"], str)
        (record,) = [r for r in await reducer.offloads.list() if r.media]
        assert len(await reducer.environment.read_file(record.media[0]["path"])) == 9 * 900
        out = await stream(reducer, [{"type": "text", "text": LONG}, image])
        assert any(item is image for item in out)

    run(body)


def test_b14_a_truncated_result_is_one_hop_away_after_clearing():
    """The cleared notice names the full text, not a copy of the first notice."""

    async def body(reducer):
        shown = await reducer.truncate(ToolCall("t", "Read"), LONG)
        messages = (await reducer.clear([asks("t"), says("t", shown), *old("z")])).messages
        assert await reducer.offloads.read(path_in(messages[1]["content"])) == LONG.encode()

    run(body)


def test_b15_streamed_blocks_are_stored_as_plain_lines():
    """Fragments of a streamed text are one text in the file, greppable by line."""

    async def body(reducer):
        blocks = [{"type": "text", "text": LONG[start : start + 700]} for start in range(0, len(LONG), 700)]
        await stream(reducer, blocks)
        (record,) = await reducer.offloads.list()
        assert await reducer.offloads.read(record.path) == LONG.encode()

    run(body)


def test_b16_passes_are_rare_and_an_abandoned_one_is_repeated_cheaply():
    """Between trigger and target many turns pass without an edit; below the least gain nothing is written."""

    async def body(reducer):
        raw: list[dict[str, Any]] = []
        passes = 0
        for number in range(100):
            raw += old(f"c{number}", size=500)
            passes += (await reducer.clear(raw)).changed
        return passes

    assert run(body, max_tokens_for_clear=20_000, clear_target_tokens=5_000) <= 6
    assert run(body, max_tokens_for_clear=20_000, clear_at_least_tokens=10**9) == 0


def test_b17_long_arguments_are_reduced_by_default():
    """A large `write` does not stay in the context."""

    async def body(reducer):
        big = json.dumps({"path": "a", "content": "c" * 50_000})
        messages = (await reducer.clear([asks("w", arguments=big), says("w", "ok"), *old("z")])).messages
        assert len(messages[0]["tool_calls"][0]["function"]["arguments"]) < 500

    run(body)


def test_b18_no_character_is_split_and_numbers_have_units():
    """Text is cut between characters, and the notice says that it counts characters."""

    async def body(reducer):
        out = "".join(await stream(reducer, ["你好😀" * 1_000]))
        out.encode()
        assert "3000 characters" in out
        assert "characters left out" in out

    run(body)


def test_b19_language_templates_and_folders_belong_to_one_reducer():
    """Two reducers in one process speak two languages; the folder is inside the environment, with slashes."""

    async def body(reducer):
        chinese = Reducer(reducer.environment, ReducerConfig(language="zh", max_length_for_trunc=1_000))
        english = await reducer.truncate(CALL, LONG)
        assert "返回了" in await chinese.truncate(CALL, LONG)
        assert "返回了" not in english
        assert all(path.startswith(".stead/offloads/") for path in reducer.environment.written)
        with pytest.raises(ConfigError):
            ReducerConfig(language="de")

    run(body)


def test_b20_what_was_left_is_looked_at_again_under_other_settings():
    """An excluded result is cleared once the exclusion is gone."""

    async def body(reducer):
        history = [*old("a"), *old("z")]
        kept = (await reducer.clear(history)).messages
        assert kept == history
        free = Reducer(reducer.environment, ReducerConfig(max_tokens_for_clear=100, clear_target_tokens=0))
        assert (await free.clear(kept)).messages[1] != history[1]

    run(body, clear_exclude_tools=["Read"])


def test_b21_the_sample_of_a_giant_line_is_not_empty():
    """The read tool's part of this is tested with the tools; the sample shows a line of 70 KB too."""

    async def body(reducer):
        shown = await reducer.truncate(CALL, "z" * 70_000)
        assert "1: zzz" in shown

    run(body, preview="sample", max_length_for_trunc=20_000)


def test_b22_offloads_have_a_session_and_a_life():
    """Two sessions on one environment do not meet; what is old can be listed and removed."""

    async def body(reducer):
        other = Reducer(reducer.environment, ReducerConfig(session_id="t", max_length_for_trunc=1_000))
        assert path_in(await reducer.truncate(CALL, LONG)) != path_in(await other.truncate(CALL, LONG))
        assert len(await reducer.offloads.expire(age=0)) == 1
        assert await reducer.offloads.list() == []
        assert len(await other.offloads.list()) == 1

    run(body)


def test_b23_every_decision_is_reported():
    """What, why, sizes and path for truncation and clearing; post-process does not run when nothing changed."""
    reports: list[Report] = []
    processed = []

    async def body(reducer):
        await reducer.truncate(CALL, LONG)
        await reducer.clear([USER])
        await reducer.clear([*old("a"), *old("z")])

    run(body, reports=reports, clear_post_process=processed.append)
    assert [(report.phase, report.decisions[0].action) for report in reports] == [
        ("truncate", "reduced"),
        ("clear", "reduced"),
    ]
    for report in reports:
        (decision,) = report.decisions
        assert decision.before_chars > decision.after_chars > 0
        assert decision.before_tokens > decision.after_tokens > 0
        assert decision.path
        assert decision.reason
    assert len(processed) == 1


def test_each_call_of_a_round_is_reported_with_its_own_tokens():
    """A result of 20,000 characters and one of 400 are not told as two of the average, nor are arguments."""
    arguments = json.dumps({"path": "p", "content": "x " * 4_000})
    calls = [asks("a", arguments=arguments)["tool_calls"][0], *asks("b", "c")["tool_calls"]]
    results = [says("a", "ok"), says("b", "z " * 10_000), says("c", "q " * 300)]
    history = [{"role": "assistant", "content": None, "tool_calls": calls}, *results, *old("z")]

    async def body(reducer):
        decisions = (await reducer.clear(history)).report.decisions
        found = {decision.call_id: decision.before_tokens for decision in decisions if decision.action == "reduced"}
        assert set(found) == {"a", "b", "c"}
        assert 2_000 < found["a"] < 2_100
        assert 5_000 < found["b"] < 5_100
        assert 150 < found["c"] < 200

    run(body)


def test_b24_the_preset_counts_as_it_says():
    """20,000 tokens are 80,000 characters, and the caller's counter belongs to clearing only."""

    async def main():
        async with MemoryEnvironment() as env:
            reducer = Reducer(env, ReducerConfig.large_results())
            assert reducer.config.max_length_for_trunc == 80_000
            assert len(await reducer.truncate(CALL, "x" * 80_001)) < 80_000

    asyncio.run(main())


def test_a_view_is_what_is_counted():
    """The estimate of a history is the sum over its messages (so that a turn costs what is new)."""
    messages = [USER, PLAIN, *old("a")]
    meter, codec = TokenMeter(), OpenAIChat()

    async def body(reducer):
        report = (await reducer.clear(messages)).report
        assert report.before_tokens == meter.tokens(sum(meter.estimate(codec.view(message)) for message in messages))

    run(body, max_tokens_for_clear=10**9)
