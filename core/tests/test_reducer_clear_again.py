"""Clearing is done whole or not at all, once, and the same again: failed writes, later passes, other processes."""

import asyncio
import copy
import dataclasses
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from clearing_support import BIG, USER, Selective, asks, call, rounds, run, says, stored

from stead.environments import MemoryEnvironment
from stead.errors import Unavailable
from stead.reducer import Outcome, Reducer, ReducerConfig, Report, ToolCall


def without_environment(*histories: list[dict[str, Any]], **options: Any) -> list[Outcome]:
    """What one reducer makes of several histories."""
    config = {"skip_truncation": True, "max_tokens_for_clear": 2_000, "clear_target_tokens": 0, **options}

    async def main():
        reducer = Reducer(None, ReducerConfig(**config))
        return [await reducer.clear(history) for history in histories]

    return asyncio.run(main())


@pytest.mark.parametrize("blocks", [False, True])
def test_an_equal_id_and_size_is_not_the_same_exchange(blocks):
    """Without an environment only what was cleared is cleared again: content tells, of results and of arguments."""

    def history(result, arguments):
        content = [{"type": "text", "text": result}] if blocks else result
        return [asks(call("a", arguments=arguments)), says("a", content), *rounds(1)]

    long = json.dumps({"content": "x " * 9_000})
    first, other = history("ok" * 20, long), history("no" * 20, {"path": "keep me"})
    small, unlike = history("a" * 20_000, {}), history("b" * 20_000, {})
    outcomes = without_environment(first, other, [*first, USER], small, unlike[:2], [*small, USER])
    cleared = {"content": "[18000 characters cleared]"}
    assert [json.loads(o.messages[0]["tool_calls"][0]["function"]["arguments"]) for o in outcomes[:3]] == [
        cleared,
        {"path": "keep me"},
        cleared,
    ]
    assert outcomes[1].messages == other
    assert [o.messages[1]["content"] for o in outcomes[3:]] == [
        "[Old Read result cleared]",
        unlike[1]["content"],
        "[Old Read result cleared]",
    ]


@pytest.mark.parametrize("call_id", ["read:0", ""])
def test_ids_that_repeat_survive_a_summary_of_the_front(call_id):
    """Without an environment the rounds behind a summary are what they are, though their numbers moved."""
    history = [USER]
    for number in range(10):
        history += [asks(call(call_id)), says(call_id, f"{number} " + "word " * 800)]
    rest = [{"role": "user", "content": "summary"}, *history[11:]]
    first, second = without_environment(history, rest, max_tokens_for_clear=6_000)
    assert [message["content"][0] for message in first.messages[2::2]] == ["["] * 9 + ["9"]
    assert second.messages == rest


OPTIONS: dict[str, Any] = {"max_tokens_for_clear": 10_000, "clear_target_tokens": 4_000}


def test_the_input_is_never_changed():
    """Messages, their order and every nested value are as before, also when writes fail or nothing is freed."""

    class Broken(MemoryEnvironment):
        async def write_file(self, path, content, **options):
            raise Unavailable("down")

    async def body(reducer):
        history = [USER, asks(call("w", "Write", BIG)), says("w", "r" * 5_000), *rounds(3)]
        before = copy.deepcopy(history)
        outcomes = await asyncio.gather(reducer.clear(history), reducer.clear(history))
        assert history == before
        assert outcomes[0].messages == outcomes[1].messages

    run(body)
    run(body, Broken())
    run(body, clear_at_least_tokens=1_000_000)


@pytest.mark.parametrize("part", ["clear/c1-", "records/c-"])
def test_a_failed_write_leaves_its_round_and_the_others_go(part):
    """keep: that result stays whole and is reported; a later call stores it (B083)."""
    reports: list[Report] = []

    async def body(reducer):
        history = rounds(4)
        records = []

        def refuses(path):
            records.append(path) if "records/" in path else None
            return part in path and (part != "records/c-" or len(records) == 2)

        reducer.environment.refuses = refuses
        outcome = await reducer.clear(history)
        left = [n for n in (1, 3, 5) if outcome.messages[n] == history[n]]
        assert len(left) == 1
        assert [d.action for d in outcome.report.decisions].count("failed") == 1
        reducer.environment.refuses = lambda path: False
        later = await reducer.clear(outcome.messages)
        assert later.messages[left[0]] != history[left[0]]

    run(body, Selective(), reports=reports)


