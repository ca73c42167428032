"""The codecs on each library's own objects: edited copies keep their type and pass the library's own checks."""

import asyncio
import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from anthropic.types import ContentBlockParam, MessageParam, TextBlock, ToolUseBlock
from google.genai import types as google
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
    messages_from_dict,
    messages_to_dict,
)
from openai.types.chat import (
    ChatCompletionMessage,
    ChatCompletionMessageParam,
    ChatCompletionMessageToolCallUnionParam,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseInputItemParam
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from stead.environments import MemoryEnvironment
from stead.reducer import Reducer, ReducerConfig
from stead.reducer.messages.codec import Codec, Media, argument_object
from stead.reducer.messages.detect import codec_named, find_codec

HISTORIES: dict[str, list[Any]] = json.loads((Path(__file__).parent / "histories.json").read_text())
BIG = {"path": "a.txt", "content": "y" * 2000}


def reduce_all(codec: Codec, history: list[Any]) -> list[Any]:
    """Every result becomes `gone`, every call's arguments `{"cleared": "é"}`."""
    return [
        codec.replace(
            message,
            results={result.ordinal: "gone" for result in codec.view(message).results},
            arguments={call.ordinal: {"cleared": "é"} for call in codec.view(message).calls},
        )
        for message in history
    ]


def sent_by(http: ModuleType, request: Callable[[Any], Any]) -> dict[str, Any]:
    """The JSON body of the one request that a library sends through its HTTP package."""
    bodies: list[dict[str, Any]] = []

    def answer(sent: Any) -> Any:
        bodies.append(json.loads(sent.content))
        return http.Response(400, json={"error": {"message": "enough"}})

    with http.Client(transport=http.MockTransport(answer)) as client, pytest.raises(Exception, match="enough"):
        request(client)
    return bodies[0]


def check(form: Any, values: list[Any]) -> None:
    """Validates each value by the library's own type."""
    adapter = TypeAdapter(form)
    for value in values:
        adapter.validate_python(value)


def test_openai_chat_sends_the_reduced_history() -> None:
    """The SDK's types accept it and its client sends it, with an SDK object among the dicts."""
    codec = codec_named("openai-chat")
    history = HISTORIES["openai-chat"]
    answer = ChatCompletionMessage.model_validate(history[2])
    mixed = [*history[:2], answer, *history[3:]]
    assert find_codec(mixed).name == "openai-chat"
    before = copy.deepcopy(mixed)
    reduced = reduce_all(codec, mixed)
    assert mixed == before
    assert type(reduced[2]) is ChatCompletionMessage
    assert [message for old, message in zip(mixed, reduced, strict=True) if message is old] == [
        mixed[0],
        mixed[1],
        mixed[5],
    ]
    body = sent_by(
        httpx,
        lambda client: openai.OpenAI(api_key="k", http_client=client, max_retries=0).chat.completions.create(
            model="m", messages=reduced
        ),
    )
    check(ChatCompletionMessageParam, body["messages"])
    check(ChatCompletionMessageToolCallUnionParam, body["messages"][2]["tool_calls"])
    assert [call["function"]["arguments"] for call in body["messages"][2]["tool_calls"]] == ['{"cleared": "é"}'] * 2
    assert body["messages"][2]["vendor"] == {"kept": 1}
    assert [message["content"] for message in body["messages"][3:5]] == ["gone", "gone"]


def test_openai_responses_sends_the_reduced_items() -> None:
    """The SDK's types accept them and its client sends them, reasoning untouched, with an SDK object among them."""
    codec = codec_named("openai-responses")
    items = list(HISTORIES["openai-responses"])
    items[2] = ResponseFunctionToolCall.model_validate(items[2])
    assert find_codec(items).name == "openai-responses"
    reduced = reduce_all(codec, items)
    assert type(reduced[2]) is ResponseFunctionToolCall
    assert reduced[1] is items[1]
    body = sent_by(
        httpx,
        lambda client: openai.OpenAI(api_key="k", http_client=client, max_retries=0).responses.create(
            model="m", input=reduced
        ),
    )
    check(ResponseInputItemParam, body["input"])
    assert body["input"][2] == HISTORIES["openai-responses"][2] | {"arguments": '{"cleared": "é"}'}


def test_anthropic_sends_the_reduced_history() -> None:
    """The SDK's types accept it and its client sends it, with the SDK's blocks inside a dict."""
    codec = codec_named("anthropic")
    history = copy.deepcopy(HISTORIES["anthropic"])
    history[1]["content"][1:] = [
        TextBlock(type="text", text="I look", citations=None),
        ToolUseBlock.model_validate(history[1]["content"][2]),
        ToolUseBlock.model_validate(history[1]["content"][3]),
    ]
    assert find_codec(history).name == "anthropic"
    reduced = reduce_all(codec, history)
    assert history[1]["content"][3].input == BIG
    body = sent_by(
        httpx2,
        lambda client: anthropic.Anthropic(api_key="k", http_client=client, max_retries=0).messages.create(
            model="m", max_tokens=9, messages=reduced
        ),
    )
    check(MessageParam, body["messages"])
    check(ContentBlockParam, [block for message in body["messages"][1:] for block in message["content"]])
    sent = body["messages"]
    assert sent[1]["content"][0] == HISTORIES["anthropic"][1]["content"][0]
    assert [block["input"] for block in sent[1]["content"][2:]] == [{"cleared": "é"}] * 2
    assert [block["content"] for block in sent[2]["content"][:2]] == ["gone", "gone"]
    assert sent[2]["content"][2:] == HISTORIES["anthropic"][2]["content"][2:]


def langchain_history() -> list[BaseMessage]:
    """A history with all the extras of LangChain's messages."""
    return [
        HumanMessage("look", id="h"),
        AIMessage(
            [{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "b", "name": "WriteFile", "input": BIG}],
            tool_calls=[
                {"name": "Search", "args": {"q": "x"}, "id": "a"},
                {"name": "WriteFile", "args": BIG, "id": "b"},
            ],
            additional_kwargs={"vendor": 1},
            response_metadata={"model": "m"},
            usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
            id="m1",
        ),
        ToolMessage("no space", tool_call_id="b", status="error", artifact=object(), name="WriteFile", id="t1"),
        ToolMessage(["found", {"type": "image", "base64": "iVBO" * 30, "mime_type": "image/png"}], tool_call_id="a"),
        AIMessage("done"),
    ]


def test_langchain_objects_keep_all_other_fields() -> None:
    """A reduced ToolMessage differs in its content only; LangChain's own converters take the reduced history."""
    codec = codec_named("langchain")
    history = langchain_history()
    assert find_codec(history).name == "langchain"
    before = [message.model_copy(deep=False) for message in history]
    reduced = reduce_all(codec, history)
    assert history == before
    for old, new in zip(history, reduced, strict=True):
        assert type(new) is type(old)
        changed = {name for name, value in dict(new).items() if value != dict(old)[name]}
        assert changed <= {"content", "tool_calls"}
    assert reduced[2].artifact is history[2].artifact
    assert codec.view(history[3]).results[0].content == history[3].content
    stored = [
        message.model_copy(update={"artifact": None}) if "artifact" in dict(message) else message for message in reduced
    ]
    assert messages_from_dict(json.loads(json.dumps(messages_to_dict(stored)))) == stored
    converted = convert_to_openai_messages(stored)
    check(ChatCompletionMessageParam, converted)
    assert converted[2]["content"] == "gone"


def test_langchain_chunks_agree_with_themselves() -> None:
    """In a merged stream chunk the raw pieces say the same as the parsed calls, also after a reload."""
    codec = codec_named("langchain")
    piece = {"name": "WriteFile", "args": json.dumps(BIG), "id": "b", "index": 0, "type": "tool_call_chunk"}
    chunk = AIMessageChunk(content="", tool_call_chunks=[piece])
    new = codec.replace(chunk, arguments={0: {"path": "a.txt"}})
    assert new.tool_calls[0]["args"] == {"path": "a.txt"}
    assert new.tool_call_chunks == [piece | {"args": '{"path": "a.txt"}'}]
    assert AIMessageChunk.model_validate(new.model_dump()).tool_calls == new.tool_calls
    assert chunk.tool_calls[0]["args"] == BIG


def test_google_contents_keep_signatures_and_types() -> None:
    """Contents stay valid `Content` objects; a signed part and a response's other fields stay as they are."""
    codec = codec_named("google-genai")
    history = [google.Content.model_validate(item) for item in HISTORIES["google-genai"]]
    assert find_codec(history).name == "google-genai"
    before = copy.deepcopy(history)
    reduced = reduce_all(codec, history)
    assert history == before
    dumped = [content.model_dump(mode="json", exclude_none=True) for content in reduced]
    assert [google.Content.model_validate(item) for item in dumped] == reduced
    assert reduced[1].parts[1] is history[1].parts[1]
    assert reduced[1].parts[1].thought_signature == b"xx"
    assert reduced[1].parts[2].function_call.args == {"cleared": "é"}
    response = reduced[2].parts[0].function_response
    assert (response.response, response.scheduling, response.id) == ({"error": "gone"}, "SILENT", "b")
    assert codec.view(history[0]).media == (Media("image", 825),)


def pydantic_history() -> list[Any]:
    """A history with text, objects, media and thinking."""
    picture = BinaryImage(b"p" * 100, media_type="image/png")
    return [
        ModelRequest(parts=[UserPromptPart(["look", picture])], instructions="be brief"),
        ModelResponse(
            parts=[
                ThinkingPart("hmm", signature="sig"),
                TextPart("I look"),
                ToolCallPart("Search", {"q": "x"}, "a"),
                ToolCallPart("WriteFile", json.dumps(BIG), "b"),
            ]
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("WriteFile", ["seen", picture], "b", metadata={"kept": 1}, outcome="failed"),
                ToolReturnPart("Search", {"hits": ["é"]}, "a"),
            ]
        ),
        ModelResponse(parts=[TextPart("done")]),
    ]


