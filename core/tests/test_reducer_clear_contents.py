"""What clearing makes of each kind of content: blocks, media, arguments, errors, and what was shortened before."""

import base64
import json

import pytest
from clearing_support import BIG, asks, call, path_in, rounds, run, says, stored

from stead.reducer import Reducer, ToolCall


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
