"""Real faults of other reducers in clearing old history, each with the record it comes from."""

import asyncio
import copy
import json
from typing import Any

import pytest

from stead.environments import MemoryEnvironment
from stead.errors import Unavailable
from stead.reducer import Reducer, ReducerConfig, ToolCall


def asks(*ids: str, arguments: Any = "{}") -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "Read", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def says(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Go on."}


def run(body, environment=None, **options: Any):
    async def main():
        async with environment or MemoryEnvironment() as env:
            return await body(Reducer(env, ReducerConfig(**{"session_id": "s", "clear_target_tokens": 0, **options})))

    return asyncio.run(main())


def is_valid(messages: list[dict[str, Any]], *, open_ids: frozenset[str] = frozenset()) -> bool:
    """As providers check it: the results of a turn follow it at once, one for each call."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif set(waiting) - open_ids:
            return False
        else:
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not set(waiting) - open_ids


def path_in(text: str) -> str:
    return next(word.rstrip("().,:]>") for word in text.split() if word.startswith(".stead/"))


@pytest.mark.parametrize("retained", range(5))
@pytest.mark.parametrize("target", [0, 500, 2_000, 3_500])
def test_b091_a_batch_is_cleared_as_a_whole_or_not_at_all(retained, target):
    """No boundary falls inside the results of one turn; count, roles and pairs stay valid."""
    texts = {name: f"{name} " * 2_000 for name in "abcd"}
    history = [USER, asks("a", "b", "c"), *(says(i, texts[i]) for i in "abc"), asks("d"), says("d", texts["d"]), USER]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert is_valid(messages)
        assert [message["role"] for message in messages] == [message["role"] for message in history]
        cleared = [messages[index] != history[index] for index in (2, 3, 4)]
        assert cleared in ([True] * 3, [False] * 3)

    run(body, max_tokens_for_clear=4_000, clear_target_tokens=target, clear_retention_suffix_limit=retained)


def test_b094_an_unanswered_call_costs_only_its_own_turn():
    """Fifty rounds after an orphan are cleared below the threshold; the orphan is the same object."""
    history = [asks("orphan"), USER]
    for number in range(50):
        history += [asks(f"k{number}"), says(f"k{number}", "z" * 40_000)]

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert outcome.report.before_tokens > 100_000 > outcome.report.after_tokens
        assert outcome.messages[0] is history[0]

    run(body, max_tokens_for_clear=100_000)


@pytest.mark.parametrize("retained", [0, 1])
def test_b095_a_pending_call_is_never_cleared(retained):
    """The turn with the open call stays as it is whatever its age; its answer still fits later."""
    history = [asks("old"), says("old", "z" * 900_000), asks("p1", "p2"), says("p1", "pending " * 500)]
    history += [USER] * 5

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert messages[2:] == history[2:]
        assert messages[1] != history[1]
        answered = [*messages[:4], says("p2", "done"), *messages[4:]]
        assert is_valid(answered)
        assert (await reducer.clear(answered)).messages[:2] == messages[:2]

    run(body, max_tokens_for_clear=1_000, clear_retention_suffix_limit=retained)


@pytest.mark.parametrize("as_text", [True, False])
def test_b096_cleared_arguments_stay_an_object(as_text):
    """A JSON text stays the text of an object, a dict a dict; small fields stay; clearing again changes nothing."""
    arguments = {"path": "a", "content": "x" * 100_000}
    history = [asks("w", arguments=json.dumps(arguments) if as_text else arguments), says("w", "ok")]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        new = messages[0]["tool_calls"][0]["function"]["arguments"]
        assert isinstance(new, str) == as_text
        parsed = json.loads(new) if as_text else new
        assert parsed["path"] == "a"
        assert len(parsed["content"]) < 200
        assert (await reducer.clear(messages)).messages == messages

    run(body, max_tokens_for_clear=1_000, clear_retention_suffix_limit=0)


@pytest.mark.parametrize("arguments", [None, [1, 2], "", "[]", "null"])
def test_b096_arguments_that_are_no_object_do_not_crash(arguments):
    """None, lists and empty texts are left alone."""
    history = [asks("w", arguments=arguments), says("w", "r" * 9_000)]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert messages[0] == history[0]
        assert messages[1] != history[1]

    run(body, max_tokens_for_clear=1_000, clear_retention_suffix_limit=0)


def test_b097_the_prefix_changes_a_few_times_in_120_rounds():
    """One pass buys real headroom: at most 3 of 120 requests do not begin with the one before."""

    async def body(reducer):
        raw: list[dict[str, Any]] = []
        previous: list[dict[str, Any]] = []
        breaks = 0
        for number in range(120):
            raw += [asks(f"c{number}"), says(f"c{number}", f"{number:05d}" * 1_000)]
            messages = (await reducer.clear(raw)).messages
            breaks += messages[: len(previous)] != previous
            previous = messages
        assert 1 <= breaks <= 3

    run(body, max_tokens_for_clear=125_000, clear_at_least_tokens=40_000, clear_target_tokens=None)


def test_b097_a_pass_that_buys_too_little_writes_nothing():
    """If less than `clear_at_least_tokens` could be freed, messages and store are untouched."""
    history = [asks("a"), says("a", "z" * 20_000), asks("b"), says("b", "z" * 20_000)]

    async def body(reducer):
        assert (await reducer.clear(history)).messages == history
        assert await reducer.offloads.list() == []

    run(body, max_tokens_for_clear=1_000, clear_at_least_tokens=40_000)


def test_b098_clearing_a_truncated_result_keeps_the_pointer():
    """The notice leads to the full text in one hop; it is stored once and its file is unchanged."""
    text = "L" * 500 + "MIDDLE" + "R" * 90_000

    async def body(reducer):
        shown = await reducer.truncate(ToolCall("t", "Read"), text)
        first = await reducer.offloads.list()
        messages = (await reducer.clear([asks("t"), says("t", shown)])).messages
        content = await reducer.offloads.read(path_in(messages[1]["content"]))
        assert b"MIDDLE" in content
        assert path_in(messages[1]["content"]) == first[0].path
        assert content == text.encode()

    run(body, max_tokens_for_clear=100, clear_retention_suffix_limit=0, max_length_for_trunc=1_000)


def test_b100_system_prompt_and_schemas_count():
    """The counter sees the schemas, the total has them, and the stop test uses the same total."""
    seen: list[Any] = []

    def counter(item: Any) -> int:
        seen.append(item)
        return len(json.dumps(item)) // 4

    schemas = [{"name": f"tool{n}", "description": "d" * 1_950} for n in range(60)]
    history = [{"role": "system", "content": "s" * 40_000}]
    for number in range(6):
        history += [asks(f"c{number}"), says(f"c{number}", "h" * 10_000)]

    async def body(reducer):
        outcome = await reducer.clear(history, tools=schemas)
        assert all(any(item is schema for item in seen) for schema in schemas)
        assert 54_000 < outcome.report.before_tokens < 58_000
        assert outcome.changed
        assert 47_000 < outcome.report.after_tokens <= 50_000

    run(body, max_tokens_for_clear=50_000, clear_target_tokens=50_000, token_counter=counter)


SCRIPTS = [
    ("你好世界" * 25_000, 60_000),
    ("日本語の文章" * 10_000, 36_000),
    ("한국어" * 20_000, 36_000),
    ("😀" * 1_000, 1_000),
]


@pytest.mark.parametrize(("text", "least"), SCRIPTS)
def test_b101_other_scripts_are_not_under_counted(text, least):
    """The default count of Chinese, Japanese, Korean and emoji is high enough to trigger in time."""

    async def body(reducer):
        return (await reducer.clear([{"role": "user", "content": text}])).report.before_tokens

    assert run(body, max_tokens_for_clear=10_000_000) >= least
    assert abs(run(lambda r: r.clear([{"role": "user", "content": "a" * 100_000}])).report.before_tokens - 25_000) <= 5


class Flaky(MemoryEnvironment):
    """Fails from the nth content on."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    async def write_file(self, path, content, **options):
        self.good -= 1
        if self.good < 0:
            raise Unavailable("down")
        return await super().write_file(path, content, **options)


@pytest.mark.parametrize("policy", ["keep", "raise", "truncate"])
@pytest.mark.parametrize("good", [0, 1, 3, 5, 100])
def test_b103_the_callers_messages_are_never_changed(policy, good):
    """Equal to a deep copy in every case: success, half-way failure, two calls at once; nothing changed is shared."""
    history = [USER]
    for number in range(6):
        arguments = json.dumps({"content": "y" * 5_000})
        history += [asks(f"c{number}", arguments=arguments), says(f"c{number}", "z" * 9_000)]
    snapshot = copy.deepcopy(history)

    async def body(reducer):
        done = await asyncio.gather(reducer.clear(history), reducer.clear(history), return_exceptions=True)
        assert history == snapshot
        for outcome in done:
            if isinstance(outcome, Unavailable):
                continue
            assert is_valid(outcome.messages)
            for new, old in zip(outcome.messages, history, strict=True):
                assert new is old or new != old
            outcome.messages[2]["content"] = "edited by the owner"
            if outcome.changed:
                assert history == snapshot

    run(body, Flaky(good), max_tokens_for_clear=1_000, on_offload_error=policy)


def test_b106_an_id_used_again_pairs_call_by_call():
    """The first result is stored under its own text, the second stays, both calls and ids remain."""
    history = [USER, asks("f:0"), says("f:0", "ONE" * 3_000), asks("f:0"), says("f:0", "TWO" * 3_000)]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert await reducer.offloads.read(path_in(messages[2]["content"])) == b"ONE" * 3_000
        assert messages[4]["content"].startswith("TWO")
        assert [message.get("tool_call_id") for message in messages] == [None, None, "f:0", None, "f:0"]
        assert is_valid(messages)
        later = [*history, asks("f:0"), says("f:0", "ONE" * 3_000)]
        again = (await reducer.clear(later)).messages
        assert again[2] == messages[2]
        assert again[6]["content"].startswith("ONE")

    run(body, max_tokens_for_clear=100, clear_retention_suffix_limit=1)
