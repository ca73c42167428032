"""The twelve guarantees of the reducer, for any history in any message format."""

import asyncio
import copy
import json
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stead.environments import MemoryEnvironment
from stead.errors import Unavailable
from stead.reducer import Reducer, ReducerConfig, ToolCall
from stead.reducer.messages.detect import FORMATS, codec_named

every_format = pytest.mark.parametrize("format", sorted(FORMATS))
quick = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])

IDS = st.sampled_from(["a", "A", "b", "functions.read:0", "../../etc/passwd", "x" * 300, "日本", "a/b", ".", "-rf"])
WORDS = st.sampled_from(["word ", "x", "中文", "é́", "😀", "line\n", "{path}", '"', "\r\n", "<persisted-output>\n"])


@dataclass
class Step:
    """One step of a conversation: a user's text, an assistant's, or a round of calls."""

    kind: str
    text: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, argument and result of each call."""
    unanswered: int | None = None


@st.composite
def texts(draw: st.DrawFn, largest: int = 3_000) -> str:
    return draw(WORDS) * draw(st.integers(0, largest // 4)) + draw(WORDS) * draw(st.integers(0, 3))


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    made = []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["round", "round", "round", "user", "assistant"]))
        if kind != "round":
            made.append(Step(kind, draw(texts(200))))
            continue
        ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
        calls = [(call_id, draw(texts(6_000)), draw(texts())) for call_id in ids]
        missing = draw(st.one_of(st.none(), st.none(), st.none(), st.integers(0, len(ids) - 1)))
        made.append(Step("round", calls=calls, unanswered=missing))
    return made


def rendered(format: str, conversation: list[Step]) -> list[dict[str, Any]]:
    """The conversation as plain data of a format."""
    return [message for step in conversation for message in RENDER[format](step)]


def _answers(step: Step) -> list[tuple[str, str, str]]:
    return [item for number, item in enumerate(step.calls) if number != step.unanswered]


def openai_chat(step: Step) -> list[dict[str, Any]]:
    if step.kind != "round":
        return [{"role": step.kind, "content": step.text}]
    calls = [
        {"id": i, "type": "function", "function": {"name": "Read", "arguments": json.dumps({"p": "f", "long": a})}}
        for i, a, _ in step.calls
    ]
    results = [{"role": "tool", "tool_call_id": i, "content": result} for i, _, result in _answers(step)]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def openai_responses(step: Step) -> list[dict[str, Any]]:
    if step.kind != "round":
        return [{"type": "message", "role": step.kind, "content": step.text}]
    calls = [
        {"type": "function_call", "call_id": i, "name": "Read", "arguments": json.dumps({"p": "f", "long": a})}
        for i, a, _ in step.calls
    ]
    return [*calls, *({"type": "function_call_output", "call_id": i, "output": r} for i, _, r in _answers(step))]


def anthropic(step: Step) -> list[dict[str, Any]]:
    if step.kind != "round":
        return [{"role": step.kind, "content": step.text}]
    calls = [{"type": "tool_use", "id": i, "name": "Read", "input": {"p": "f", "long": a}} for i, a, _ in step.calls]
    results = [{"type": "tool_result", "tool_use_id": i, "content": r} for i, _, r in _answers(step)]
    return [{"role": "assistant", "content": calls}, *([{"role": "user", "content": results}] if results else [])]


def langchain(step: Step) -> list[dict[str, Any]]:
    if step.kind != "round":
        return [{"type": "human" if step.kind == "user" else "ai", "content": step.text}]
    calls = [{"id": i, "name": "Read", "args": {"p": "f", "long": a}, "type": "tool_call"} for i, a, _ in step.calls]
    results = [{"type": "tool", "tool_call_id": i, "content": r, "status": "success"} for i, _, r in _answers(step)]
    return [{"type": "ai", "content": "", "tool_calls": calls}, *results]


def google_genai(step: Step) -> list[dict[str, Any]]:
    if step.kind != "round":
        return [{"role": "user" if step.kind == "user" else "model", "parts": [{"text": step.text}]}]
    calls = [{"function_call": {"id": i, "name": "Read", "args": {"p": "f", "long": a}}} for i, a, _ in step.calls]
    results = [
        {"function_response": {"id": i, "name": "Read", "response": {"output": r}}} for i, _, r in _answers(step)
    ]
    return [{"role": "model", "parts": calls}, *([{"role": "user", "parts": results}] if results else [])]


def pydantic_ai(step: Step) -> list[dict[str, Any]]:
    if step.kind == "user":
        return [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": step.text}]}]
    if step.kind == "assistant":
        return [{"kind": "response", "parts": [{"part_kind": "text", "content": step.text}]}]
    calls = [
        {"part_kind": "tool-call", "tool_name": "Read", "tool_call_id": i, "args": {"p": "f", "long": a}}
        for i, a, _ in step.calls
    ]
    results = [
        {"part_kind": "tool-return", "tool_name": "Read", "tool_call_id": i, "content": r} for i, _, r in _answers(step)
    ]
    requests = [{"kind": "request", "parts": results}] if results else []
    return [{"kind": "response", "parts": calls}, *requests]


RENDER = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "langchain": langchain,
    "google-genai": google_genai,
    "pydantic-ai": pydantic_ai,
}


class Watched(MemoryEnvironment):
    """Counts writes, and fails where a test says."""

    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.failing = failing
        self.writes = 0

    async def write_file(self, path, content, **options):
        self.writes += 1
        if self.writes in self.failing:
            raise Unavailable("down")
        return await super().write_file(path, content, **options)


OPTIONS: dict[str, Any] = {"session_id": "s", "max_tokens_for_clear": 600, "clear_target_tokens": 200}


def run(format: str, body, environment: Watched | None = None, **options: Any):
    async def main():
        async with environment or Watched() as env:
            config = ReducerConfig(**{**OPTIONS, "message_format": format, **options})
            return await body(Reducer(env, config))

    return asyncio.run(main())


def parts_of(format: str, messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """All results and all calls, with the index of their message."""
    views = [codec_named(format).view(message) for message in messages]
    results = [(index, item) for index, view in enumerate(views) for item in view.results]
    calls = [(index, item) for index, view in enumerate(views) for item in view.calls]
    return results, calls


def path_in(text: str) -> str:
    return next(word.rstrip('().,:]>"') for word in text.split() if word.startswith(".stead/offloads/s/clear/"))


def argument_of(call: Any) -> str:
    arguments = call.arguments
    return (json.loads(arguments) if isinstance(arguments, str) else arguments)["long"]


async def assert_recoverable(reducer: Reducer, format: str, old: list[Any], new: list[Any]) -> int:
    """Every result and argument is as it was, or its notice leads to all of it. Gives how many are notices."""
    (old_results, old_calls), (new_results, new_calls) = parts_of(format, old), parts_of(format, new)
    changed = 0
    for (_, before), (_, after) in zip(old_results, new_results, strict=True):
        if after.content != before.content:
            changed += 1
            stored = await reducer.offloads.read(path_in(after.content))
            assert stored == before.content.encode()
    for (_, before), (_, after) in zip(old_calls, new_calls, strict=True):
        if argument_of(after) != argument_of(before):
            changed += 1
            stored = json.loads(await reducer.offloads.read(path_in(argument_of(after))))
            assert stored == {"p": "f", "long": argument_of(before)}
    return changed


@every_format
@quick
@given(conversation=steps())
def test_1_everything_replaced_can_be_read_back(format, conversation):
    """1: the text behind each notice is byte for byte what was replaced."""
    history = rendered(format, conversation)

    async def body(reducer):
        outcome = await reducer.clear(history)
        assert (await assert_recoverable(reducer, format, history, outcome.messages) > 0) == outcome.changed

    run(format, body)


@every_format
@quick
@given(conversation=steps())
def test_2_a_second_run_changes_and_writes_nothing(format, conversation):
    """2: on the reduced and on the raw history, in this process and in a new one."""
    history = rendered(format, conversation)

    async def body(reducer):
        first = (await reducer.clear(history)).messages
        writes = reducer.environment.writes
        assert (await reducer.clear(first)).messages == first
        assert (await reducer.clear(history)).messages == first
        for again in (first, history):
            other = Reducer(reducer.environment, reducer.config)
            assert (await other.clear(copy.deepcopy(again))).messages == first
        assert reducer.environment.writes == writes

    run(format, body)


@every_format
@quick
@given(conversation=steps(), failing=st.frozensets(st.integers(1, 12)), policy=st.sampled_from(["keep", "raise"]))
def test_3_the_input_is_never_changed(format, conversation, failing, policy):
    """3: whatever fails; and with `raise` it is all or nothing."""
    history = rendered(format, conversation)
    snapshot = copy.deepcopy(history)

    async def body(reducer):
        try:
            await reducer.clear(history)
        except Unavailable:
            assert policy == "raise"
        assert history == snapshot

    run(format, body, Watched(failing), on_offload_error=policy)


@every_format
@quick
@given(conversation=steps(), language=st.sampled_from(["en", "zh"]))
def test_4_what_replaces_is_never_larger(format, conversation, language):
    """4: in characters for each part, in tokens for the request."""
    history = rendered(format, conversation)

    async def body(reducer):
        outcome = await reducer.clear(history)
        (old_results, old_calls), (results, calls) = parts_of(format, history), parts_of(format, outcome.messages)
        assert all(
            len(new.content) <= len(old.content) for (_, old), (_, new) in zip(old_results, results, strict=True)
        )
        pairs = zip(old_calls, calls, strict=True)
        assert all(len(argument_of(new)) <= len(argument_of(old)) for (_, old), (_, new) in pairs)
        assert outcome.report.after_tokens <= outcome.report.before_tokens
        assert (outcome.report.after_tokens < outcome.report.before_tokens) == outcome.changed

    run(format, body, language=language)


@every_format
@quick
@given(conversation=steps(), retained=st.integers(0, 3))
def test_5_pairs_order_ids_and_other_messages_stay(format, conversation, retained):
    """5: the same messages with the same roles, calls and ids; users' and assistants' texts are the same objects."""
    history = rendered(format, conversation)

    async def body(reducer):
        messages = (await reducer.clear(history)).messages
        assert len(messages) == len(history)
        for new, old in zip(messages, history, strict=True):
            before, after = codec_named(format).view(old), codec_named(format).view(new)
            assert (after.role, after.texts) == (before.role, before.texts)
            assert [(c.id, c.name, c.form) for c in after.calls] == [(c.id, c.name, c.form) for c in before.calls]
            assert [(r.id, r.name, r.is_error) for r in after.results] == [
                (r.id, r.name, r.is_error) for r in before.results
            ]
            assert new is old or before.calls or before.results

    run(format, body, clear_retention_suffix_limit=retained)


@quick
@given(pieces=st.lists(st.text(max_size=300), max_size=10), limit=st.integers(1, 2_000))
def test_6_text_is_valid_at_every_border_and_modes_agree(pieces, limit):
    """6: the same decision for streamed and whole text, and no chunk that cannot be encoded where the text can."""
    text = "".join(pieces)

    async def source():
        for piece in pieces:
            yield piece

    async def body(reducer):
        plain = await reducer.truncate(ToolCall("c", "T"), text)
        async with aclosing(reducer.truncate_stream(ToolCall("c", "T"), source())) as stream:
            chunks = [chunk async for chunk in stream]
        assert ("".join(chunks) == text) == (plain == text)
        for chunk in chunks:
            chunk.encode()

    run("openai-chat", body, max_length_for_trunc=limit)


@quick
@given(ids=st.lists(st.text(max_size=80), min_size=1, max_size=8), session=st.text(min_size=1, max_size=40))
def test_7_paths_are_confined_bounded_and_unique(ids, session):
    """7: any id and session: one folder, short plain names, one file for each content, nothing overwritten."""

    async def body(reducer):
        mine = Reducer(reducer.environment, ReducerConfig(session_id=session, max_length_for_trunc=1_000))
        written = {}
        for number, call_id in enumerate(ids):
            await mine.truncate(ToolCall(call_id, "T"), f"{number} " * 2_000)
            record = (await mine.offloads.list())[-1]
            written[record.path] = f"{number} " * 2_000
        assert len(written) == len(ids)
        for path, text in written.items():
            folder, _, name = path.rpartition("/")
            assert folder.startswith(".stead/offloads/")
            assert folder.count("/") == 3
            assert ".." not in folder.split("/")
            assert len(name) <= 57
            assert name.isascii()
            assert name == name.lower()
            assert (await reducer.environment.read_file(path)).decode() == text

    run("openai-chat", body)


@quick
@given(text=texts(9_000), start=st.integers(1, 50))
def test_8_an_offload_is_read_by_lines_and_pages_are_not_reduced(text, start):
    """8: the read tool's answers pass as they are, and an offload is the text itself, line by line."""

    async def body(reducer):
        if len(text) <= 1_000:
            return
        await reducer.truncate(ToolCall("c", "T"), text)
        (record,) = await reducer.offloads.list()
        stored = (await reducer.environment.read_file(record.path)).decode()
        assert stored.split("\n")[start - 1 :] == text.split("\n")[start - 1 :]
        page = stored[: start * 2_000]
        assert await reducer.truncate(ToolCall("r", "ReadFile"), page) is page

    run("openai-chat", body, max_length_for_trunc=1_000)


