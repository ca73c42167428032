"""Clearing an old history: what goes, what stays, and what is told."""

import asyncio
import copy
import json
from typing import Any

import pytest
from clearing_support import USER, asks, call, rounds, run, says, stored

from stead.environments import MemoryEnvironment
from stead.errors import ConfigError
from stead.reducer import Outcome, Reduced, Reducer, ReducerConfig, Report, ToolConfig


def test_the_oldest_round_is_cleared_and_the_newest_kept():
    """The result is stored whole and its notice names it; call, ids, order and the last round stay (C01)."""
    history = [USER, *rounds(2)]

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert outcome.messages[:2] == history[:2]
        assert outcome.messages[3:] == history[3:]
        assert await stored(reducer, outcome.messages[2]) == history[2]["content"]
        assert outcome.messages[2]["tool_call_id"] == "c0"
        assert "with ReadFile" in outcome.messages[2]["content"]
        assert [d.action for d in outcome.report.decisions] == ["reduced"]

    run(body)


def test_the_trigger_is_strict():
    """At exactly the limit nothing happens; one token more clears (both triggers are `>`)."""
    history = [USER, *rounds(3)]

    async def body(reducer):
        return await reducer.clear(history)

    total = run(body, max_tokens_for_clear=10_000_000).report.before_tokens
    assert not run(body, max_tokens_for_clear=total).changed
    assert run(body, max_tokens_for_clear=total - 1).changed


def test_clearing_stops_at_the_target_and_starts_with_the_oldest():
    """Only as many old rounds go as the target needs."""
    history = [USER, *rounds(10)]

    async def body(reducer):
        before = (await reducer.clear(history)).report
        cleared = [d.call_id for d in before.decisions if d.action == "reduced"]
        assert cleared == [f"c{n}" for n in range(len(cleared))]
        assert before.after_tokens <= 5_000 < before.after_tokens + 1_100
        assert before.after_tokens < before.before_tokens

    run(body, max_tokens_for_clear=6_000, clear_target_tokens=5_000)


@pytest.mark.parametrize(("retained", "kept"), [(0, 0), (None, 1), (1, 1), (3, 3), (99, 4)])
def test_the_newest_rounds_are_retained(retained, kept):
    """0 retains none, None is the default of one, more than there are retains all."""
    history = [USER, *rounds(4), USER]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        unchanged = [new == old for new, old in zip(messages[2:-1:2], history[2:-1:2], strict=True)]
        assert unchanged == [False] * (4 - kept) + [True] * kept
        assert messages[-1] == USER

    run(body, clear_retention_suffix_limit=retained)


@pytest.mark.parametrize("stores", [True, False])
def test_fewer_rounds_than_are_retained_stay(stores):
    """Over the trigger too: the limit is a promise, however short the history is."""

    async def main():
        async with MemoryEnvironment() as env:
            settings = {"max_tokens_for_clear": 100, "clear_target_tokens": 0, "clear_retention_suffix_limit": 5}
            reducer = Reducer(env if stores else None, ReducerConfig(skip_truncation=True, **settings))
            outcome = await reducer.clear(rounds(4))
            assert outcome.messages == rounds(4)

    asyncio.run(main())


def test_an_own_path_is_used():
    """A generator's path is in the notice and holds the result; `root_dir` is not used for it (C02)."""

    async def body(reducer):
        outcome = await reducer.clear([*rounds(2)])
        assert "mine/c0" in outcome.messages[1]["content"]
        assert (await reducer.environment.read_file("mine/c0")).decode().startswith("result 0")

    run(body, gen_clear_offload_file_path=lambda call: f"mine/{call.id}")


def test_without_an_environment_results_become_placeholders():
    """Nothing is stored, the notice names no path, and the report has none (C03)."""

    async def main():
        config = ReducerConfig(skip_truncation=True, max_tokens_for_clear=100, clear_target_tokens=0)
        reducer = Reducer(None, config)
        outcome = await reducer.clear(rounds(2))
        assert outcome.messages[1]["content"] == "[Old Read result cleared]"
        assert outcome.report.decisions[0].path is None
        again = await reducer.clear(copy.deepcopy(rounds(2)))
        assert again.messages == outcome.messages

    asyncio.run(main())


