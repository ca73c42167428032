"""Truncation of whole results: when, how, by whom, and where the full text goes."""

import asyncio
import functools
import inspect
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.environments import MemoryEnvironment
from stead.errors import ConfigError, EnvironmentClosed, FileExists
from stead.reducer import Reduced, Reducer, ReducerConfig, Report, ToolCall, ToolConfig, current_call_id
from stead.reducer.estimate import estimate_tokens


def run(body, environment=None, *, reports=None, **options: Any):
    """Runs `body(reducer)` with a reducer over a fresh environment."""

    async def main():
        async with environment or MemoryEnvironment() as env:
            config = ReducerConfig(**{"session_id": "s", "max_length_for_trunc": 1_000, **options})
            return await body(Reducer(env, config, on_report=None if reports is None else reports.append))

    return asyncio.run(main())


def path_in(notice: str) -> str:
    return next(line for line in notice.splitlines() if line.startswith(".stead/offloads/"))


CALL = ToolCall("c1", "Execute")
LONG = "".join(f"line {n}\n" for n in range(2_000))


def test_the_default_limit_is_50_000_characters():
    """At the limit the same object comes back; one character more is reduced to the limit at most."""

    async def body(reducer):
        exact = "好" * 50_000
        assert await reducer.truncate(CALL, exact) is exact
        assert len(await reducer.truncate(CALL, exact + "!")) <= 50_000

    run(body, max_length_for_trunc=None)


def test_the_notice_names_sizes_path_and_reader():
    """The text says how long the result was, how many lines, where it is, and with which tool to read it."""

    async def body(reducer):
        notice = await reducer.truncate(CALL, LONG)
        assert f"Execute returned {len(LONG)} characters in 2000 lines" in notice
        assert "with ReadFile" in notice
        assert "line 0\nline 1\n" in notice
        assert "line 1999\n" in notice
        assert await reducer.offloads.read(path_in(notice)) == LONG.encode()

    run(body)


def test_a_record_lies_beside_each_offload():
    """The record says session, tool, call id, sizes, hash and time, and a new process repeats the exact notice."""

    async def body(reducer):
        notice = await reducer.truncate(CALL, LONG)
        (record,) = await reducer.offloads.list()
        assert (record.session, record.phase, record.tool, record.call_id) == ("s", "truncate", "Execute", "c1")
        assert (record.size, record.characters, record.path) == (len(LONG), len(LONG), path_in(notice))
        assert record.stored_at.tzinfo is not None
        other = Reducer(reducer.environment, ReducerConfig(session_id="s", max_length_for_trunc=1_000, language="zh"))
        assert await other.truncate(CALL, LONG) == notice
        assert await other.truncate(ToolCall("c9", "T"), notice) is notice

    run(body)


def test_equal_content_is_stored_once_a_session():
    """Two calls with the same result share one file and have a record each; another session has its own."""

    async def body(reducer):
        first = await reducer.truncate(ToolCall("a", "T"), LONG)
        second = await reducer.truncate(ToolCall("b", "T"), LONG)
        other = Reducer(reducer.environment, ReducerConfig(session_id="t", max_length_for_trunc=1_000))
        third = await other.truncate(ToolCall("a", "T"), LONG)
        assert path_in(first) == path_in(second) != path_in(third)
        assert len(await reducer.offloads.list()) == 2

    run(body)


def test_equal_content_at_the_same_time_is_written_once():
    """Twenty concurrent calls with one result make one content file."""
    written = []

    class Counting(MemoryEnvironment):
        async def write_file(self, path, content, **options):
            written.append(path)
            await asyncio.sleep(0)
            return await super().write_file(path, content, **options)

    async def body(reducer):
        await asyncio.gather(*(reducer.truncate(ToolCall(f"c{n}", "T"), LONG) for n in range(20)))
        assert len([path for path in written if "/trunc/" in path]) == 1

    run(body, Counting())


