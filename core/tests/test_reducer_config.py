"""The settings: defaults, what is refused, how a tool's own settings resolve, and that the docs name every field."""

import asyncio
import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

import stead.sync
from stead.environments import MemoryEnvironment
from stead.errors import ConfigError
from stead.reducer import Reduced, Reducer, ReducerConfig, ToolCall, ToolConfig
from stead.reducer.rules import rule_for

LONG = "x" * 5_000
DEFAULTS: dict[str, Any] = {
    "max_length_for_trunc": 50_000,
    "skip_truncation": False,
    "trunc_exclude_tools": frozenset(),
    "max_tokens_for_clear": 160_000,
    "clear_target_tokens": 40_000,
    "clear_retention_suffix_limit": 1,
    "clear_at_least_tokens": 0,
    "skip_clear": False,
    "clear_exclude_tools": frozenset(),
    "clear_tool_arguments": True,
    "clear_keep_errors": False,
    "repair": False,
    "root_dir": ".stead/offloads",
    "read_file_tool_name": "ReadFile",
    "tool_config": {},
    "on_offload_error": "keep",
    "offload_timeout": 15.0,
    "background_writes": False,
    "compression": "none",
    "language": "en",
    "templates": {},
    "preview": "text",
}
HOOKS = {
    "trunc_handler",
    "clear_handler",
    "gen_trunc_offload_file_path",
    "gen_clear_offload_file_path",
    "clear_message_rewriter",
    "clear_post_process",
    "token_counter",
    "message_format",
    "redact",
}


def test_the_defaults_are_these():
    """An empty config has the documented defaults, and so has one in which every field is None (F03)."""
    nothing = ReducerConfig(**{field.name: None for field in dataclasses.fields(ReducerConfig)})
    for config in (ReducerConfig(), nothing):
        found = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
        assert found.pop("session_id")
        assert {name: value for name, value in found.items() if name not in HOOKS} == DEFAULTS
        assert {found[name] for name in HOOKS} == {None}


def test_sessions_without_an_id_are_apart():
    """`session_id=None` is a random one for each config."""
    assert ReducerConfig().session_id != ReducerConfig().session_id
    with pytest.raises(ConfigError, match="session_id"):
        ReducerConfig(session_id="")


BAD: list[dict[str, Any]] = [
    {"max_length_for_trunc": True},
    {"max_length_for_trunc": 1.5},
    {"max_tokens_for_clear": "many"},
    {"clear_target_tokens": 200_000},
    {"offload_timeout": 0},
    {"offload_timeout": float("nan")},
    {"on_offload_error": "ignore"},
    {"compression": "gzip"},
    {"root_dir": ""},
    {"trunc_exclude_tools": "Grep"},
    {"clear_exclude_tools": [1]},
    {"tool_config": {"T": 7}},
    {"tool_config": {"T": {"enviroment": None}}},
]


@pytest.mark.parametrize("options", BAD, ids=lambda options: f"{options}")
def test_what_cannot_be_meant_is_refused(options):
    """A wrong type, an unknown choice, a bare string for a list, an unknown field of a tool: all name the setting."""
    with pytest.raises(ValueError, match=next(iter(options))):
        ReducerConfig(**options)