@quick
@given(stops_after=st.integers(0, 40), how=st.sampled_from(["close", "cancel", "error", "end"]))
def test_9_streams_lose_nothing_however_they_end(stops_after, how):
    """9: what the source gave was handed on or is stored, after an early close, a cancellation or an error."""
    given_out: list[str] = []

    async def source():
        for number in range(40):
            if number == stops_after and how == "error":
                raise ZeroDivisionError
            if number == stops_after and how == "cancel":
                await asyncio.sleep(60)
            given_out.append(f"{number} " * 30)
            yield given_out[-1]

    async def body(reducer):
        seen: list[str] = []

        async def consume():
            async with aclosing(reducer.truncate_stream(ToolCall("c", "T"), source())) as stream:
                async for chunk in stream:
                    seen.append(chunk)
                    if how == "close" and len(given_out) >= stops_after:
                        return

        task = asyncio.create_task(consume())
        done, _ = await asyncio.wait([task], timeout=0.05 if how == "cancel" and stops_after < 40 else 20)
        if not done:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        text = "".join(given_out)
        records = await reducer.offloads.list()
        stored = [(await reducer.offloads.read(record.path)).decode() for record in records]
        assert "".join(seen).startswith(text) or any(text == one for one in stored)

    run("openai-chat", body, max_length_for_trunc=1_000)