def test_excluded_tools_and_readers_are_left_alone():
    """The exclude list beats a handler, and the read tool's own pages are never reduced."""

    async def never(call, result):
        raise AssertionError("called for an excluded tool")

    async def body(reducer):
        for tool in ("Grep", "ReadFile"):
            assert await reducer.truncate(ToolCall("c", tool), LONG) is LONG

    run(body, trunc_exclude_tools=["Grep"], tool_config={"Grep": {"trunc_handler": never}})


def test_a_tools_own_settings_win():
    """Skip beats the tool's handler, and False reduces one tool although the reducer skips all."""

    async def body(reducer):
        assert await reducer.truncate(ToolCall("c", "Loud"), LONG) is LONG
        assert await reducer.truncate(ToolCall("c", "Other"), LONG) is LONG
        assert len(await reducer.truncate(ToolCall("c", "Big"), LONG)) <= 1_000

    async def handler(call, result):
        return Reduced("never")

    own = {"Loud": ToolConfig(skip_truncation=True, trunc_handler=handler), "Big": {"skip_truncation": False}}
    run(body, skip_truncation=True, tool_config=own)


def test_a_tools_own_environment_is_used_without_a_handler():
    """The full text goes to the tool's environment, not to the reducer's."""

    async def main():
        async with MemoryEnvironment() as env, MemoryEnvironment() as archive:
            config = ReducerConfig(session_id="s", tool_config={"Query": {"environment": archive}})
            notice = await Reducer(env, config).truncate(ToolCall("c", "Query"), LONG * 10)
            assert await archive.read_file(path_in(notice)) == (LONG * 10).encode()
            with pytest.raises(FileNotFoundError):
                await env.read_file(path_in(notice))

    asyncio.run(main())


def test_a_handler_says_what_is_shown_and_stored():
    """Its offload is stored before its result is used, `{path}` names where, and the call says phase and session."""
    calls = []

    async def handler(call, result):
        calls.append(call)
        return Reduced(f"{result[:5]}... in {{path}}", offload=result) if len(result) > 10 else None

    async def body(reducer):
        assert await reducer.truncate(CALL, "short") == "short"
        shown = await reducer.truncate(CALL, LONG)
        start, path = shown.split("... in ")
        assert start == "line "
        assert await reducer.offloads.read(path) == LONG.encode()
        assert [(call.phase, call.session_id) for call in calls] == [("truncate", "s")] * 2

    run(body, trunc_handler=handler)


def test_a_handlers_error_and_a_generators_error_are_the_callers():
    """What the caller's own code raises is not swallowed by the offload policy."""

    async def handler(call, result):
        raise KeyError("handler")

    def generator(call):
        raise KeyError("generator")

    async def body(reducer):
        with pytest.raises(KeyError):
            await reducer.truncate(CALL, LONG)

    run(body, trunc_handler=handler)
    run(body, gen_trunc_offload_file_path=generator)


def test_an_own_path_is_used_and_never_overwritten():
    """A generator's path holds the file; other content for the same path is refused and the result kept."""

    async def own(call):
        return f"mine/{call.id}.txt"

    async def body(reducer):
        assert "mine/c1.txt" in await reducer.truncate(CALL, LONG)
        assert await reducer.environment.read_file("mine/c1.txt") == LONG.encode()
        other = LONG + "more"
        assert await reducer.truncate(CALL, other) is other
        assert await reducer.environment.read_file("mine/c1.txt") == LONG.encode()

    run(body, gen_trunc_offload_file_path=own)


def test_an_own_path_that_is_taken_is_an_error_if_asked():
    """With `raise` the refusal is `FileExists`."""

    async def body(reducer):
        await reducer.environment.write_file("notes.txt", "precious")
        with pytest.raises(FileExists):
            await reducer.truncate(CALL, LONG)
        assert await reducer.environment.read_file("notes.txt") == b"precious"

    run(body, gen_trunc_offload_file_path=lambda call: "notes.txt", on_offload_error="raise")