def test_the_config_is_frozen_and_keeps_its_own_copies():
    """Changing the caller's lists and mappings later changes nothing (F05, F06)."""
    tools, excluded = {"T": {"skip_clear": True}}, ["Grep"]
    config = ReducerConfig(tool_config=tools, trunc_exclude_tools=excluded)
    tools["U"], tools["T"]["skip_clear"] = {}, False
    excluded.append("Other")
    assert set(config.tool_config) == {"T"}
    assert config.tool_config["T"].skip_clear is True
    assert config.trunc_exclude_tools == {"Grep"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.repair = True


async def handler(call, result):
    return Reduced("mine")


async def other(call, result):
    return Reduced("other")


RULES = [
    ({}, "T", None),
    ({"trunc_handler": handler}, "T", handler),
    ({"trunc_handler": other, "tool_config": {"T": {"trunc_handler": handler}}}, "T", handler),
    ({"trunc_handler": other, "tool_config": {"T": {}}}, "T", other),
    ({"skip_truncation": True}, "T", "skipped"),
    ({"skip_truncation": True, "tool_config": {"T": {"skip_truncation": False}}}, "T", None),
    ({"tool_config": {"T": {"skip_truncation": True, "trunc_handler": handler}}}, "T", "skipped"),
    ({"trunc_exclude_tools": ["T"], "tool_config": {"T": {"trunc_handler": handler}}}, "T", "excluded"),
    ({}, "ReadFile", "reads offloads"),
]


@pytest.mark.parametrize(("options", "tool", "expected"), RULES)
def test_a_tools_settings_resolve_in_one_order(options, tool, expected):
    """Exclusion, then the tool's skip, then the reducer's skip, then the tool's handler, then the reducer's (F07)."""
    rule = rule_for(ReducerConfig(**options), "truncate", tool, {"ReadFile"})
    if isinstance(expected, str):
        assert expected in rule
    else:
        assert rule.handler is expected


def run(body, environment: Any = "memory", **options: Any):
    async def main():
        async with MemoryEnvironment() as env:
            config = ReducerConfig(**{"session_id": "s", "max_length_for_trunc": 1_000, **options})
            return await body(Reducer(env if environment == "memory" else environment, config))

    return asyncio.run(main())


def test_empty_ids_get_names_of_their_own():
    """No id, and an empty one, still give a file each; the same call again gives the same file (F04)."""

    async def body(reducer):
        for number, call_id in enumerate([None, "", None]):
            await reducer.truncate(ToolCall(call_id, "T"), f"{number}" + LONG)
        paths = [record.path for record in await reducer.offloads.list()]
        assert len(set(paths)) == 3
        assert all(path.rsplit("/", 1)[1] for path in paths)

    run(body)


def test_a_tool_is_called_once_with_its_own_arguments():
    """Skipped or not, the wrapped tool gets the same objects, once, and its result comes back (T07)."""
    got = []

    async def tool(value):
        got.append(value)
        return [{"type": "text", "text": LONG}]

    argument = {"a": [1]}

    async def body(reducer):
        out = await reducer.wrap(tool, name="T")(argument)
        assert out[0]["text"] == LONG
        assert got[0] is argument
        assert len(got) == 1

    run(body, skip_truncation=True)


def test_a_handler_that_stores_needs_an_environment():
    """Without one for the tool or the reducer it is a `ConfigError`; with one for the tool it is used (T12, T13)."""

    async def storing(call, result):
        return Reduced("short", offload=result, path=f"mine/{call.id}")

    async def body(reducer):
        with pytest.raises(ConfigError, match="no environment"):
            await reducer.truncate(ToolCall("c", "T"), LONG)
        with pytest.raises(ConfigError, match="no environment"):
            await reducer.clear(
                [
                    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "T", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "c", "content": LONG},
                ]
            )

    options = {"skip_truncation": True, "max_tokens_for_clear": 10, "clear_retention_suffix_limit": 0}
    both = {"skip_truncation": False, "trunc_handler": storing, "clear_handler": storing}
    run(body, environment=None, **options, tool_config={"T": both})

    async def main():
        async with MemoryEnvironment() as mine:
            own = ToolConfig(environment=mine, **both)
            reducer = Reducer(None, ReducerConfig(skip_truncation=True, tool_config={"T": own}))
            assert await reducer.truncate(ToolCall("c", "T"), LONG) == "short"
            assert await mine.read_file("mine/c") == LONG.encode()

    asyncio.run(main())


def test_compression_without_its_library_is_refused_at_once(monkeypatch):
    """The error has the pip line, and comes when the reducer is made, not when the first result is lost in a policy."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=r"stead\[zstd\]"):
        run(lambda reducer: None, compression="zstd")


def test_messages_carry_no_marks():
    """What was reduced is known by the records: no key is added to a message (C14, C15)."""

    async def body(reducer):
        call = {"id": "c", "type": "function", "function": {"name": "T", "arguments": "{}"}}
        history = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": LONG}]
        messages = (await reducer.clear(history)).messages
        assert [set(message) for message in messages] == [set(message) for message in history]
        assert messages[0] is history[0]

    run(body, max_tokens_for_clear=10, clear_retention_suffix_limit=0)


def test_blocking_code_uses_the_facade():
    """`stead.sync.run` gives the same answer as awaiting (K22)."""
    with stead.sync.create_environment("memory") as files:
        reducer = Reducer(files.environment, ReducerConfig(session_id="s", max_length_for_trunc=1_000))
        notice = stead.sync.run(reducer.truncate(ToolCall("c", "T"), LONG))
        assert len(notice) <= 1_000

    async def body(other_reducer):
        assert await other_reducer.truncate(ToolCall("c", "T"), LONG) == notice

    run(body)


def test_the_reference_names_every_field():
    """docs/reference/reducer.md has one row for each field of the config and of a tool's config."""
    page = Path(__file__).parents[2] / "docs/reference/reducer.md"
    if not page.exists():
        pytest.skip("the docs are not part of this distribution")
    text = page.read_text()
    for cls in (ReducerConfig, ToolConfig):
        for field in dataclasses.fields(cls):
            assert f"| `{field.name}` |" in text, field.name
