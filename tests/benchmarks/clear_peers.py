"""The clearing of other libraries on one long history, for bench_clear.py: prints seconds by name as JSON."""

import asyncio
import json
import sys
import time
from types import SimpleNamespace
from typing import Any

TEXT = "some words of a result " * 8


def langchain(size: int) -> float:
    """`ClearToolUsesEdit`, in place on a copied list."""
    from langchain.agents.middleware.context_editing import ClearToolUsesEdit
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.messages.utils import count_tokens_approximately

    messages: list[Any] = []
    for i in range(size // 2):
        messages.append(
            AIMessage("", tool_calls=[{"name": "ReadFile", "args": {"path": "src/main.py"}, "id": f"c{i}"}])
        )
        messages.append(ToolMessage(f"{i:08d} {TEXT}", tool_call_id=f"c{i}"))
    edit = ClearToolUsesEdit(trigger=10, keep=1)
    start = time.process_time()
    edit.apply(messages, count_tokens=count_tokens_approximately)
    return time.process_time() - start


def pydantic(size: int) -> float:
    """`ClearToolResults`, counting included."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
    from pydantic_ai_harness.compaction import ClearToolResults
    from pydantic_ai_harness.compaction._shared import estimate_token_count

    messages: list[Any] = []
    for i in range(size // 2):
        messages.append(ModelResponse(parts=[ToolCallPart("ReadFile", '{"path": "src/main.py"}', f"c{i}")]))
        messages.append(ModelRequest(parts=[ToolReturnPart("ReadFile", f"{i:08d} {TEXT}", f"c{i}")]))
    clearing: Any = ClearToolResults(max_tokens=10, keep_pairs=1)
    start = time.process_time()
    estimate_token_count(messages, None)
    asyncio.run(clearing.compact(messages, SimpleNamespace()))
    return time.process_time() - start


def main() -> None:
    """Measures those that are installed."""
    size = int(sys.argv[1])
    found = {}
    for name, measure in (("langchain", langchain), ("pydantic", pydantic)):
        try:
            found[name] = measure(size)
        except ImportError:
            continue
    print(json.dumps(found))


if __name__ == "__main__":
    main()
