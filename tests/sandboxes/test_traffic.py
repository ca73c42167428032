"""Memory of the client and traffic of the service, with large files."""

import hashlib
from contextlib import aclosing
from pathlib import Path

import pytest
from providers import run, sizes

from stead.conformance.peak import Peak
from stead.results import LineRange

_MIB = 1 << 20
_BLOCK = bytes(range(256)) * 4096


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", sizes(256 * _MIB))
def test_large_files_in_bounded_memory(provider, size):
    """256 MiB written from an iterator and read as a stream grow the client by less than 48 MiB, and arrive whole.

    Of less than that, by less than half of it.
    """
    limit = min(48 * _MIB, size // 2)

    async def pieces():
        for _ in range(size // _MIB):
            yield _BLOCK

    async def use() -> list[int]:
        growths = []
        async with provider.environment(request_timeout=120) as env:
            await env.write_file("warm", b"x" * _MIB)
            await env.read_file("warm")
            async with Peak()() as written:
                await env.write_file("large", pieces())
            digest, expected = hashlib.sha256(), hashlib.sha256()
            async with Peak()() as read, aclosing(env.read_file_stream("large")) as chunks:
                async for chunk in chunks:
                    digest.update(chunk)
            for _ in range(size // _MIB):
                expected.update(_BLOCK)
            assert digest.digest() == expected.digest()
            growths += [written.bytes, read.bytes]
            await env.delete_file("large")
        return growths

    written, read = run(use())
    print(f"{provider.name}: {size >> 20} MiB written with {written / _MIB:.1f} MiB, read with {read / _MIB:.1f} MiB")
    assert max(written, read) < limit


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", sizes(1 << 30))
def test_last_page_of_a_log(provider, size):
    """The last page of a log of 1 GiB costs less than 1 MB of traffic, counting included, and the next page less still."""
    line = b"%014d a line of a log, as long as such lines are in a build of some size\n"
    count = size // len(line % 0)

    async def use() -> None:
        made = provider.made()
        write_log(Path(made.root, "log"), line, count)
        async with made.environment(on_close="kill") as env:
            await env.execute("true")
            before = provider.server.state()
            page = await env.read_lines("log", LineRange(start=count - 99))
            after = provider.server.state()
            assert page.total_lines == count
            assert page.lines.split("\n")[-1] == (line % (count - 1)).decode().rstrip("\n")
            assert page.lines.count("\n") == 99
            traffic = sum(after[way] - before[way] for way in ("sent", "received"))
            assert traffic < 1_000_000
            middle = await env.read_lines("log", LineRange(start=count // 2, end=count // 2 + 9))
            again = provider.server.state()
            assert middle.lines.split("\n")[0] == (line % (count // 2 - 1)).decode().rstrip("\n")
            print(
                f"{provider.name}: last page of {size >> 20} MiB: {traffic} bytes; then {again['sent'] - after['sent']}"
            )

    run(use())


def write_log(path: Path, line: bytes, count: int) -> None:
    with path.open("wb") as file:
        for start in range(0, count, 100_000):
            file.write(b"".join(line % n for n in range(start, min(count, start + 100_000))))


def test_output_beyond_the_limit_stays_there(provider):
    """Of 50 MiB of output only what the result holds travels; the rest is in the file that it names."""

    async def use() -> None:
        async with provider.environment() as env:
            await env.execute("true")
            before = provider.server.state()["sent"]
            result = await env.execute("head -c 50000000 /dev/zero | tr '\\000' x; echo end", output_limit=10_000)
            assert provider.server.state()["sent"] - before < 200_000
            assert result.stdout_bytes == 50_000_004
            assert result.stdout.endswith("xend\n")
            assert (await env.stat(result.stdout_path)).size == 50_000_004
            record = await env.read_file(f"{result.stdout_path}.json")
            assert b'"complete": true' in record

    run(use())


def test_calls_of_an_operation(provider):
    """What each operation costs in requests: the numbers of the documentation."""
    costs = {}

    async def part(env) -> None:
        async with aclosing(env.read_file_stream("large", offset=_MIB, length=_MIB)) as chunks:
            assert sum([len(chunk) async for chunk in chunks]) == _MIB

    async def listed(env) -> None:
        async with aclosing(env.list_files(".")) as entries:
            assert len([entry async for entry in entries]) >= 3

    async def use() -> None:
        async with provider.environment() as env:
            await env.start()
            costs["start"] = provider.server.calls()
            await env.write_file("small", "x" * 1000)
            await env.write_file("middle", "x" * _MIB)
            await env.write_file("large", "x" * (9 * _MIB))

            async def cost(name, call) -> None:
                before = provider.server.calls()
                await call
                costs[name] = provider.server.calls() - before

            await cost("stat", env.stat("small"))
            await cost("delete", env.delete_file("middle"))
            await cost("read small", env.read_file("small"))
            await env.write_file("middle", "x" * (_MIB - 1))
            await cost("read middle", env.read_file("middle"))
            await cost("read large", env.read_file("large"))
            await cost("part of a large file", part(env))
            await cost("list", listed(env))
            await cost("write", env.write_file("small", "y"))
            await cost("write large", env.write_file("large", b"y" * (2 * _MIB)))
            await cost("read_lines", env.read_lines("small", LineRange()))
            await cost("execute", env.execute("true"))
            await cost("execute with stdin", env.execute("cat", stdin="x"))
            await cost("close", env.close())

    run(use())
    # Daytona is also asked whether the sandbox has started, as often as that takes.
    assert costs.pop("start") == 2 or provider.name == "daytona"
    assert costs == {
        "part of a large file": 2,
        "list": 1,
        "close": 1,
        "stat": 1,
        "delete": 1,
        "read small": 1,
        "read middle": 2,
        "read large": 3,
        "write": 2,
        "write large": 3,
        "read_lines": 1,
        "execute": 1,
        "execute with stdin": 2,
    }