def test_parallel_results_in_any_order_go_under_their_own_ids():
    """Results are paired by id, wherever they stand (C04)."""
    history = [asks(call("a"), call("b")), says("b", "B" * 4_000), says("a", "A" * 4_000), *rounds(1)]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert await stored(reducer, messages[1]) == "B" * 4_000
        assert await stored(reducer, messages[2]) == "A" * 4_000

    run(body)


def test_a_handler_rewrites_arguments_and_result():
    """What it returns replaces both, what it stores reads back, and it is asked only once (C05)."""
    calls = []

    async def handler(tool_call, result):
        calls.append(tool_call)
        both = json.dumps({"arguments": tool_call.arguments, "result": result})
        return Reduced("see {path}", arguments={"short": True}, offload=both)

    async def body(reducer):
        history = rounds(3)
        outcome = await reducer.clear(history)
        again = await reducer.clear(outcome.messages)
        assert again.messages == outcome.messages
        function = outcome.messages[0]["tool_calls"][0]["function"]
        assert json.loads(function["arguments"]) == {"short": True}
        path = outcome.messages[1]["content"].removeprefix("see ")
        assert json.loads(await reducer.offloads.read(path))["result"] == history[1]["content"]
        assert [(c.phase, c.id, c.session_id) for c in calls] == [("clear", "c0", "s"), ("clear", "c1", "s")]
        other = Reducer(reducer.environment, reducer.config)
        assert (await other.clear(copy.deepcopy(history))).messages == outcome.messages
        assert (await other.clear(copy.deepcopy(outcome.messages))).messages == outcome.messages
        assert len(calls) == 2

    run(body, clear_handler=handler)


def test_a_second_pass_leaves_the_first_as_it_is():
    """After a new round the next old one is cleared and the first is the same object (C06)."""

    async def body(reducer):
        first = await reducer.clear(rounds(2))
        second = await reducer.clear([*first.messages, *rounds(1, first=2)])
        assert second.messages[:2] == first.messages[:2]
        assert second.messages[1] is first.messages[1]
        assert second.messages[3]["content"] != first.messages[3]["content"]
        assert second.messages[5]["content"].startswith("result 2")

    run(body)


def test_an_excluded_tool_between_others_stays():
    """Its result and file are left alone; the report says why (C07)."""
    history = [
        *rounds(1),
        asks(call("x", "Secret")),
        says("x", "S" * 4_000),
        asks(call("y", "Secret"), call("z")),
        says("y", "S" * 4_000),
        says("z", "Z" * 4_000),
        *rounds(1, first=5),
    ]

    async def body(reducer):
        outcome = await reducer.clear(history)
        changed = [new != old for new, old in zip(outcome.messages, history, strict=True)]
        assert changed == [False, True, False, False, False, False, True, False, False]
        kept = [(d.call_id, d.reason) for d in outcome.report.decisions if d.action == "kept"]
        assert kept == [("y", "the tool is excluded")]

    run(body, clear_exclude_tools=["Secret"])


@pytest.mark.parametrize(("at_least", "changes"), [(100_000, False), (10, True)])
def test_a_pass_that_frees_too_little_changes_and_writes_nothing(at_least, changes):
    """Below `clear_at_least_tokens` the messages are the caller's own and no file exists (C08, C09)."""

    async def body(reducer):
        history = rounds(3)
        outcome = await reducer.clear(history)
        assert outcome.changed == changes
        assert (len(await reducer.offloads.list()) == 2) == changes
        if not changes:
            assert all(new is old for new, old in zip(outcome.messages, history, strict=True))
            assert "nothing was changed" in outcome.report.warnings[0]

    run(body, clear_at_least_tokens=at_least)


def test_a_missing_result_and_a_stray_one_are_left():
    """The unanswered round stays, the stray result stays in place with a warning, the rest is cleared (C10, C11)."""
    history = [asks(call("lost")), USER, says("stray", "x" * 4_000), *rounds(2)]

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert outcome.messages[:3] == history[:3]
        assert outcome.messages[4] != history[4]
        assert any("answer no call" in warning for warning in outcome.report.warnings)

    run(body)


