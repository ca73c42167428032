"""The clearing of other libraries, for bench_prompt_cache.py and bench_clear.py: one history a line in, one out.

LangChain edits a copy for each request and keeps nothing, so it gets the raw history; Pydantic's answer is kept. Both
count four characters a token, as the benchmark does.
"""

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

Message = dict[str, Any]


def langchain(budget: int) -> Any:
    """`ClearToolUsesEdit` with its defaults."""
    from langchain.agents.middleware.context_editing import ClearToolUsesEdit
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages
    from langchain_core.messages.utils import count_tokens_approximately

    edit = ClearToolUsesEdit(trigger=budget)
    raw: list[Message] = []

    def clear(history: list[Message]) -> list[Message]:
        raw.extend(history[len(raw) :])
        messages = convert_to_messages(raw)
        edit.apply(messages, count_tokens=count_tokens_approximately)
        return [_normal(message, old) for message, old in zip(convert_to_openai_messages(messages), raw, strict=True)]

    return clear


def _normal(new: Message, old: Message) -> Message:
    """Only contents differ: the way there and back must not look like an edit."""
    return {**old, "content": new["content"]} if old["role"] == "tool" else old


def pydantic(budget: int) -> Any:
    """`ClearToolResults` with its defaults."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai_harness.compaction import ClearToolResults
    from pydantic_ai_harness.compaction._shared import estimate_token_count

    clearing: Any = ClearToolResults(max_tokens=budget)

    def to_pydantic(message: Message) -> Any:
        if message["role"] == "assistant":
            call = message["tool_calls"][0]
            part = ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
            return ModelResponse(parts=[TextPart(message["content"]), part])
        if message["role"] == "tool":
            return ModelRequest(parts=[ToolReturnPart("ReadFile", message["content"], message["tool_call_id"])])
        return ModelRequest(parts=[UserPromptPart(message["content"])])

    def clear(history: list[Message]) -> list[Message]:
        messages = [to_pydantic(message) for message in history]
        if estimate_token_count(messages, None) <= budget:
            return history
        cleared = asyncio.run(clearing.compact(messages, SimpleNamespace()))
        return [
            {**old, "content": new.parts[0].content} if old["role"] == "tool" else old
            for old, new in zip(history, cleared, strict=True)
        ]

    return clear


def main() -> None:
    """Answers each line."""
    clear = {"langchain": langchain, "pydantic": pydantic}[sys.argv[1]](int(sys.argv[2]))
    for line in sys.stdin:
        print(json.dumps(clear(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
