"""Offloads after the fact: listed, read, deleted and expired; compressed ones read like any other."""

import ast
import asyncio
import json
import random
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead import LineRange
from stead.environments import MemoryEnvironment
from stead.errors import FileMissing, StreamInterrupted, Unsupported
from stead.reducer import OffloadRecord, Offloads, Reducer, ReducerConfig, ToolCall
from stead.reducer.frames import FRAME_SIZE, FrameWriter, read_frames
from stead.reducer.records import parse_record_name

LONG = "".join(f"line {n}\n" for n in range(2_000))


def run(body, environment=None, **options: Any):
    async def main():
        async with environment or MemoryEnvironment() as env:
            config = ReducerConfig(**{"session_id": "s", "max_length_for_trunc": 1_000, **options})
            return await body(Reducer(env, config))

    return asyncio.run(main())


async def files(environment, folder=".stead/offloads") -> list[str]:
    try:
        async with aclosing(environment.list_files(folder, recursive=True)) as infos:
            return [info.path async for info in infos if info.kind == "file"]
    except FileMissing:
        return []


async def chunks(text: str):
    for start in range(0, len(text), 500):
        yield text[start : start + 500]


async def make(reducer: Reducer, count: int) -> list[OffloadRecord]:
    for number in range(count):
        await reducer.truncate(ToolCall(f"c{number}", "T"), f"{number} {LONG}")
    return await reducer.offloads.list()


async def age(reducer: Reducer, record: OffloadRecord, by: timedelta) -> None:
    """Makes a record older than it is."""
    older = replace(record, time=(record.stored_at - by).isoformat())
    folder = f"{reducer.config.root_dir}/{reducer.session}/records"
    await reducer.environment.write_file(f"{folder}/{record.name()}", older.to_json())


def test_a_record_survives_its_file():
    """To JSON and back it is equal; foreign and broken files are no records; a newer field does no harm."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        assert OffloadRecord.from_json(record.to_json().encode()) == record
        newer = {**json.loads(record.to_json()), "colour": "blue"}
        assert OffloadRecord.from_json(json.dumps(newer).encode()) == record
        for data in (b"", b"{}", b"[]", b"null", b"\xff", b'{"session": 1}'):
            assert OffloadRecord.from_json(data) is None
        assert parse_record_name(str(record.name())) == record.name()
        assert parse_record_name("notes.json") is None

    run(body)


def test_sessions_are_listed_apart_and_together():
    """A session sees its own, `Offloads` without a session sees all, oldest first."""

    async def body(reducer):
        await make(reducer, 2)
        other = Reducer(reducer.environment, replace(reducer.config, session_id="Ünter ../x"))
        await make(other, 1)
        assert [r.session for r in await reducer.offloads.list()] == ["s", "s"]
        everything = await Offloads(reducer.environment).list()
        assert len({record.session for record in everything}) == 2
        assert [r.time for r in everything] == sorted(r.time for r in everything)
        async with MemoryEnvironment() as empty:
            assert await Offloads(empty).list() == []

    run(body)


def test_deleting_removes_content_and_records():
    """Afterwards the path is missing, the others stay, and the same result can be stored again."""

    async def body(reducer):
        first, second = await make(reducer, 2)
        assert await reducer.offloads.delete(first.path) == [first.path]
        with pytest.raises(FileMissing):
            await reducer.offloads.read(first.path)
        with pytest.raises(FileMissing):
            await reducer.offloads.delete(first.path)
        assert [record.path for record in await reducer.offloads.list()] == [second.path]
        assert not any(first.path in path for path in await files(reducer.environment))
        again = Reducer(reducer.environment, reducer.config)
        await again.truncate(ToolCall("c0", "T"), f"0 {LONG}")
        assert await again.offloads.read(first.path) == f"0 {LONG}".encode()

    run(body)


def test_a_reducer_that_goes_on_does_not_point_to_deleted_content():
    """Equal content that was expired meanwhile is stored anew, not only named."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        await reducer.offloads.delete(record.path)
        notice = await reducer.truncate(ToolCall("other", "T"), f"0 {LONG}")
        (new,) = await reducer.offloads.list()
        assert new.path in notice
        assert await reducer.offloads.read(new.path) == f"0 {LONG}".encode()

    run(body)


