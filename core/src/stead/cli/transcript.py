"""A saved conversation: read from JSON, reduced turn by turn as an agent would have, and written again."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stead.environment import Environment
from stead.errors import ConfigError, SteadError
from stead.reducer import Decision, Reducer, ReducerConfig, Report, ToolCall
from stead.reducer.ledger import Ledger
from stead.reducer.messages.codec import Codec
from stead.reducer.messages.detect import find_codec
from stead.reducer.messages.pairing import Exchange, Round, pair_rounds

__all__ = ["Replay", "Transcript", "Turn", "read_transcript", "replay"]

# Under these keys requests and saved sessions hold their messages.
LISTS = ("messages", "input", "contents", "history", "items")


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a file holds."""

    messages: list[Any]
    tools: list[Any] = field(default_factory=list)
    """Tool schemas, where the file has them."""
    around: Mapping[str, Any] | None = None
    """The object in which the messages were found; None for a plain list."""
    key: str = "messages"

    def with_messages(self, messages: Sequence[Any]) -> Any:
        """The file's content with other messages.

        Args:
            messages: What to put in place of them.
        """
        return list(messages) if self.around is None else {**self.around, self.key: list(messages)}


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of the model."""

    index: int
    """Index of the message that the model wrote; the number of messages for a call that is still to come."""
    before: int
    """Tokens of the request without reducing."""
    after: int
    """Tokens of the request as it would have been sent."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A conversation before and after."""

    codec: Codec
    originals: list[Any]
    reduced: list[Any]
    turns: list[Turn]
    decisions: list[Decision]
    warnings: list[str]


def read_transcript(path: Path) -> Transcript:
    """Reads a saved conversation.

    Args:
        path: JSON (a list of messages, or an object with one under `messages`, `input`, `contents`, `history` or
            `items`, and perhaps `tools`) or JSON lines, one message a line. `-` is standard input.

    Raises:
        ConfigError: It is none of these.
        SteadError: It cannot be read.
    """
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise SteadError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None
    data = _parsed(text, str(path))
    if isinstance(data, list):
        return Transcript(data)
    if isinstance(data, dict):
        key = next((name for name in LISTS if isinstance(data.get(name), list)), None)
        if key is not None:
            tools = data.get("tools")
            return Transcript(data[key], tools if isinstance(tools, list) else [], data, key)
    raise ConfigError(f"{path}: no list of messages, neither alone nor under {', '.join(LISTS)}")


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # Not splitlines: only \n ends a line here, and U+2028 may stand in a string.
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            return [json.loads(line) for line in lines] if len(lines) > 1 else _fail(name, error)
        except (ValueError, RecursionError):
            return _fail(name, error)


def _fail(name: str, error: Exception) -> Any:
    why = "nested too deeply" if isinstance(error, RecursionError) else error
    raise ConfigError(f"{name}: neither JSON nor JSON lines: {why}") from None


async def replay(environment: Environment | None, settings: ReducerConfig, transcript: Transcript) -> Replay:
    """Reduces a conversation as it would have been while it went on.

    Each result is reduced when it came, the history before each call of the model, and once more for the call that is
    still to come.

    Args:
        environment: Where the full texts go.
        settings: Of the reducer.
        transcript: The conversation, which is not changed.

    Raises:
        ConfigError: The message format cannot be told, or a setting is wrong.
        SteadError: Something could not be stored, and the settings say `on_offload_error="raise"`.
    """
    codec = find_codec(transcript.messages, settings.message_format)
    found = Replay(codec, transcript.messages, [], [], [], [])

    def note(report: Report) -> None:
        found.decisions.extend(report.decisions)
        found.warnings.extend(line for line in report.warnings if line not in found.warnings)

    async with Reducer(environment, replace(settings, message_format=codec), on_report=note) as reducer:
        await _go_through(reducer, transcript, found)
    return found


async def _go_through(reducer: Reducer, transcript: Transcript, found: Replay) -> None:
    codec = found.codec
    before, after = Ledger(codec), Ledger(codec)
    views = [codec.view(message) for message in found.originals]
    calls = _calls_by_result(pair_rounds(views, splits_turns=codec.splits_turns)[0])
    history = found.reduced

    async def request(index: int) -> None:
        history[:] = (await reducer.clear(history, tools=transcript.tools)).messages
        raw = await before.read(found.originals[:index], transcript.tools)
        found.turns.append(Turn(index, raw.tokens, (await after.read(history, transcript.tools)).tokens))

    for index, message in enumerate(found.originals):
        if index > 0 and views[index].role == "assistant" and views[index - 1].role != "assistant":
            await request(index)
        results = {}
        for result in views[index].results:
            call = calls.get((index, result.ordinal)) or ToolCall(result.id, result.name or "tool")
            shown = await reducer.truncate(call, result.content)
            if shown is not result.content:
                results[result.ordinal] = shown
        history.append(codec.replace(message, results=results))
    await request(len(found.originals))


def _calls_by_result(rounds: Sequence[Round]) -> dict[tuple[int, int], ToolCall]:
    """Index and ordinal of a result -> the call that it answers."""
    exchanges: list[Exchange] = [exchange for turn in rounds for exchange in turn.exchanges]
    return {
        (exchange.result_index, exchange.result.ordinal): ToolCall(
            exchange.call.id, exchange.call.name or "tool", exchange.call.arguments
        )
        for exchange in exchanges
        if exchange.result_index is not None and exchange.result is not None
    }
