"""Pages of lines: one ranged request once the lines are counted, and the count goes with an offload."""

from contextlib import aclosing

import pytest
from s3_support import run

from stead.environment import Environment
from stead.errors import FileMissing, IsADirectory
from stead.reducer import Reducer, ReducerConfig, ToolCall
from stead.results import LineRange
from stead.tools import toolset
from stead.wrappers import ScopedEnvironment

_LINE = b"%08d a line as long as lines in logs are, more or less\n"


async def lines(count):
    for start in range(0, count, 20_000):
        yield b"".join(_LINE % n for n in range(start + 1, min(start + 20_000, count) + 1))


def asked(proxy):
    return [(request.method, request.headers.get("range")) for request in proxy.requests]


def ranged_size(value):
    begin, end = value.removeprefix("bytes=").split("-")
    return int(end) - int(begin) + 1


async def first_number(env, path, start):
    page = await env.read_lines(path, LineRange(start=start, end=start + 1))
    return int(page.lines.split()[0]), page.total_lines


def test_second_page_is_one_ranged_request(near, proxy):
    """After a first scan each page costs one request of at most 512 KiB, wherever it is."""
    count = 200_000

    async def use(env):
        await env.write_file("log", lines(count))
        proxy.requests.clear()
        assert await first_number(env, "log", 1000) == (1000, count)
        assert asked(proxy) == [("GET", None)]
        for start in (1, 77_777, 123_456, count - 1):
            proxy.requests.clear()
            assert await first_number(env, "log", start) == (start, count)
            assert [method for method, _ in asked(proxy)] == ["GET"]
            assert ranged_size(asked(proxy)[0][1]) <= 512 * 1024
        proxy.requests.clear()
        page = await env.read_lines("log", LineRange(start=count + 5))
        assert (page.lines, page.total_lines) == ("", count)
        assert len(proxy.requests) == 1

    run(near, use)


def test_page_larger_than_one_range(near, proxy):
    """A page that asks for much is complete, in as many ranges as it takes."""

    async def use(env):
        await env.write_file("log", lines(100_000))
        await env.read_lines("log", LineRange(end=1))
        window = LineRange(start=2, end=90_000, max_chars=20_000_000)
        page = await env.read_lines("log", window)
        assert page.lines.encode() + b"\n" == b"".join(_LINE % n for n in range(2, 90_001))
        assert page == await Environment.read_lines(env, "log", window)

    run(near, use)


def test_pages_of_one_giant_line(near, proxy):
    """Pages inside one line of 6 MB cost one range each too."""
    text = "".join(f"{n:06d}\u754c" for n in range(600_000))

    async def use(env):
        await env.write_file("line", text)
        await env.read_lines("line", LineRange())
        for column in (1, 1_000_001, 4_000_000):
            proxy.requests.clear()
            page = await env.read_lines("line", LineRange(start_column=column, max_chars=1000))
            assert page.lines == text[column - 1 : column + 999]
            assert ranged_size(asked(proxy)[0][1]) <= 512 * 1024
        with pytest.raises(ValueError, match=f"{len(text)} characters"):
            await env.read_lines("line", LineRange(start_column=len(text) + 2))

    run(near, use)


def test_replaced_object_is_counted_anew(near, proxy, door):
    """A new version is noticed by the request for the page itself, and read with its own lines."""

    async def use(env):
        await env.write_file("log", lines(20_000))
        await env.read_lines("log", LineRange(end=1))
        door.write("log", b"other\n" * 10)
        proxy.requests.clear()
        page = await env.read_lines("log", LineRange(start=10))
        assert (page.lines, page.total_lines) == ("other", 10)
        assert len(proxy.requests) == 2
        await env.delete_file("log")
        with pytest.raises(FileMissing):
            await env.read_lines("log", LineRange())
        await env.write_file("log/below", "x")
        with pytest.raises(IsADirectory):
            await env.read_lines("log", LineRange())

    run(near, use)


def test_page_without_total_stops_early(near, proxy):
    """A first page that need not count does not fetch the whole object."""

    async def use(env):
        await env.write_file("log", lines(400_000))
        window = LineRange(end=3, count_total=False)
        page = await env.read_lines("log", window)
        assert (page.last_line, page.total_lines) == (3, None)

    run(near, use)


