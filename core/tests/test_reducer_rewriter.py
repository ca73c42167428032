"""The caller's own rewriter of old rounds: which messages it gets, what becomes of its answer, and when it is not asked."""

import asyncio
import copy
import json
from typing import Any

import pytest

from stead.environments import MemoryEnvironment
from stead.reducer import Reducer, ReducerConfig


def asks(*ids: str, name: str = "Read") -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def says(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Go on."}
DONE = {"role": "assistant", "content": "Done so far."}
NOTE = {"role": "user", "content": "<reminder>two files were read</reminder>"}
LAST = [asks("z"), says("z", "last " * 500)]


def run(body, **options: Any):
    async def main():
        async with MemoryEnvironment() as env:
            config = {"session_id": "s", "max_tokens_for_clear": 100, "clear_target_tokens": 0, **options}
            return await body(Reducer(env, ReducerConfig(**config)))

    return asyncio.run(main())


def old(*ids: str) -> list[dict[str, Any]]:
    return [asks(*ids), *(says(i, f"{i} " * 2_000) for i in ids)]


def test_a_group_is_replaced_by_what_the_rewriter_returns():
    """It gets the call's message and its results, the caller's own objects; text after the group stays (R01, R04)."""
    got = []

    async def rewriter(message, results):
        got.append((message, results))
        return [NOTE]

    history = [USER, *old("a", "b"), USER, DONE, *LAST]

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert outcome.messages == [USER, NOTE, USER, DONE, *LAST]
        assert len(got) == 1
        assert got[0][0] is history[1]
        assert [got[0][1][0] is history[2], got[0][1][1] is history[3]] == [True, True]
        assert (await reducer.clear(outcome.messages)).messages == outcome.messages

    run(body, clear_message_rewriter=rewriter)
    assert len(got) == 1


@pytest.mark.parametrize("answer", [None, []])
def test_an_empty_answer_removes_the_group(answer):
    """Call and results go, and what was retained stays (R02)."""

    async def body(reducer):
        assert (await reducer.clear([USER, *old("a"), *LAST])).messages == [USER, *LAST]

    run(body, clear_message_rewriter=lambda message, results: answer)


def test_a_part_can_be_rewritten_and_the_rest_kept():
    """What it keeps appears in its order, and goes through clearing like any round (R03)."""
    calls = []

    def rewriter(message, results):
        calls.append(message)
        return [NOTE, {**message, "tool_calls": message["tool_calls"][1:]}, results[1]]

    history = [*old("a", "b"), *LAST]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert messages[0] == NOTE
        assert [call["id"] for call in messages[1]["tool_calls"]] == ["b"]
        excluded = "Read" in reducer.config.clear_exclude_tools
        assert (messages[2] == history[2]) == excluded
        again = await reducer.clear([*messages, USER])
        assert again.messages[:3] == messages[:3]

    run(body, clear_message_rewriter=rewriter, clear_exclude_tools=["Read"])
    run(body, clear_message_rewriter=rewriter)
    assert len(calls) == 2


def test_plain_messages_and_open_calls_are_not_asked_about():
    """Assistant texts, unanswered and half-answered turns are left; no user message vanishes (R05, R08, B12)."""

    def never(message, results):
        raise AssertionError("asked")

    history = [DONE, asks("lost"), USER, asks("p", "q"), says("p", "x" * 4_000), USER, DONE]

    async def body(reducer):
        assert (await reducer.clear(history)).messages == history

    run(body, clear_message_rewriter=never, clear_retention_suffix_limit=0)


def test_a_user_text_beside_a_result_does_not_vanish():
    """A message that holds results and a user's text is not handed over for removal."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "T", "input": {}}]}
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": "r" * 4_000}, {"type": "text", "text": "And now?"}]
    history = [use, {"role": "user", "content": blocks}]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert messages[1]["content"][1] == blocks[1]
        assert messages[1]["content"][0] != blocks[0]

    run(body, clear_message_rewriter=lambda message, results: [], clear_retention_suffix_limit=0)


def test_nothing_is_replaced_below_the_least_gain():
    """Shrinkage by the rewriter counts; too little of it changes nothing (R06, R09)."""

    async def body(reducer):
        return (await reducer.clear([*old("a"), *LAST])).messages

    assert run(body, clear_message_rewriter=lambda m, r: [NOTE], clear_at_least_tokens=10**6) == [*old("a"), *LAST]
    assert run(body, clear_message_rewriter=lambda m, r: [NOTE], clear_at_least_tokens=500) == [NOTE, *LAST]


def test_its_error_is_the_callers():
    """What it raises rises, and the history is as it was (R07)."""

    def broken(message, results):
        raise KeyError("mine")

    history = [*old("a"), *LAST]

    async def body(reducer):
        before = copy.deepcopy(history)
        with pytest.raises(KeyError):
            await reducer.clear(history)
        assert history == before

    run(body, clear_message_rewriter=broken)


def test_a_raw_history_is_rewritten_to_the_same_bytes_without_asking_again():
    """In this process and in a new one, as far as the answer is plain data; the originals are stored."""
    asked = []

    def rewriter(message, results):
        asked.append(message)
        return [{**NOTE, "number": len(asked)}]

    history = [*old("a"), USER, *old("b"), *LAST]

    async def body(reducer):
        first = (await reducer.clear(history)).messages
        assert [message.get("number") for message in first] == [1, None, 2, None, None]
        assert (await reducer.clear(json.loads(json.dumps(history)))).messages == first
        other = Reducer(reducer.environment, reducer.config)
        assert (await other.clear(copy.deepcopy(history))).messages == first
        assert len(asked) == 2
        records = [r for r in await reducer.offloads.list() if r.kind == "rewritten"]
        lines = (await reducer.offloads.read(records[0].path)).decode().splitlines()
        assert [json.loads(line) for line in lines] == history[:2]

    run(body, clear_message_rewriter=rewriter)