def test_a_text_that_looks_like_a_notice_is_reduced_like_any_other():
    """Only a notice of this session's own records is left alone."""

    async def body(reducer):
        fake = f"<persisted-output>\n.stead/offloads/s/trunc/x-0\n{LONG}</persisted-output>"
        notice = await reducer.truncate(CALL, fake)
        assert await reducer.offloads.read(path_in(notice)) == fake.encode()

    run(body)


def test_lone_surrogates_are_replaced_where_they_are_stored():
    """The file is valid UTF-8 with U+FFFD, and so is the preview."""

    async def body(reducer):
        notice = await reducer.truncate(CALL, "\ud800" + LONG)
        assert await reducer.offloads.read(path_in(notice)) == ("\ufffd" + LONG).encode()
        notice.encode()

    run(body)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_text_is_in_the_language(language):
    """English has no Chinese, Chinese names the same path and sizes, and both keep to the limit."""

    async def body(reducer):
        notice = await reducer.truncate(CALL, LONG)
        assert ("返回了" in notice) == (language == "zh")
        assert ("returned" in notice) == (language == "en")
        assert f" {len(LONG)} " in notice
        assert await reducer.offloads.read(path_in(notice)) == LONG.encode()
        assert len(notice) <= 1_000

    run(body, language=language)


def test_own_templates_are_checked_when_the_config_is_made():
    """An unknown template, field or language, and a notice without its path, are errors; a good one is used."""
    bad = [{"truncted": "x"}, {"truncated": "{path} {size}"}, {"truncated": "gone"}, {"truncated": "{path"}]
    for templates in bad:
        with pytest.raises(ConfigError):
            ReducerConfig(templates=templates)
    with pytest.raises(ConfigError):
        ReducerConfig(language="fr")

    async def body(reducer):
        assert (await reducer.truncate(CALL, "{x}" + LONG)).startswith("{see} .stead")

    run(body, templates={"truncated": "{{see}} {path} {head}"})


@pytest.mark.parametrize("field", ["max_tokens_for_clear", "clear_target_tokens", "clear_at_least_tokens"])
def test_a_negative_number_is_refused_and_none_is_the_default(field):
    """The same for all numbers; 0 is 0."""
    with pytest.raises(ValueError, match=field):
        ReducerConfig(**{field: -1})
    assert getattr(ReducerConfig(**{field: None}), field) == getattr(ReducerConfig(), field)
    assert getattr(ReducerConfig(**{"clear_target_tokens": 0, field: 0}), field) == 0


def test_every_decision_is_reported():
    """One report a reduction, with sizes, reason and path; none for a result that is short."""
    reports: list[Report] = []

    async def body(reducer):
        await reducer.truncate(CALL, "short")
        notice = await reducer.truncate(CALL, LONG)
        (decision,) = (d for r in reports for d in r.decisions)
        assert (decision.action, decision.tool, decision.call_id) == ("reduced", "Execute", "c1")
        assert (decision.before_chars, decision.after_chars) == (len(LONG), len(notice))
        assert decision.path == path_in(notice)
        assert "1000" in decision.reason

    run(body, reports=reports)


def test_an_observer_that_raises_does_no_harm(caplog):
    """The reduction is returned and the error is logged."""

    async def main():
        async with MemoryEnvironment() as env:
            reducer = Reducer(env, ReducerConfig(max_length_for_trunc=1_000), on_report=lambda report: 1 / 0)
            assert len(await reducer.truncate(CALL, LONG)) <= 1_000

    asyncio.run(main())
    assert "on_report raised" in caplog.text


def test_a_wrapped_tool_keeps_its_face():
    """Name, docstring, signature and annotations are the tool's, for sync and async tools alike."""

    async def fetch(url: str, *, times: int = 1) -> str:
        """Fetches."""
        return url * times

    def fetch_now(url: str, *, times: int = 1) -> str:
        """Fetches."""
        return url * times

    async def body(reducer):
        for tool in (fetch, fetch_now):
            wrapped = reducer.wrap(tool)
            assert inspect.iscoroutinefunction(wrapped)
            assert inspect.signature(wrapped) == inspect.signature(tool)
            assert wrapped.__annotations__ == tool.__annotations__
            assert (wrapped.__name__, wrapped.__doc__) == (tool.__name__, "Fetches.")
            assert await wrapped("x", times=3) == "xxx"
            assert len(await wrapped("x", times=5_000)) <= 1_000

    run(body)