def test_offload_brings_its_index(near, proxy):
    """A page of a large offload costs one ranged request for its writer, and two small ones more for a new process."""
    count = 400_000

    async def write(env):
        text = b"".join([piece async for piece in lines(count)]).decode()
        reducer = Reducer(env, ReducerConfig(session_id="s"))
        notice = await reducer.truncate(ToolCall(id="c", name="t", arguments={}), text)
        path = (await reducer.offloads.list())[0].path
        assert path in notice
        proxy.requests.clear()
        assert await first_number(env, path, 300_000) == (300_000, count)
        assert [method for method, _ in asked(proxy)] == ["GET"]
        assert ranged_size(asked(proxy)[0][1]) <= 512 * 1024
        return path

    path = run(near, write)

    async def read(env):
        proxy.requests.clear()
        assert await first_number(env, path, 300_000) == (300_000, count)
        assert [method for method, _ in asked(proxy)] == ["HEAD", "GET", "GET"]
        assert ranged_size(asked(proxy)[2][1]) <= 512 * 1024
        proxy.requests.clear()
        assert await first_number(env, path, 9) == (9, count)
        assert len(proxy.requests) == 1
        answer = await toolset(env)["ReadFile"](path=path, start_line=5, end_line=6)
        assert answer["total_lines"] == count

    run(near, read)


def test_offload_without_its_index(near, proxy, door):
    """An index that is missing, damaged or another's is no harm: the lines are counted."""
    count = 200_000

    async def write(env):
        await env.write_file(".stead/offloads/a", lines(count))

    run(near, write)
    (name,) = door.names(".stead/lines")
    good = door.read(f".stead/lines/{name}")
    for damaged in (b"", b"{}\n", good[:50], good.replace(b'"token": "', b'"token": "x'), b"\xff\xfe"):
        door.write(f".stead/lines/{name}", damaged)

        async def read(env):
            assert await first_number(env, ".stead/offloads/a", 150_000) == (150_000, count)

        run(near, read)


def test_deleted_offload_takes_its_index_along(place, door):
    """Deleting an offload deletes what lies beside it."""

    async def use(env):
        await env.write_file(".stead/offloads/a", lines(200_000))
        assert len(door.names(".stead/lines")) == 1
        await env.delete_file(".stead/offloads/a")
        assert door.names(".stead") == []

    run(place, use)


def test_plain_files_bring_no_index(place, door):
    """Nothing is written beside a file that is no offload."""

    async def use(env):
        await env.write_file("log", lines(200_000))
        assert door.names(".stead") == []

    run(place, use)


def test_offload_of_a_scope_brings_its_index(place, door):
    """A scope of a store has a state directory of its own, and the index of an offload lies there."""

    async def use(env):
        async with ScopedEnvironment(env, "team-a") as scope:
            await scope.write_file(".stead/offloads/a", lines(200_000))
            assert len(door.names("team-a/.stead/lines")) == 1
            assert door.names(".stead") == []
            await scope.delete_file(".stead/offloads/a")
        assert door.names("team-a/.stead") == []

    run(place, use)


@pytest.mark.soak
def test_page_of_a_huge_offload(near, proxy, scale):
    """A page of 1 GB that a streaming tool gave and the reducer stored is one ranged request of at most 512 KiB."""
    count = int(1e9 * scale) // len(_LINE % 0)

    async def tool():
        async with aclosing(lines(count)) as pieces:
            async for piece in pieces:
                yield piece.decode()

    async def use(env):
        reducer = Reducer(env, ReducerConfig(session_id="s"))
        async with aclosing(reducer.wrap(tool)()) as chunks:
            shown = sum([len(chunk) async for chunk in chunks])
        (offload,) = await reducer.offloads.list()
        assert shown < offload.size == count * len(_LINE % 0)
        for start in (count // 2, 3, count - 1):
            proxy.requests.clear()
            assert await first_number(env, offload.path, start) == (start, count)
            assert [method for method, _ in asked(proxy)] == ["GET"]
            assert ranged_size(asked(proxy)[0][1]) <= 512 * 1024
        await env.delete_file(offload.path)

    run(near, use)