def test_pydantic_messages_pass_their_type_adapter() -> None:
    """Requests and responses keep their classes, times and metadata, and survive the library's serialiser."""
    codec = codec_named("pydantic-ai")
    history = pydantic_history()
    assert find_codec(history).name == "pydantic-ai"
    before = copy.deepcopy(history)
    views = [codec.view(message) for message in history]
    assert [[result.content for result in view.results] for view in views] == [
        [],
        [],
        [["seen", history[0].parts[0].content[1]], '{"hits": ["é"]}'],
        [],
    ]
    assert [result.is_error for result in views[2].results] == [True, False]
    assert views[0].media == (Media("image", 100),)
    reduced = reduce_all(codec, history)
    assert history == before
    assert ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(reduced)) == reduced
    call, text_call = reduced[1].parts[2:]
    assert (call.args, text_call.args) == ({"cleared": "é"}, '{"cleared": "é"}')
    assert reduced[1].parts[0] is history[1].parts[0]
    answer = reduced[2].parts[0]
    assert (answer.content, answer.metadata, answer.outcome, answer.timestamp) == (
        "gone",
        {"kept": 1},
        "failed",
        history[2].parts[0].timestamp,
    )
    assert reduced[2].timestamp == history[2].timestamp


def test_pydantic_blocks_replace_blocks() -> None:
    """The text beside a picture is replaced and the picture stays the same object."""
    codec = codec_named("pydantic-ai")
    message = pydantic_history()[2]
    content = codec.view(message).results[0].content
    new = codec.replace(message, results={0: ["gone", *content[1:]]})
    assert new.parts[0].content == ["gone", content[1]]
    assert ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([new])) == [new]