@pytest.mark.parametrize("restarts", [False, True])
def test_content_that_is_gone_is_stored_again(restarts):
    """A record does not stand for content that somebody deleted: the text is in hand, and no notice names nothing."""
    call = {"id": "a", "type": "function", "function": {"name": "Read", "arguments": json.dumps({"content": LONG})}}
    last = {**call, "id": "b", "function": {"name": "Read", "arguments": "{}"}}
    history = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": f"cleared {LONG}"},
        {"role": "assistant", "content": None, "tool_calls": [last]},
        {"role": "tool", "tool_call_id": "b", "content": "ok"},
    ]
    other = [{"role": "user", "content": "another list"}, *history]

    async def body(reducer):
        environment = reducer.environment
        notice = await reducer.truncate(ToolCall("c", "T"), LONG)
        cleared = (await reducer.clear(history)).messages
        before = set(await files(environment))
        contents = {path: await environment.read_file(path) for path in before if "/records/" not in path}
        assert len(contents) == 3
        for path in contents:
            await environment.delete_file(path)
        next_one = Reducer(environment, reducer.config) if restarts else reducer
        assert await next_one.truncate(ToolCall("c", "T"), LONG) == notice
        assert (await next_one.clear(other)).messages[1:] == cleared
        assert {path: await environment.read_file(path) for path in contents} == contents
        assert set(await files(environment)) == before

    run(body, max_tokens_for_clear=100, clear_target_tokens=0)


def test_a_record_of_gone_content_is_not_applied_below_the_trigger():
    """There the text simply stays."""
    call = {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    history = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": LONG},
    ]

    async def body(reducer):
        assert (await reducer.clear(history)).changed
        (record,) = await reducer.offloads.list()
        await reducer.environment.delete_file(record.path)
        config = replace(reducer.config, max_tokens_for_clear=1_000_000)
        assert (await Reducer(reducer.environment, config).clear(history)).messages == history
        assert await files(reducer.environment) == []

    run(body, max_tokens_for_clear=100, clear_target_tokens=0, clear_retention_suffix_limit=0)


def test_content_that_two_results_share_lives_as_long_as_its_last_use():
    """Expiry counts from the last record of a path."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        await age(reducer, record, timedelta(days=9))
        assert await reducer.truncate(ToolCall("again", "T"), f"0 {LONG}") != LONG
        assert await reducer.offloads.expire(age=timedelta(days=1)) == []
        assert await reducer.offloads.read(record.path) == f"0 {LONG}".encode()

    run(body)


def test_old_offloads_expire_and_only_those():
    """`age` in seconds or as a timedelta; files of others in the same folders stay."""

    async def body(reducer):
        records = await make(reducer, 3)
        await reducer.environment.write_file(".stead/offloads/s/trunc/notes.txt", "mine")
        await reducer.environment.write_file("work.txt", "mine")
        for record in records[:2]:
            await age(reducer, record, timedelta(days=2))
        assert await reducer.offloads.expire(age=timedelta(days=3)) == []
        removed = await reducer.offloads.expire(age=86_400.0)
        assert sorted(removed) == sorted(record.path for record in records[:2])
        assert [record.path for record in await reducer.offloads.list()] == [records[2].path]
        assert await reducer.environment.read_file(".stead/offloads/s/trunc/notes.txt") == b"mine"
        assert await reducer.environment.read_file("work.txt") == b"mine"
        for bad in ({"age": -1}, {"quota": -1}):
            with pytest.raises(ValueError, match="negative"):
                await reducer.offloads.expire(**bad)

    run(body)


def test_a_quota_removes_the_oldest_first():
    """Until what is left has at most so many bytes; a quota of 0 removes all."""

    async def body(reducer):
        records = await make(reducer, 4)
        for number, record in enumerate(records):
            await age(reducer, record, timedelta(hours=4 - number))
        size = records[0].size
        assert await reducer.offloads.expire(quota=4 * size) == []
        assert await reducer.offloads.expire(quota=2 * size + 1) == [record.path for record in records[:2]]
        assert len(await reducer.offloads.expire(quota=0)) == 2
        assert await files(reducer.environment) == []

    run(body)


def test_content_without_a_record_goes_after_a_day():
    """A crash between content and record leaves an orphan; a young one may still get its record."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        env = reducer.environment
        orphan = ".stead/offloads/s/trunc/c9-0123456789abcdef"
        await env.write_file(orphan, "lost")
        assert await reducer.offloads.expire() == []
        target = env._resolve(orphan)
        env._files[target] = replace(env._files[target], modified=datetime.now(UTC) - timedelta(days=2))
        assert [path.lstrip("/") for path in await reducer.offloads.expire()] == [orphan]
        assert await reducer.offloads.read(record.path)

    run(body)


