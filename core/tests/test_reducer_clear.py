"""Clearing an old history: what goes, what stays, in which order it is stored, and that nothing changes twice."""

import asyncio
import base64
import copy
import dataclasses
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from stead.environments import MemoryEnvironment
from stead.errors import ConfigError, Unavailable
from stead.reducer import Outcome, Reduced, Reducer, ReducerConfig, Report, ToolCall, ToolConfig


def call(call_id: str, name: str = "Read", arguments: Any = None) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {"path": f"{call_id}.txt"})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def asks(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def says(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Go on."}


def rounds(count: int, size: int = 4_000, *, first: int = 0) -> list[dict[str, Any]]:
    """Rounds of one call and one result of about `size` characters."""
    history = []
    for number in range(first, first + count):
        history += [asks(call(f"c{number}")), says(f"c{number}", f"result {number}: " + "word " * (size // 5))]
    return history


def run(body, environment=None, *, reports=None, **options: Any):
    """Runs `body(reducer)` with a reducer over a fresh environment."""

    async def main():
        async with environment or MemoryEnvironment() as env:
            config = {"session_id": "s", "max_tokens_for_clear": 100, "clear_target_tokens": 0, **options}
            on_report = None if reports is None else reports.append
            async with Reducer(env, ReducerConfig(**config), on_report=on_report) as reducer:
                return await body(reducer)

    return asyncio.run(main())


def path_in(text: str) -> str:
    return next(word.rstrip("().,:[]<>") for word in text.split() if word.startswith(".stead/"))


async def stored(reducer: Reducer, message: dict[str, Any]) -> str:
    return (await reducer.offloads.read(path_in(message["content"]))).decode()


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


def test_blocks_become_text_and_their_media_lies_beside():
    """A result with a picture is cleared whole: text and picture are stored, the record says what was where (C16)."""
    import base64

    picture = base64.b64encode(bytes(range(256)) * 40).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}", "detail": "high"}}
    history = [asks(call("i", "Shot")), says("i", [{"type": "text", "text": "Seen:"}, image]), *rounds(1)]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert isinstance(messages[1]["content"], str)
        (record,) = (r for r in await reducer.offloads.list() if r.call_id == "i")
        (media,) = record.media
        assert await reducer.environment.read_file(media["path"]) == bytes(range(256)) * 40
        assert media["path"].endswith(".png")
        assert media["path"] in messages[1]["content"]
        assert media["block"] == {"type": "image_url", "image_url": {"url": "", "detail": "high"}}
        text = await stored(reducer, messages[1])
        assert text.startswith("Seen:\n[image/png, 10240 bytes: ")

    run(body)


def test_a_picture_is_stored_once_in_any_process():
    """Another call's equal picture has the same file, also after a restart."""
    image = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"12" * 300).decode()},
    }

    async def body(reducer):
        first = await reducer.clear([asks(call("a")), says("a", [image]), *rounds(1)])
        again = Reducer(reducer.environment, reducer.config)
        second = await again.clear([asks(call("b")), says("b", [image]), *rounds(1)])
        assert first.report.decisions[0].path == second.report.decisions[0].path
        paths = [path for record in await again.offloads.list() for path in record.paths[1:]]
        assert len(paths) == 2
        assert len(set(paths)) == 1
        assert await again.offloads.read(paths[0]) == b"12" * 300

    run(body)


def test_a_result_that_is_only_a_picture_goes_too():
    """It does not stay in the context as base64 (B13), and an empty result stays (C17)."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGVsbG8g" * 2_000}}
    history = [asks(call("i"), call("e")), says("i", [picture]), says("e", ""), *rounds(1)]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert isinstance(messages[1]["content"], str)
        assert messages[2] == history[2]

    run(body)


def test_small_results_stay():
    """A result that is shorter than its notice is not touched, and nothing is written."""
    history = [asks(call("a")), says("a", "Sunny"), *rounds(1)]

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert outcome.messages == history
        assert await reducer.offloads.list() == []
        assert "nothing is left" in outcome.report.warnings[0]

    run(body)


BIG = {"path": "a.txt", "content": "x" * 100_000, "mode": 420, "lines": list(range(500)), "flag": True, "none": None}


def test_long_arguments_are_cleared_and_stay_an_object():
    """Long values become short texts of the same keys; short ones stay; all of it is stored (B17, B096)."""
    history = [asks(call("w", "Write", BIG)), says("w", "ok"), *rounds(1)]

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        arguments = json.loads(messages[0]["tool_calls"][0]["function"]["arguments"])
        assert list(arguments) == list(BIG)
        assert {key: arguments[key] for key in ("path", "mode", "flag", "none")} == {
            "path": "a.txt",
            "mode": 420,
            "flag": True,
            "none": None,
        }
        assert json.loads(await reducer.offloads.read(path_in(arguments["content"]))) == BIG
        assert "100000 characters" in arguments["content"]
        assert (await reducer.clear(messages)).messages == messages

    run(body)


def test_arguments_stay_if_asked_or_if_there_is_nothing_to_gain():
    """`clear_tool_arguments=False`, short arguments, and arguments that are no object are left."""
    odd = [call("a", arguments=json.dumps(["x" * 5_000])), call("b", arguments="{broken" + "x" * 5_000), call("c")]
    history = [asks(*odd), *(says(c["id"], "ok") for c in odd), asks(call("d", "Write", BIG)), says("d", "ok")]

    async def body(reducer):
        return (await reducer.clear(history)).messages

    assert run(body, clear_tool_arguments=False, clear_retention_suffix_limit=0) == history
    assert run(body, clear_retention_suffix_limit=0)[:4] == history[:4]


def test_errors_stay_if_asked():
    """`clear_keep_errors` leaves a result that reports an error."""
    block = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "E" * 4_000}
    use = {"type": "tool_use", "id": "t", "name": "Run", "input": {}}
    history = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]

    async def body(reducer):
        return (await reducer.clear(history)).messages == history

    assert run(body, clear_keep_errors=True, clear_retention_suffix_limit=0)
    assert not run(body, clear_keep_errors=False, clear_retention_suffix_limit=0)


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


class Selective(MemoryEnvironment):
    """Refuses what a test says."""

    refuses = staticmethod(lambda path: False)

    async def write_file(self, path, content, **options):
        if self.refuses(str(path)):
            raise Unavailable(f"no {path}")
        return await super().write_file(path, content, **options)


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


OPTIONS: dict[str, Any] = {"max_tokens_for_clear": 10_000, "clear_target_tokens": 4_000}


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


def test_a_truncated_result_keeps_its_first_path():
    """Clearing the notice of a truncated result names the full text, stores nothing again (B098, B14)."""

    async def body(reducer):
        text = "L" * 500 + "MIDDLE" + "R" * 90_000
        notice = await reducer.truncate(ToolCall("t", "Read"), text)
        before = {record.path for record in await reducer.offloads.list()}
        outcome = await reducer.clear([asks(call("t")), says("t", notice), *rounds(1)])
        assert await stored(reducer, outcome.messages[1]) == text
        assert {record.path for record in await reducer.offloads.list()} == before

    run(body, max_length_for_trunc=1_000)


@pytest.mark.parametrize(
    "wrapped",
    [
        json.dumps,
        lambda notice: json.dumps({"output": notice}),
        lambda notice: f"{notice}\n",
        str.strip,
        lambda notice: [{"type": "text", "text": notice[:40]}, {"type": "text", "text": notice[40:]}],
    ],
)
def test_a_wrapped_notice_keeps_its_first_path(wrapped):
    """A framework may put a notice into JSON, into blocks or before a line end: still one hop, and no copy."""

    async def body(reducer):
        text = "L" * 500 + "MIDDLE" + "R" * 90_000
        notice = await reducer.truncate(ToolCall(None, "Read"), text)
        outcome = await reducer.clear([asks(call("t")), says("t", wrapped(notice)), *rounds(1)])
        shown = outcome.messages[1]["content"]
        assert await stored(reducer, {"content": shown if isinstance(shown, str) else shown[0]["text"]}) == text
        assert len({record.path for record in await reducer.offloads.list()}) == 1

    run(body, max_length_for_trunc=1_000)


def test_an_answer_with_cut_parts_is_stored_and_names_their_full_texts():
    """A notice among other fields, and the file of a command's spilled output, are named beside the answer itself."""

    async def body(reducer):
        notice = await reducer.truncate(ToolCall(None, "Execute"), "word " * 4_000)
        answer = json.dumps({"exit_code": 1, "stdout": notice, "stdout_path": ".stead/spill/ab.out"})
        listing = "\n".join(f".stead/offloads/s/trunc/c{n}-{n:016x}" for n in range(90))
        outcome = await reducer.clear(
            [asks(call("a")), says("a", answer), asks(call("b")), says("b", listing), *rounds(1)]
        )
        shown = outcome.messages[1]["content"]
        assert await stored(reducer, outcome.messages[1]) == answer
        assert f"Full text of what was cut in it: .stead/spill/ab.out, {path_in(notice)}.</persisted" in shown
        assert "cut in it" not in outcome.messages[3]["content"]
        again = await Reducer(reducer.environment, reducer.config).clear(outcome.messages)
        assert again.messages == outcome.messages

    run(body, max_length_for_trunc=1_000)


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
