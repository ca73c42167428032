"""What is particular to one message format."""

import json
from pathlib import Path
from typing import Any

import pytest

from stead.reducer.messages.blocks import block_media, block_text
from stead.reducer.messages.codec import Call, Media, Result, View
from stead.reducer.messages.detect import codec_named

IMAGE = "iVBORw0KGgo" * 100
HISTORIES: dict[str, list[Any]] = json.loads((Path(__file__).parent / "histories.json").read_text())
"""One history in each format: two parallel calls, `a` and `b`, answered in the order `b`, `a`."""

CHAT, RESPONSES, ANTHROPIC = (HISTORIES[name] for name in ("openai-chat", "openai-responses", "anthropic"))
LANGCHAIN, GOOGLE = HISTORIES["langchain"], HISTORIES["google-genai"]


def test_arguments_keep_their_form() -> None:
    """JSON text stays JSON text and an object an object, whichever is given; what is no object is refused."""
    codec = codec_named("openai-chat")
    new = codec.replace(CHAT[2], arguments={0: {"q": "ü"}, 1: '{"a":1}'})
    assert [call["function"]["arguments"] for call in new["tool_calls"]] == ['{"q": "ü"}', '{"a":1}']
    assert new["tool_calls"][0]["index"] == 0
    assert (new["vendor"], new["reasoning_content"]) == ({"kept": 1}, "hmm")
    object_call = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]}
    assert codec.replace(object_call, arguments={0: '{"y": 2}'})["tool_calls"][0]["function"]["arguments"] == {"y": 2}
    with pytest.raises(ValueError, match="must be a JSON object, not list"):
        codec.replace(CHAT[2], arguments={0: "[1]"})


def test_lone_surrogates_in_arguments_travel_escaped() -> None:
    """New arguments can always be encoded as UTF-8."""
    new = codec_named("openai-chat").replace(CHAT[2], arguments={0: {"q": "é\ud83d"}})
    text = new["tool_calls"][0]["function"]["arguments"]
    assert json.loads(text.encode()) == {"q": "é\ud83d"}


def test_chat_custom_tools_and_old_function_calls() -> None:
    """A custom tool's input is free text; the older `function_call` pairs with a `function` message by name."""
    codec = codec_named("openai-chat")
    custom = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "py", "input": "1+1"}}],
    }
    assert codec.view(custom).calls == (Call(0, "c", "py", "1+1", "text", False),)
    assert codec.replace(custom, arguments={0: "gone"})["tool_calls"][0]["custom"] == {"name": "py", "input": "gone"}
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert codec.view(old).calls == (Call(0, None, "f", "{}", "json", False),)
    assert codec.replace(old, arguments={0: {"a": 1}})["function_call"] == {"name": "f", "arguments": '{"a": 1}'}
    assert codec.view({"role": "function", "name": "f", "content": "r"}).results == (Result(0, "", "f", "r", False),)


def test_chat_calls_with_a_thought_signature_are_signed() -> None:
    """Gemini's signature on a call of the OpenAI format forbids to edit it."""
    codec = codec_named("openai-chat")
    extra = {"google": {"thought_signature": "x"}}
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}],
    }
    assert codec.view(message).calls[0].signed
    assert codec.replace(message, arguments={0: {"a": 1}}) == message


def test_responses_items_of_every_kind() -> None:
    """Custom, shell and patch calls pair by call id; what the service runs itself is only counted."""
    codec = codec_named("openai-responses")
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "py", "input": "1+1"}
    assert codec.view(custom).calls == (Call(0, "c", "py", "1+1", "text", False),)
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "2"}
    assert codec.replace(output, results={0: "gone"}) == output | {"output": "gone"}
    shell = {
        "type": "shell_call_output",
        "call_id": "s",
        "output": [{"stdout": "x", "stderr": "e", "outcome": {"type": "timeout"}}],
    }
    assert json.loads(str(codec.view(shell).results[0].content)) == shell["output"]
    assert codec.replace(shell, results={0: "gone"})["output"] == [
        {"stdout": "gone", "stderr": "", "outcome": {"type": "timeout"}}
    ]
    call = {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}}
    assert codec.view(call).calls == (Call(0, "s", "shell", {"commands": ["ls"]}, "object", True),)
    assert codec.replace(call, arguments={0: {}}) is call
    server = {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "text"}
    assert codec.view(server) == View("assistant", texts=("f", "{}", "text"))
    assert codec.view(RESPONSES[1]) == View("assistant", reasoning=("hmm",), signed=True)


def test_anthropic_results_stand_beside_other_blocks() -> None:
    """One result of a user message is replaced; its neighbours are the very same objects."""
    codec = codec_named("anthropic")
    view = codec.view(ANTHROPIC[2])
    assert view.role == "user"
    assert view.texts == ("and now?",)
    assert [(result.id, result.is_error) for result in view.results] == [("b", True), ("a", False)]
    new = codec.replace(ANTHROPIC[2], results={1: "gone"})
    assert new["content"][0] is ANTHROPIC[2]["content"][0]
    assert new["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": "gone",
        "cache_control": {"type": "ephemeral"},
    }
    assert new["content"][2] is ANTHROPIC[2]["content"][2]
    only_results = {"role": "user", "content": ANTHROPIC[2]["content"][:2]}
    assert codec.view(only_results).role == "tool"


def test_anthropic_thinking_is_signed_and_untouched() -> None:
    """An edit of a call leaves the thinking block of its message as the same object."""
    codec = codec_named("anthropic")
    assert codec.view(ANTHROPIC[1]).signed
    new = codec.replace(ANTHROPIC[1], arguments={1: {"path": "a.txt"}})
    assert new["content"][0] is ANTHROPIC[1]["content"][0]
    assert new["content"][3]["input"] == {"path": "a.txt"}
    assert codec.view(ANTHROPIC[1]).reasoning == ("hmm",)