def test_a_forged_record_removes_nothing_of_others():
    """A record that names a file outside is only believed if that file has exactly the recorded content."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        await reducer.environment.write_file("precious.txt", "precious")
        forged = replace(record, path="precious.txt", call_id="forged")
        escaping = replace(record, path=".stead/offloads/s/../../../precious.txt", call_id="escaping")
        for fake in (forged, escaping):
            await reducer.environment.write_file(f".stead/offloads/s/records/{fake.name()}", fake.to_json())
        await reducer.offloads.expire(age=0)
        assert await reducer.environment.read_file("precious.txt") == b"precious"

    run(body)


def test_half_a_surrogate_pair_in_an_id_or_name_is_recorded():
    """The record holds it, and a later reducer finds the result again by it."""

    async def body(reducer):
        call = ToolCall("\ud83d", "T\ud83d", {"\ud83d": "\udc00"})
        shown = await reducer.truncate(call, LONG)
        (record,) = await reducer.offloads.list()
        assert (record.call_id, record.tool) == ("\ud83d", "T\ud83d")
        assert await Reducer(reducer.environment, reducer.config).truncate(call, LONG) == shown != LONG
        assert await reducer.offloads.list() == [record]

    run(body)


@pytest.mark.parametrize(
    "damage",
    [
        {"time": "bad"},
        {"time": 5},
        {"path": 5},
        {"kind": "odd"},
        {"size": "x"},
        {"frames": ["x"]},
        {"frames": 3},
        {"media": [{"path": 7}]},
        {"media": ["x"]},
        {"call_id": 3},
    ],
)
def test_a_damaged_record_is_passed_over(damage: dict[str, Any], caplog: pytest.LogCaptureFixture):
    """It is told with its path, and the others are listed, found and expired as ever."""

    async def body(reducer):
        damaged, record = await make(reducer, 2)
        folder = f"{reducer.config.root_dir}/{reducer.session}/records"
        text = json.dumps(json.loads(damaged.to_json()) | damage)
        await reducer.environment.write_file(f"{folder}/{damaged.name()}", text)
        offloads = Offloads(reducer.environment)
        assert await offloads.list() == [record]
        assert await offloads.read(damaged.path) == f"0 {LONG}".encode()
        assert await offloads.expire(age=0, quota=0) == [record.path]
        assert f"{folder}/{damaged.name()} is no record that can be read; it is passed over" in caplog.messages

    run(body)


class NoConditions(MemoryEnvironment):
    capabilities = replace(MemoryEnvironment.capabilities, create_only=False)


@pytest.mark.parametrize("environment", [MemoryEnvironment, NoConditions])
@pytest.mark.parametrize("streams", [False, True])
def test_a_file_of_the_callers_stays(environment, streams: bool):
    """What lay at a path of the caller's before, with the same content, is named, and outlives its record."""

    async def body(reducer):
        await reducer.environment.write_file("docs/c", LONG)
        for call in (ToolCall("c", "T"), ToolCall("d", "T")):
            if streams:
                async with aclosing(reducer.truncate_stream(call, chunks(LONG))) as shown:
                    assert "docs/c" in "".join([chunk async for chunk in shown])
            else:
                assert "docs/c" in await reducer.truncate(call, LONG)
        assert [record.path for record in await reducer.offloads.list()] == ["docs/c", "docs/c"]
        assert await reducer.offloads.expire(age=0) == []
        assert await reducer.offloads.list() == []
        assert await reducer.environment.read_file("docs/c") == LONG.encode()

    run(body, environment(), gen_trunc_offload_file_path=lambda call: "docs/c")