def test_a_wrapped_tool_takes_its_id_where_it_is_given():
    """Argument, then a function, then the context variable, then one made from name and arguments."""

    async def body(reducer):
        def tool(n):
            return "x" * n

        async def id_of(wrapped):
            await wrapped(5_000)
            return (await reducer.offloads.list())[-1].call_id

        assert await id_of(reducer.wrap(tool, call_id="given")) == "given"
        assert await id_of(reducer.wrap(tool, call_id=lambda: "made")) == "made"
        token = current_call_id.set("context")
        assert await id_of(reducer.wrap(tool)) == "context"
        current_call_id.reset(token)
        assert (await id_of(reducer.wrap(tool, name="Many"))).startswith("Many-")

    run(body)


def test_any_arguments_make_an_id():
    """Also keys that are no strings, or of several types, and what is nested too deep for JSON."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    async def body(reducer):
        wrapped = reducer.wrap(lambda argument: "x" * 5_000, name="Any")
        for argument in ({(1, 2): 3}, {1: 3, "a": 4}, deep):
            assert len(await wrapped(argument)) <= 1_000

    run(body)


def test_a_sync_tool_that_raises_stop_iteration_does_not_hang():
    """A bare `next()` of an iterator that is at its end: RuntimeError, as a coroutine gives."""

    def tool():
        return next(iter(()))

    async def body(reducer):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(reducer.wrap(tool)(), 10)

    run(body)


def test_what_a_tool_raises_passes_unchanged():
    """The tool's own error reaches the caller; so do partials and lambdas that return awaitables."""

    async def broken():
        raise ZeroDivisionError

    async def body(reducer):
        with pytest.raises(ZeroDivisionError):
            await reducer.wrap(broken)()
        assert await reducer.wrap(functools.partial(int, "7"))() == 7
        assert await reducer.wrap(lambda: asyncio.sleep(0, "done"), name="later")() == "done"

    run(body)


def test_a_wrapped_stead_tool_stays_one():
    """It keeps schema and keys; long texts in its answer are offloaded; a reader is exempt."""
    from stead.tools.tool import Arguments, make_tool

    class Say(Arguments):
        text: str

    async def answer(arguments):
        return {"content": arguments.text, "exit_code": 0}

    def tool(*, is_reader):
        name = "Look" if is_reader else "Say"
        return make_tool(name=name, description="d", arguments=Say, run=answer, explain=str, is_reader=is_reader)

    async def body(reducer):
        say, look = reducer.wrap(tool(is_reader=False)), reducer.wrap(tool(is_reader=True))
        assert say.parameters == tool(is_reader=False).parameters
        result = await say(text=LONG)
        assert (result["status"], result["exit_code"]) == ("ok", 0)
        assert len(result["content"]) <= 1_000
        assert await reducer.offloads.read(path_in(result["content"])) == LONG.encode()
        assert (await look(text=LONG))["content"] == LONG

    run(body)


def test_a_cancelled_truncation_leaves_no_half_and_can_be_repeated():
    """Cancelled while it writes, nothing is recorded; the next try gives the notice."""

    class Slow(MemoryEnvironment):
        delay = 30.0

        async def write_file(self, path, content, **options):
            await asyncio.sleep(self.delay)
            return await super().write_file(path, content, **options)

    async def body(reducer):
        task = asyncio.create_task(reducer.truncate(CALL, LONG))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await reducer.offloads.list() == []
        reducer.environment.delay = 0.0
        assert len(await reducer.truncate(CALL, LONG)) <= 1_000

    run(body, Slow())