@pytest.mark.parametrize("policy", ["keep", "raise"])
@pytest.mark.parametrize("part", ["clear/c2-", "records/c-"])
def test_a_round_that_was_left_is_left_in_another_process_too(policy, part):
    """What could be stored of it leaves no record: below the trigger nobody clears a half of it."""
    history = [asks(call("c1"), call("c2")), says("c1", "one " * 900), says("c2", "two " * 900), *rounds(1, first=3)]

    async def body(reducer):
        written = []

        def refuses(path):
            written.append(path) if "records/" in path else None
            return part in path and (part != "records/c-" or len(written) == 2)

        reducer.environment.refuses = refuses
        try:
            assert (await reducer.clear(history)).messages == history
        except Unavailable:
            assert policy == "raise"
        reducer.environment.refuses = lambda path: False
        config = dataclasses.replace(reducer.config, max_tokens_for_clear=1_000_000)
        assert (await Reducer(reducer.environment, config).clear(history)).messages == history

    run(body, Selective(), on_offload_error=policy)


def test_a_lone_surrogate_is_recorded_too():
    """Half an emoji in arguments or in an id is offloaded like anything else, and known again (B11)."""
    arguments = '{"half": "\\ud83d", "content": "' + "x" * 5_000 + '"}'
    history = [asks(call("\ud83d", arguments=arguments)), says("\ud83d", "word " * 900), *rounds(1)]

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert [d.action for d in outcome.report.decisions] == ["reduced"]
        assert await stored(reducer, outcome.messages[1]) == "word " * 900
        assert len(outcome.messages[0]["tool_calls"][0]["function"]["arguments"]) < 300
        again = await Reducer(reducer.environment, reducer.config).clear(history)
        assert again.messages == outcome.messages

    run(body)


def test_a_failed_write_can_raise_or_clear_anyway():
    """raise gives the store's error and changes nothing; truncate leaves a placeholder without a path."""

    async def raises(reducer):
        reducer.environment.refuses = lambda path: "clear/c1-" in path
        history = rounds(4)
        with pytest.raises(Unavailable):
            await reducer.clear(history)
        reducer.environment.refuses = lambda path: False
        assert (await reducer.clear(history)).changed

    async def lossy(reducer):
        reducer.environment.refuses = lambda path: "clear/c1-" in path
        messages = (await reducer.clear(rounds(4))).messages
        assert messages[3]["content"] == "[Old Read result cleared]"
        assert ".stead" in messages[1]["content"]

    run(raises, Selective(), on_offload_error="raise")
    run(lossy, Selective(), on_offload_error="truncate")


def test_all_contents_are_stored_before_any_record():
    """Records follow contents, and nothing is replaced before the last record is there."""
    order = []

    class Ordered(MemoryEnvironment):
        async def write_file(self, path, content, **options):
            await asyncio.sleep(0.001)
            order.append("record" if "records/" in str(path) else "content")
            return await super().write_file(path, content, **options)

    run(lambda reducer: reducer.clear(rounds(20)), Ordered())
    assert order == ["content"] * 19 + ["record"] * 19


def test_a_raw_history_gets_the_same_bytes_again():
    """Turn by turn, with the raw list each time, in a new process and with other texts: the prefix never moves."""

    async def body(reducer):
        raw: list[dict[str, Any]] = [USER]
        previous: list[dict[str, Any]] = []
        breaks = 0
        for number in range(60):
            raw += rounds(1, 3_000, first=number)
            messages = (await reducer.clear(raw)).messages
            breaks += messages[: len(previous)] != previous
            previous = messages
        assert breaks <= 9
        config = {**OPTIONS, "language": "zh", "session_id": "s"}
        for remade in (raw, copy.deepcopy(raw), json.loads(json.dumps(raw))):
            other = Reducer(reducer.environment, ReducerConfig(**config))
            assert (await other.clear(remade)).messages == previous
            assert (await reducer.clear(remade)).messages == previous

    run(body, **OPTIONS)


def test_a_kept_history_stays_below_the_trigger():
    """A caller that keeps the outcome's messages sees each message replaced at most once."""

    async def body(reducer):
        kept: list[dict[str, Any]] = [USER]
        seen: dict[str, set[str]] = {}
        for number in range(60):
            outcome = await reducer.clear([*kept, *rounds(1, 3_000, first=number)])
            kept = outcome.messages
            assert outcome.report.after_tokens <= 10_000
            for message in kept:
                if message["role"] == "tool":
                    seen.setdefault(message["tool_call_id"], set()).add(message["content"])
        assert max(map(len, seen.values())) == 2

    run(body, **OPTIONS)


def test_a_message_that_grows_in_place_is_seen():
    """A caller that streams into its newest message, or replaces it, gets its newest content counted and stored."""

    async def body(reducer):
        history = [*rounds(1), asks(call("g")), says("g", "short")]
        assert not (await reducer.clear(history)).changed
        history[-1]["content"] = "grown " * 1_000
        outcome = await reducer.clear([*history, *rounds(1, first=5)])
        assert await stored(reducer, outcome.messages[3]) == "grown " * 1_000

    run(body, max_tokens_for_clear=1_500)