def test_an_own_path_is_removed_with_its_record():
    """What a path generator chose outside the folder expires too, since its content is the recorded one."""

    async def body(reducer):
        await make(reducer, 1)
        assert await reducer.offloads.expire(age=0) == ["mine/c0"]
        assert await files(reducer.environment, ".") == []

    run(body, gen_trunc_offload_file_path=lambda call: f"mine/{call.id}")


def test_an_environment_that_cannot_list_says_so():
    """Listing and expiry raise `Unsupported`; reading by path works."""

    class Old:
        working_dir = "/"

        def __init__(self):
            self.kept = {}

        async def read_file(self, path):
            if str(path) not in self.kept:
                raise FileMissing("no")
            return self.kept[str(path)]

        async def write_file(self, path, content):
            self.kept[str(path)] = content

    async def main():
        reducer = Reducer(Old(), ReducerConfig(session_id="s", max_length_for_trunc=1_000))
        notice = await reducer.truncate(ToolCall("c", "T"), LONG)
        path = next(line for line in notice.splitlines() if line.startswith(".stead"))
        assert await reducer.offloads.read(path) == LONG.encode()
        for call in (reducer.offloads.list(), reducer.offloads.expire(age=0)):
            with pytest.raises(Unsupported):
                await call
        await reducer.environment.close()

    asyncio.run(main())