def test_strays_are_taken_out_if_asked():
    """`repair=True` removes results to which there is no call, and only those."""
    history = [USER, says("stray", "x"), *rounds(1), says("c0", "again")]

    async def body(reducer):
        assert (await reducer.clear(history)).messages == [USER, *history[2:4]]

    run(body, repair=True, max_tokens_for_clear=1_000_000)


def test_post_process_runs_last_and_only_after_a_change():
    """It gets the outcome, may replace it, and is not called when nothing was cleared (C12)."""
    outcomes = []

    async def process(outcome):
        outcomes.append(outcome)
        return Outcome([*outcome.messages, USER], outcome.report)

    async def body(reducer):
        assert (await reducer.clear([USER])).messages == [USER]
        outcome = await reducer.clear(rounds(2))
        assert outcome.messages[-1] == USER
        assert len(outcomes) == 1

    run(body, clear_post_process=process)


def test_a_skipped_phase_counts_and_changes_nothing():
    """`skip_clear` skips all of it, unless a tool says False (C13)."""
    counted = []
    history = [*rounds(1), asks(call("x", "Big")), says("x", "B" * 4_000), *rounds(1, first=7)]

    async def body(reducer):
        return (await reducer.clear(history)).messages

    assert run(body, skip_clear=True, token_counter=lambda message: counted.append(message) or 1) == history
    assert counted == []
    messages = run(body, skip_clear=True, tool_config={"Big": ToolConfig(skip_clear=False)})
    assert [new != old for new, old in zip(messages, history, strict=True)] == [False] * 3 + [True] + [False] * 2


def test_over_budget_with_nothing_left_is_reported_not_raised():
    """The last round alone exceeds the limit: one warning, nothing changed."""
    reports: list[Report] = []

    async def body(reducer):
        history = rounds(1, 40_000)
        assert (await reducer.clear(history)).messages == history

    run(body, reports=reports)
    assert ["nothing is left to clear" in warning for warning in reports[0].warnings] == [True]


def test_the_counter_gets_messages_and_schemas_and_decides():
    """A custom counter sees both, its numbers set the trigger, and one that raises falls back with a warning."""
    seen: list[Any] = []

    def counter(item):
        seen.append(item)
        return 1_000

    async def body(reducer):
        schema = {"type": "function", "function": {"name": "Read", "parameters": {}}}
        history = rounds(3, 400)
        outcome = await reducer.clear(history, tools=[schema])
        assert all(any(item is entry for item in seen) for entry in [*history, schema])
        return outcome

    async def asked(item):
        return counter(item)

    assert run(body, token_counter=counter, max_tokens_for_clear=6_999).report.before_tokens == 7_000
    assert run(body, token_counter=asked, max_tokens_for_clear=7_000).report.before_tokens == 7_000

    def broken(item):
        seen.append(item)
        raise ZeroDivisionError

    outcome = run(body, token_counter=broken)
    assert outcome.changed
    assert any("token_counter raised ZeroDivisionError" in warning for warning in outcome.report.warnings)


def test_reported_usage_corrects_the_estimate():
    """After `calibrate` the same history counts as the provider said, and the trigger follows."""

    async def body(reducer):
        history = rounds(4)
        counted = (await reducer.clear(history)).report.before_tokens
        reducer.calibrate(counted * 2)
        outcome = await reducer.clear([*history, USER])
        assert outcome.report.before_tokens >= counted * 2
        assert outcome.changed

    run(body, max_tokens_for_clear=6_000)


def test_a_format_that_cannot_be_told_is_an_error():
    """Mixed and unknown formats name the choices; plain texts pass without one."""

    async def body(reducer):
        plain = [USER, {"role": "assistant", "content": "Yes."}]
        assert (await reducer.clear(plain)).messages == plain
        use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "T", "input": {}}]}
        with pytest.raises(ConfigError, match="mix formats"):
            await reducer.clear([*rounds(1), use])
        with pytest.raises(ConfigError, match="message_format"):
            await reducer.clear([{"toolResult": "?"}])

    run(body)


def test_none_in_the_history_is_tolerated():
    """An entry that is no message stays where it is and crashes nothing (B11)."""
    history = [None, *rounds(1), None, *rounds(1, first=3), 7]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert [messages[0], messages[3], messages[-1]] == [None, None, 7]
        assert messages[2] != history[2]

    run(body, message_format="openai-chat")