def test_an_old_message_changed_in_place_is_stored_as_it_is_now():
    """What is stored is what the message holds when it is cleared, not what it held when it was counted."""

    async def body(reducer):
        history = rounds(6)
        assert not (await reducer.clear(history)).changed
        history[1]["content"] = "changed " * 1_000
        history += rounds(10, first=6)
        outcome = await reducer.clear(history)
        assert await stored(reducer, outcome.messages[1]) == "changed " * 1_000

    run(body, max_tokens_for_clear=8_000)


def test_a_history_that_is_rolled_back_or_forked_is_read_anew():
    """Shorter lists, other branches and several conversations on one reducer keep to what was cleared."""

    async def body(reducer):
        long = [USER, *rounds(8)]
        full = (await reducer.clear(long)).messages
        assert (await reducer.clear(long[:9])).messages == full[:9]
        fork = [*long[:9], USER, *rounds(1, first=50)]
        assert (await reducer.clear(fork)).messages[:9] == full[:9]
        assert (await reducer.clear(long)).messages == full

    run(body)


def test_background_writes_are_waited_for_before_the_next_request():
    """truncate returns at once, clear waits; a write that failed puts the whole result back."""
    gate: list[asyncio.Event] = []

    class Slow(Selective):
        async def write_file(self, path, content, **options):
            await gate[0].wait()
            return await super().write_file(path, content, **options)

    async def body(reducer):
        gate[:] = [asyncio.Event()]
        text = "background " * 1_000
        notice = await asyncio.wait_for(reducer.truncate(ToolCall("c0", "Read"), text), 5)
        assert len(notice) <= 1_000
        asyncio.get_running_loop().call_later(0.05, gate[0].set)
        history = [asks(call("c0")), says("c0", notice)]
        assert (await reducer.clear(history)).messages == history
        assert await stored(reducer, history[1]) == text
        reducer.environment.refuses = lambda path: True
        lost = await reducer.truncate(ToolCall("c1", "Read"), "lost " * 1_000)
        back = await reducer.clear([*history, asks(call("c1")), says("c1", lost)])
        assert back.messages[-1]["content"] == "lost " * 1_000

    run(body, Slow(), background_writes=True, max_length_for_trunc=1_000, max_tokens_for_clear=1_000_000)


def test_all_blocks_come_back_whose_background_write_failed():
    """Also those that were left out, of the kind that the history has them in, and media between them."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org"}}
    blocks: list[Any] = [{"type": "text", "text": f"{n:03d}" + "x" * 997} for n in range(50)]
    blocks.insert(25, image)

    async def body(reducer):
        reducer.environment.refuses = lambda path: True
        shown = await reducer.truncate(ToolCall("c", "T"), blocks)
        assert len(shown) < 30
        history = [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "T", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": shown}]},
        ]
        back = (await reducer.clear(history)).messages
        assert back[1]["content"][0]["content"] == blocks

    run(body, Selective(), background_writes=True, max_length_for_trunc=5_000, max_tokens_for_clear=1_000_000)


def test_a_background_write_that_works_at_last_leaves_its_notice():
    """The same result, truncated again when the store is back, is not put back into the history."""

    async def body(reducer):
        reducer.environment.refuses = lambda path: True
        await reducer.truncate(ToolCall("c0", "Read"), "full " * 1_000)
        await reducer.flush()
        reducer.environment.refuses = lambda path: False
        history = [asks(call("c0")), says("c0", await reducer.truncate(ToolCall("c0", "Read"), "full " * 1_000))]
        assert (await reducer.clear(history)).messages == history
        assert await stored(reducer, history[1]) == "full " * 1_000

    run(body, Selective(), background_writes=True, max_length_for_trunc=1_000, max_tokens_for_clear=1_000_000)


def test_flush_raises_what_the_policy_says():
    """With `raise` a failed background write is raised by the barrier."""

    async def body(reducer):
        reducer.environment.refuses = lambda path: True
        await reducer.truncate(ToolCall("c1", "Read"), "lost " * 1_000)
        with pytest.raises(Unavailable):
            await reducer.flush()
        await reducer.flush()

    run(body, Selective(), background_writes=True, on_offload_error="raise", max_length_for_trunc=1_000)


def test_several_processes_share_a_session(tmp_path: Path):
    """Eight reducers that clear the same raw history at once give the same bytes, and every path can be read."""

    async def main():
        async with MemoryEnvironment() as env:
            config = ReducerConfig(session_id="s", max_tokens_for_clear=100, clear_target_tokens=0)
            reducers = [Reducer(env, config) for _ in range(8)]
            outcomes = await asyncio.gather(*(reducer.clear(rounds(20)) for reducer in reducers))
            assert all(outcome.messages == outcomes[0].messages for outcome in outcomes)
            for message, raw in zip(outcomes[0].messages[1:-1:2], rounds(20)[1:-1:2], strict=True):
                assert await stored(reducers[0], message) == raw["content"]
            async with aclosing(env.list_files(".stead/offloads/s/clear")) as files:
                assert len([info async for info in files]) == 19

    asyncio.run(main())