def test_pydantic_media_is_known_again_after_a_restart() -> None:
    """What the library adds to media on the way through its own JSON does not make another result of it."""
    media = [BinaryContent(b"1" * 500, media_type="image/png"), ImageUrl("https://example.com/a.png")]
    history: list[Any] = [
        ModelResponse([ToolCallPart("shot", {}, "a")]),
        ModelRequest([ToolReturnPart("shot", ["words " * 900, *media], "a")]),
        ModelResponse([ToolCallPart("shot", {}, "b")]),
        ModelRequest([ToolReturnPart("shot", "ok", "b")]),
    ]
    config = ReducerConfig(session_id="s", max_tokens_for_clear=500)

    async def main() -> None:
        async with MemoryEnvironment() as env:
            first = await Reducer(env, config).clear(history)
            assert first.changed
            below = dataclasses.replace(config, max_tokens_for_clear=1_000_000)
            loaded = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
            again = await Reducer(env, below).clear(loaded)
            assert ModelMessagesTypeAdapter.dump_json(again.messages) == ModelMessagesTypeAdapter.dump_json(
                first.messages
            )

    asyncio.run(main())


def test_subclasses_are_recognised() -> None:
    """A class derived in user code belongs to its base's library."""

    class Mine(ToolMessage):
        extra: int = 0

    message = Mine("r", tool_call_id="a", extra=5)
    assert find_codec([message]).name == "langchain"
    new = codec_named("langchain").replace(message, results={0: "gone"})
    assert (type(new), new.extra, new.content) == (Mine, 5, "gone")


def test_arguments_of_objects_are_read_alike() -> None:
    """An object's arguments and JSON text give the same dict."""
    calls = codec_named("pydantic-ai").view(pydantic_history()[1]).calls
    assert [argument_object(call) for call in calls] == [{"q": "x"}, BIG]