# ---- zstd -------------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    size=st.integers(0, 3 * FRAME_SIZE),
    offset=st.integers(0, 3 * FRAME_SIZE + 9),
    length=st.none() | st.integers(0, 10**7),
)
def test_any_range_of_a_compressed_offload_reads_like_the_text(size, offset, length):
    """Only the frames that hold the range are fetched, and their bytes are the text's."""
    data = random.Random(size).randbytes(1_000) * (size // 1_000 + 1)
    data = data[:size]
    fetched = 0

    class Counting(MemoryEnvironment):
        async def read_file_stream(self, path, *, offset=0, length=None):
            nonlocal fetched
            async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    fetched += len(chunk)
                    yield chunk

    async def main():
        async with Counting() as env:
            writer = FrameWriter()
            await env.write_file("f.zst", writer.feed(data) + writer.finish())
            pieces = read_frames(env, "f.zst", writer.sizes, offset=offset, length=length)
            async with aclosing(pieces) as stream:
                read = b"".join([piece async for piece in stream])
            assert read == data[offset : None if length is None else offset + length]
            if length is not None and length < 1_000:
                assert fetched <= 2 * max(writer.sizes, default=0)

    asyncio.run(main())


def test_compressed_offloads_are_smaller_and_read_back_through_the_read_tool():
    """The path ends in `.zst`, the file is smaller, ReadFile pages it by lines, a foreign `.zst` is read as it is."""
    from stead.tools import toolset

    text = "".join(f"line {n} {'.' * 60}\n" for n in range(40_000))

    async def main():
        async with MemoryEnvironment() as env, MemoryEnvironment() as archive:
            config = ReducerConfig(session_id="s", compression="zstd")
            first = Reducer(archive, config)
            notice = await first.truncate(ToolCall("c", "T"), text)
            path = next(line for line in notice.splitlines() if line.startswith(".stead"))
            assert path.endswith(".zst")
            assert (await archive.stat(path)).size < len(text) // 5
            assert await first.offloads.read(path) == text.encode()
            for reducer in (first, Reducer(archive, config)):
                read = toolset(env, offloads=reducer, number_lines=False)["ReadFile"]
                page = await read(path=path, start_line=30_001, end_line=30_002)
                assert page["status"] == "ok"
                assert page["content"].splitlines() == text.splitlines()[30_000:30_002]
                assert page["total_lines"] == 40_000
            await archive.write_file(".stead/offloads/s/trunc/foreign.zst", b"not compressed\n")
            page = await read(path=".stead/offloads/s/trunc/foreign.zst")
            assert page["content"].startswith("not compressed")

    asyncio.run(main())


def test_a_damaged_compressed_offload_is_an_error_not_silence():
    """A truncated file, or other bytes, raise instead of giving less text."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        data = await reducer.environment.read_file(record.path)
        for damaged in (data[:-1], b"", b"x" * len(data)):
            await reducer.environment.write_file(record.path, damaged)
            with pytest.raises(StreamInterrupted):
                await reducer.offloads.read(record.path)

    run(body, compression="zstd")


def test_lines_of_a_compressed_offload_are_read_by_range():
    """The view for the read tool has size and lines of the text, and refuses to write."""

    async def body(reducer):
        (record,) = await make(reducer, 1)
        view = reducer.environment_of(record.path)
        assert (await view.stat(record.path)).size == record.size
        window = await view.read_lines(record.path, LineRange(start=5, end=6))
        assert window.lines == "line 4\nline 5"
        assert window.total_lines == 2_000
        with pytest.raises(Unsupported):
            await view.write_file(record.path, "x")

    run(body, compression="zstd")


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("path", "encoding"), [("out/c.txt", "none"), ("out/c.zst", "zstd")])
def test_only_a_path_that_says_so_is_compressed(path: str, encoding: str, streams: bool):
    """A path of the caller's own holds plain text, unless it ends in `.zst`; both read back as the text."""

    async def body(reducer):
        if streams:
            async with aclosing(reducer.truncate_stream(ToolCall("c", "T"), chunks(LONG))) as shown:
                assert path in "".join([chunk async for chunk in shown])
        else:
            assert path in await reducer.truncate(ToolCall("c", "T"), LONG)
        (record,) = await reducer.offloads.list()
        assert (record.path, record.encoding) == (path, encoding)
        assert (await reducer.environment.read_file(path) == LONG.encode()) is (encoding == "none")
        assert await reducer.offloads.read(path) == LONG.encode()
        assert await reducer.environment_of(path).read_file(path) == LONG.encode()
        assert await reducer.offloads.expire(age=0) == [path]

    run(body, compression="zstd", gen_trunc_offload_file_path=lambda call: path)


# ---- a process that dies ----------------------------------------------------------------------------------------------

WORKER = """
import asyncio, os, random, signal, sys, time
from stead_local import LocalEnvironment
from stead.reducer import Reducer, ReducerConfig, ToolCall

root, out = sys.argv[1:]

def rounds(first):
    for n in range(first, first + 20):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} " * 2_000}

async def main(life, file):
    async with LocalEnvironment(root=root) as env:
        config = ReducerConfig(session_id="s", max_length_for_trunc=1_000, max_tokens_for_clear=100, clear_target_tokens=0)
        reducer = Reducer(env, config)
        for turn in range(1_000 * life, 1_000 * (life + 1)):
            notice = await reducer.truncate(ToolCall(f"t{turn}", "T"), f"{turn} " * 5_000)
            print(repr(notice), file=file, flush=True)
            for message in (await reducer.clear(list(rounds(turn * 20)))).messages:
                if message["role"] == "tool":
                    print(repr(message["content"]), file=file, flush=True)

numbers = random.Random(7)
for life in range(50):
    child = os.fork()
    if child == 0:
        with open(f"{out}/{life}", "w") as file:
            asyncio.run(main(life, file))
    # Half of them die at any point from their first notice on, the others possibly before.
    give_up = time.monotonic() + 10
    while life % 2 and time.monotonic() < give_up and not (os.path.exists(f"{out}/{life}") and os.path.getsize(f"{out}/{life}")):
        time.sleep(0.002)
    time.sleep(numbers.uniform(0.0, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_a_killed_process_never_leaves_a_notice_without_its_text(tmp_path: Path):
    """SIGKILL at 50 random points: every path that was handed out, and every record, has its whole content."""
    pytest.importorskip("stead_local")
    root, out = tmp_path / "root", tmp_path / "out"
    root.mkdir()
    out.mkdir()
    (tmp_path / "worker.py").write_text(WORKER)
    subprocess.run([sys.executable, tmp_path / "worker.py", root, out], check=True)
    named = set()
    for file in out.iterdir():
        for line in file.read_text().rpartition("\n")[0].splitlines():  # What follows was cut off.
            named |= {w.rstrip(":.,()") for w in ast.literal_eval(line).split() if w.startswith(".stead/offloads/")}
    assert len(named) >= 25
    assert all((root / path).stat().st_size > 2_000 for path in named)
    records = [
        OffloadRecord.from_json(path.read_bytes())
        for path in (root / ".stead/offloads/s/records").glob("[tcar]-*.json")
    ]
    assert len(records) >= len(named)
    for record in records:
        assert record is not None
        assert (root / record.path).stat().st_size == record.size