def test_anthropic_text_documents_count_as_text() -> None:
    """A document with plain text is read as text, one with base64 is media."""
    codec = codec_named("anthropic")
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": IMAGE}}
    view = codec.view({"role": "user", "content": [plain, pdf]})
    assert "words" in view.texts
    assert view.media == (Media("file", 825),)


def test_langchain_arguments_are_replaced_in_every_copy() -> None:
    """`tool_calls`, the provider's content block and its raw form in `additional_kwargs` say the same afterwards."""
    codec = codec_named("langchain")
    data = codec.replace(LANGCHAIN[1], arguments={1: {"path": "a.txt"}})["data"]
    assert [call["args"] for call in data["tool_calls"]] == [{"q": "x"}, {"path": "a.txt"}]
    assert data["content"][1]["input"] == {"path": "a.txt"}
    assert data["additional_kwargs"]["tool_calls"][0]["function"]["arguments"] == '{"path": "a.txt"}'


def test_langchain_keeps_artifact_and_status() -> None:
    """Only the content of a tool message changes."""
    new = codec_named("langchain").replace(LANGCHAIN[2], results={0: "gone"})
    assert new == {"type": "tool", "data": LANGCHAIN[2]["data"] | {"content": "gone"}}


def test_langchain_invalid_calls_are_seen_and_kept() -> None:
    """A call with broken JSON pairs with its answer, but has nothing that could be edited."""
    codec = codec_named("langchain")
    message = {
        "type": "ai",
        "content": "",
        "invalid_tool_calls": [{"id": "i", "name": "f", "args": "{broken", "error": None}],
    }
    assert codec.view(message).calls == (Call(0, "i", "f", None, "object", False),)
    assert codec.view(message).texts == ("{broken",)


def test_google_responses_stay_objects() -> None:
    """An error stays under `error`, a lone text under its key, anything else becomes `output`."""
    codec = codec_named("google-genai")
    assert [result.content for result in codec.view(GOOGLE[2]).results] == ["full", '{"hits": ["é", 2]}']
    new = codec.replace(GOOGLE[2], results={0: "gone", 1: "gone"})
    first, second = (part["functionResponse"] for part in new["parts"])
    assert first == {"id": "b", "name": "WriteFile", "response": {"error": "gone"}, "scheduling": "SILENT"}
    assert second["response"] == {"output": "gone"}
    adk = {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"result": "text"}}}]}
    assert codec.replace(adk, results={0: "gone"})["parts"][0]["function_response"]["response"] == {"result": "gone"}


@pytest.mark.parametrize(
    ("old", "failed", "new"),
    [
        ({"output": "long", "error": None}, False, {"output": "gone"}),
        ({"result": "long", "error": ""}, False, {"result": "gone"}),
        ({"result": "", "output": "long"}, False, {"output": "gone"}),
        ({"output": "long", "error": "exit 1"}, True, {"error": "gone"}),
        ({"error": None}, False, {"output": "gone"}),
        ({"hits": 2}, False, {"output": "gone"}),
    ],
)
def test_google_errors_are_those_that_say_something(old: dict[str, Any], failed: bool, new: dict[str, Any]) -> None:
    """`"error": None` or `""` beside a result is a success, before and after its content is replaced."""
    codec = codec_named("google-genai")
    message = {"role": "user", "parts": [{"function_response": {"name": "f", "response": old}}]}
    replaced = codec.replace(message, results={0: "gone"})
    assert replaced["parts"][0]["function_response"]["response"] == new
    assert [codec.view(entry).results[0].is_error for entry in (message, replaced)] == [failed, failed]


def test_google_media_of_a_response_belong_to_its_result() -> None:
    """They are blocks of the content: a text replaces them too, blocks keep those that are still there."""
    codec = codec_named("google-genai")
    image = {"inlineData": {"mimeType": "image/png", "data": IMAGE}}
    film = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/film.mp4"}}
    response = {"id": "a", "name": "f", "response": {"output": "seen"}, "parts": [image, film]}
    message = {"role": "user", "parts": [{"functionResponse": response}]}
    view = codec.view(message)
    assert (view.role, view.media) == ("tool", ())
    content = view.results[0].content
    assert isinstance(content, list)
    assert [block_text(block) for block in content] == ["seen", None, None]
    assert [block_media(block) for block in content[1:]] == [Media("image", len(IMAGE) * 3 // 4), Media("video")]

    def replaced(new: Any) -> Any:
        return codec.replace(message, results={0: new})["parts"][0]["functionResponse"]

    assert replaced("gone") == response | {"response": {"output": "gone"}, "parts": []}
    blocks = [{"type": "text", "text": "short"}, content[2]]
    assert replaced(blocks) == response | {"response": {"output": "short"}, "parts": [film]}
    assert replaced(content) == response


def test_google_signed_calls_keep_their_arguments() -> None:
    """A call with a thought signature is not edited, its unsigned neighbour is."""
    codec = codec_named("google-genai")
    new = codec.replace(GOOGLE[1], arguments={0: {}, 1: {"path": "a.txt"}})
    assert new["parts"][1] is GOOGLE[1]["parts"][1]
    assert new["parts"][2]["functionCall"]["args"] == {"path": "a.txt"}


def test_pydantic_bookkeeping_parts_are_left_alone() -> None:
    """Parts that the framework itself reads back are no results to reduce, but they count."""
    codec = codec_named("pydantic-ai")
    part = {
        "part_kind": "tool-return",
        "tool_kind": "tool-search",
        "tool_name": "s",
        "tool_call_id": "t",
        "content": {"a": "b"},
    }
    assert codec.view({"kind": "request", "parts": [part]}) == View("user", texts=("b",))