@every_format
@quick
@given(conversation=steps())
def test_10_a_message_that_was_reduced_keeps_its_text(format, conversation):
    """10: turn by turn, raw or kept, each message is replaced at most once, and only by passes that clear."""

    async def body(reducer):
        kept: list[Any] = []
        raw: list[Any] = []
        before: list[Any] = []
        for step in conversation:
            new = RENDER[format](step)
            raw += new
            outcome = await reducer.clear(raw)
            if not outcome.changed:
                assert outcome.messages[: len(before)] == before
            before = outcome.messages
            other = Reducer(reducer.environment, reducer.config)
            assert (await other.clear(copy.deepcopy(raw))).messages == before
            kept = (await other.clear([*kept, *new])).messages
        assert len(kept) == len(raw)

    run(format, body)


@every_format
@quick
@given(conversation=steps(), failing=st.frozensets(st.integers(1, 12)))
def test_11_one_failure_policy_and_a_report_of_everything(format, conversation, failing):
    """11: with `keep` a part is whole or recoverable whatever fails, and each decision has its reason."""
    history = rendered(format, conversation)

    async def body(reducer):
        outcome = await reducer.clear(history)
        changed = await assert_recoverable(reducer, format, history, outcome.messages)
        reduced = [d for d in outcome.report.decisions if d.action == "reduced"]
        assert bool(changed) == bool(reduced)
        assert all(decision.reason for decision in outcome.report.decisions)
        assert all(decision.path for decision in reduced)

    run(format, body, Watched(failing))


@every_format
@quick
@given(conversation=steps())
def test_12_counts_have_schemas_and_are_kept(format, conversation):
    """12: schemas count, and a turn asks the counter about its new messages and the newest one before only."""
    history = rendered(format, conversation)
    asked: list[int] = []

    def counter(item: Any) -> int:
        asked.append(id(item))
        return 7

    async def body(reducer):
        schemas = [{"name": "Read"}, {"name": "Write"}]
        first = await reducer.clear(history, tools=schemas)
        assert first.report.before_tokens == 7 * (len(history) + 2)
        asked.clear()
        user = rendered(format, [Step("user", "more")])
        second = await reducer.clear([*history, *user], tools=schemas)
        assert second.report.before_tokens == 7 * (len(history) + 3)
        assert len(asked) <= 2

    run(format, body, token_counter=counter, max_tokens_for_clear=1_000_000)
