"""What each call of an object store's environment costs, in requests counted before the server."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress

from servers.fault_proxy import FaultProxy, Request
from stead.environment import Environment
from stead.errors import FileMissing
from stead.results import FileInfo, LineRange

__all__ = ["requests_of"]


async def requests_of(env: Environment, proxy: FaultProxy) -> dict[str, str]:
    """Makes each call on an environment behind a proxy, and says which requests it made, in order.

    A listing is `LIST`; all others are named by their method.
    """
    found = {}

    async def count(name: str, call: Awaitable[object]) -> None:
        proxy.requests.clear()
        with suppress(FileMissing):
            await call
        found[name] = " ".join(map(_shown, proxy.requests))

    await count("start", env.start())
    await count("write", env.write_file("a", b"x" * 1024))
    await count("write, first in a folder", env.write_file("d/e/a", b"x"))
    await count("write, again in a folder", env.write_file("d/e/b", b"x"))
    await count("write, 12 MiB from an iterator", env.write_file("large", _source(12)))
    await count("read", env.read_file("a"))
    await count("read, a range", _all(env.read_file_stream("a", offset=5, length=3)))
    await count("read, missing", env.read_file("none"))
    await count("read_lines", env.read_lines("a", LineRange()))
    await count("read_lines, again", env.read_lines("a", LineRange()))
    await count("stat", env.stat("a"))
    await count("stat, a folder", env.stat("d"))
    await count("stat, missing", env.stat("none"))
    await count("list", _all(env.list_files("d")))
    await count("delete", env.delete_file("a"))
    return found


def _shown(request: Request) -> str:
    path = request.target.partition("?")[0]
    is_listing = "list-type" in request.target or (request.method == "GET" and path.endswith("/o"))
    return "LIST" if is_listing else request.method


async def _source(mebibytes: int) -> AsyncGenerator[bytes, None]:
    for _ in range(mebibytes):
        yield bytes(1 << 20)


async def _all(items: AsyncGenerator[bytes, None] | AsyncGenerator[FileInfo, None]) -> None:
    async with aclosing(items) as found:
        async for _ in found:
            pass