def test_an_environment_with_four_methods_is_enough():
    """Without listing, conditional writes or stat, nothing is overwritten and the notice can be followed."""

    class Old:
        working_dir = "/"

        def __init__(self):
            self.files = {}

        async def read_file(self, path):
            if str(path) not in self.files:
                from stead.errors import FileMissing

                raise FileMissing("nothing there")
            return self.files[str(path)]

        async def write_file(self, path, content):
            self.files[str(path)] = content

    async def main():
        old = Old()
        reducer = Reducer(old, ReducerConfig(session_id="s", max_length_for_trunc=1_000))
        notice = await reducer.truncate(CALL, LONG)
        assert await reducer.offloads.read(path_in(notice)) == LONG.encode()
        assert await reducer.truncate(CALL, LONG) == notice
        await reducer.environment.close()

    asyncio.run(main())


def test_the_reducer_closes_only_what_it_owns():
    """Its environment is closed with it only if it was said to own it."""

    async def main():
        kept, owned = MemoryEnvironment(), MemoryEnvironment()
        async with Reducer(kept, owns_environment=False), Reducer(owned, owns_environment=True):
            pass
        await kept.write_file("a", "1")
        assert await kept.read_file("a") == b"1"
        with pytest.raises(EnvironmentClosed):
            await owned.write_file("a", "1")
        await kept.close()

    asyncio.run(main())


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("preview", ["text", "json", "sample"])
def test_tokens_never_grow_just_above_the_limit(language, preview):
    """Paths, errors and marks of many digits weigh more than the letters that they stand for."""
    call, text = ToolCall("9" * 40, "T" * 64), "a" * 5_000
    rows = json.dumps({"a" * 9: [["b" * 60] * 3 for _ in range(10)]}).ljust(5_000)

    async def stream(reducer, text):
        return "".join([chunk async for chunk in reducer.truncate_stream(call, source(text))])

    async def source(text):
        yield text

    async def body(reducer):
        for whole in (text, rows):
            size = reducer._context.budget(call, None).threshold + 1
            for shown in (await reducer.truncate(call, whole[:size]), await stream(reducer, whole[:size])):
                assert len(shown) < size
                assert estimate_tokens(shown) <= estimate_tokens(whole[:size])
        blocks = [{"type": "text", "text": "a" * 260} for _ in range(12)]
        out = await reducer.truncate(call, blocks)
        assert len(out) < 12 or sum(len(block["text"]) for block in out) < 12 * 260
        before, after = ([estimate_tokens(block["text"]) for block in part] for part in (blocks, out))
        assert sum(after) <= sum(before)

    class Full(MemoryEnvironment):
        async def write_file(self, path, content, **options):
            raise OSError('{"code": 12345}' * 20)

    options = {"session_id": "1234567890" * 6, "language": language, "preview": preview}
    for limit in (300, 1_000, 3_000):
        run(body, max_length_for_trunc=limit, **options)
        run(body, Full(), max_length_for_trunc=limit, on_offload_error="truncate", **options)


TEXTS = st.text(st.characters(codec=None, categories=["L", "N", "P", "Zs", "Cc", "Cs", "Mn", "So"]), max_size=60)


@settings(max_examples=60, deadline=None)
@given(unit=TEXTS, times=st.integers(1, 200), limit=st.integers(1, 3_000), language=st.sampled_from(["en", "zh"]))
def test_any_text_stays_recoverable_and_never_grows(unit, times, limit, language):
    """Whatever text and limit: same object or a shorter one whose path holds all of it, and a second pass is free."""
    text = unit * times

    async def body(reducer):
        out = await reducer.truncate(CALL, text)
        if len(text) <= limit:
            assert out is text
        if out is text:
            return
        assert len(out) < len(text)
        assert estimate_tokens(out) <= estimate_tokens(text)
        assert len(out) <= max(limit, 1_000) or limit < 1_000
        stored = await reducer.offloads.read(path_in(out))
        assert stored == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        assert await reducer.truncate(CALL, out) is out
        assert len(await reducer.offloads.list()) == 1

    run(body, max_length_for_trunc=limit, language=language)
