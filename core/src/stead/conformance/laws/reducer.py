"""Laws about the reducer over an environment: whatever it takes out can be read back, and nothing is lost."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.environment import Environment
from stead.errors import FileMissing
from stead.reducer import Reducer, ReducerConfig, ToolCall

__all__ = ["ReducerLaws"]

_LIMIT = 1_000
_LONG = "".join(f"line {n} of a long result, 中文 too\n" for n in range(3_000))
_HOSTILE_IDS = ("", ".", "..", "../../x", "/abs", "a/b", "a_b", "A", "a", "CON", "-rf", "x\0y", "日本", "i" * 1_500)


def _reducer(env: Environment, here: Folder, **options: Any) -> Reducer:
    base = {"session_id": "laws", "root_dir": here / "offloads", "max_length_for_trunc": _LIMIT}
    return Reducer(env, ReducerConfig(**{**base, "max_tokens_for_clear": 200, "clear_target_tokens": 0, **options}))


def _history(rounds: int, *, first: int = 0) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number in range(first, first + rounds):
        arguments = json.dumps({"path": f"{number}.txt", "content": f"{number} " * 1_000})
        function = {"name": "Write", "arguments": arguments}
        call = {"id": f"call-{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call-{number}", "content": f"{number}: " + _LONG[:5_000]})
    return messages


def _path_in(text: str, here: Folder) -> str:
    return next(word.rstrip('():,.]>"') for word in text.split() if word.startswith(f"{here.path}/"))


class ReducerLaws(LawSettings):
    """Group K."""

    @law("K1")
    async def test_reducer_at_the_limit(self, env: Environment, here: Folder) -> None:
        """Up to the limit, that included, a result is the same object and nothing is stored."""
        reducer = _reducer(env, here)
        exact = "界" * _LIMIT
        assert await reducer.truncate(ToolCall("c", "T"), exact) is exact
        history = _history(1)
        assert (await reducer.clear(history)).messages == history

    @law("K2")
    async def test_reducer_full_text(self, env: Environment, here: Folder) -> None:
        """Over the limit the notice stays within it, names a path, and the path holds every byte."""
        reducer = _reducer(env, here)
        notice = await reducer.truncate(ToolCall("c", "T"), _LONG)
        assert len(notice) <= _LIMIT
        assert await env.read_file(_path_in(notice, here)) == _LONG.encode()
        assert "ReadFile" in notice

    @law("K2")
    async def test_reducer_streamed_text(self, env: Environment, here: Folder) -> None:
        """A stream that is too long is stored as it was, and its notice names where."""

        async def source() -> AsyncGenerator[str, None]:
            for start in range(0, len(_LONG), 997):
                yield _LONG[start : start + 997]

        async with aclosing(_reducer(env, here).truncate_stream(ToolCall("s", "T"), source())) as chunks:
            shown = "".join([chunk async for chunk in chunks])
        assert len(shown) <= _LIMIT
        assert await env.read_file(_path_in(shown, here)) == _LONG.encode()

    @law("K4")
    async def test_reducer_opaque_blocks(self, env: Environment, here: Folder) -> None:
        """A picture between text blocks stays the same object; the texts are stored."""
        image = {"type": "image", "data": "aGVsbG8="}
        blocks = [{"type": "text", "text": _LONG}, image, {"type": "text", "text": "end"}]
        out = await _reducer(env, here).truncate(ToolCall("c", "T"), blocks)
        assert any(block is image for block in out)
        assert await env.read_file(_path_in(out[0]["text"], here)) == f"{_LONG}end".encode()

    @law("K5")
    async def test_reducer_second_pass(self, env: Environment, here: Folder) -> None:
        """Reducing what was reduced changes nothing, for results and for histories."""
        reducer = _reducer(env, here)
        notice = await reducer.truncate(ToolCall("c", "T"), _LONG)
        assert await reducer.truncate(ToolCall("c", "T"), notice) is notice
        first = (await reducer.clear(_history(4))).messages
        assert (await reducer.clear(first)).messages == first

    @law("K6", needs="list_files")
    async def test_reducer_restart(self, env: Environment, here: Folder) -> None:
        """A new reducer on the same session gives the same bytes for the raw history, in another language too."""
        first = (await _reducer(env, here).clear(_history(4))).messages
        again = _reducer(env, here, language="zh")
        assert (await again.clear(_history(4))).messages == first

    @law("K7")
    async def test_reducer_hostile_ids(self, env: Environment, here: Folder) -> None:
        """Empty, path-like, very long and similar ids give separate files inside the session's folder."""
        reducer = _reducer(env, here)
        paths = []
        for number, call_id in enumerate(_HOSTILE_IDS):
            text = f"{number} " * 2_000
            paths.append(_path_in(await reducer.truncate(ToolCall(call_id, "T"), text), here))
            assert (await env.read_file(paths[-1])).decode() == text
        assert len({path.lower() for path in paths}) == len(_HOSTILE_IDS)
        assert {path.rpartition("/")[0] for path in paths} == {here / "offloads/laws/trunc"}

    @law("K8")
    async def test_reducer_equal_ids(self, env: Environment, here: Folder) -> None:
        """Two results with one id, one after the other or at once, are both there."""
        reducer = _reducer(env, here)
        texts = [f"{number} {_LONG}" for number in range(4)]
        notices = await asyncio.gather(*(reducer.truncate(ToolCall("same", "T"), text) for text in texts))
        for text, notice in zip(texts, notices, strict=True):
            assert (await env.read_file(_path_in(notice, here))).decode() == text

    @law("K9")
    async def test_reducer_sessions_apart(self, env: Environment, here: Folder) -> None:
        """Two sessions never share a file, also for the same call and content."""
        mine = await _reducer(env, here).truncate(ToolCall("c", "T"), _LONG)
        theirs = await _reducer(env, here, session_id="other").truncate(ToolCall("c", "T"), _LONG)
        assert _path_in(mine, here) != _path_in(theirs, here)

    @law("K10")
    async def test_reducer_keeps_pairs(self, env: Environment, here: Folder) -> None:
        """The newest rounds stay, excluded tools stay, and ids, order and roles are as before."""
        history = _history(5)
        messages = (await _reducer(env, here, clear_retention_suffix_limit=2).clear(history)).messages
        assert messages[6:] == history[6:]
        assert [m.get("tool_call_id") for m in messages] == [m.get("tool_call_id") for m in history]
        assert all(new != old for new, old in zip(messages[:6], history[:6], strict=True))
        excluding = _reducer(env, here, session_id="excluding", clear_exclude_tools=["Write"])
        assert (await excluding.clear(history)).messages == history

    @law("K11")
    async def test_reducer_least_gain(self, env: Environment, here: Folder) -> None:
        """If a pass would free too little, nothing is changed and nothing is written."""
        history = _history(3)
        outcome = await _reducer(env, here, clear_at_least_tokens=10**9).clear(history)
        assert outcome.messages == history
        if env.capabilities.list_files:
            try:
                async with aclosing(env.list_files(here / "offloads", recursive=True)) as files:
                    assert [info async for info in files if info.kind == "file"] == []
            except FileMissing:
                pass  # nothing was ever written there

    @law("K12")
    async def test_reducer_arguments_and_result(self, env: Environment, here: Folder) -> None:
        """Both the arguments and the result of a cleared call can be read back."""
        history = _history(2)
        messages = (await _reducer(env, here).clear(history)).messages
        arguments = json.loads(messages[0]["tool_calls"][0]["function"]["arguments"])
        stored = await env.read_file(_path_in(arguments["content"], here))
        assert json.loads(stored) == json.loads(history[0]["tool_calls"][0]["function"]["arguments"])
        assert (await env.read_file(_path_in(messages[1]["content"], here))).decode() == history[1]["content"]

    @law("K13")
    async def test_reducer_one_hop(self, env: Environment, here: Folder) -> None:
        """Clearing a truncated result names the full text that is stored already."""
        reducer = _reducer(env, here)
        notice = await reducer.truncate(ToolCall("call-0", "Write"), _LONG)
        history = _history(2)
        history[1]["content"] = notice
        messages = (await reducer.clear(history)).messages
        assert _path_in(messages[1]["content"], here) == _path_in(notice, here)

    @law("K14")
    async def test_reducer_read_tool(self, env: Environment, here: Folder) -> None:
        """What the read tool returns is never offloaded."""
        page = "x" * (5 * _LIMIT)
        assert await _reducer(env, here).truncate(ToolCall("r", "ReadFile"), page) is page

    @law("K16")
    async def test_reducer_cancelled(self, env: Environment, here: Folder) -> None:
        """Cancelled at any point, the history is as it was, and a retry clears it."""
        history = _history(4)
        snapshot = json.dumps(history)
        for delay in (0.0, 0.001, 0.005):
            task = asyncio.create_task(_reducer(env, here).clear(history))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert json.dumps(history) == snapshot
        messages = (await _reducer(env, here).clear(history)).messages
        assert (await env.read_file(_path_in(messages[1]["content"], here))).decode() == history[1]["content"]

    @law("K19")
    async def test_reducer_language(self, env: Environment, here: Folder) -> None:
        """Every text follows the language."""
        reducer = _reducer(env, here, language="zh")
        assert "返回了" in await reducer.truncate(ToolCall("c", "T"), _LONG)
        messages = (await reducer.clear(_history(2))).messages
        assert "已清理" in messages[1]["content"]

    @law("K20", needs=("list_files", "delete_file"))
    async def test_reducer_expiry(self, env: Environment, here: Folder) -> None:
        """All offloads are listed; a quota removes the oldest until it holds, and nothing else."""
        reducer = _reducer(env, here)
        await env.write_file(here / "offloads/laws/trunc/notes.txt", "mine")
        for number in range(3):
            await reducer.truncate(ToolCall(f"c{number}", "T"), f"{number} {_LONG}")
        records = await reducer.offloads.list()
        assert [record.call_id for record in records] == ["c0", "c1", "c2"]
        assert len(await reducer.offloads.expire(quota=2 * records[0].size)) == 1
        assert [record.call_id for record in await reducer.offloads.list()] == ["c1", "c2"]
        assert len(await reducer.offloads.expire(age=0)) == 2
        assert await env.read_file(here / "offloads/laws/trunc/notes.txt") == b"mine"

    @law("K21")
    async def test_reducer_redaction(self, env: Environment, here: Folder) -> None:
        """Redaction runs before anything is stored or shown."""
        reducer = _reducer(env, here, redact=lambda line: line.replace("long", "[hidden]"))
        notice = await reducer.truncate(ToolCall("c", "T"), _LONG)
        assert "a long result" not in notice
        assert await env.read_file(_path_in(notice, here)) == _LONG.replace("long", "[hidden]").encode()
