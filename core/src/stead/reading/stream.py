"""`read_lines` over any environment's `read_file_stream`: what the contract's base does."""

from contextlib import aclosing
from typing import TYPE_CHECKING

from stead.errors import FileChanged
from stead.reading.index import IndexCache, LineIndex, Position
from stead.reading.scanner import LineScanner
from stead.results import FileInfo, LineRange, LineWindow

if TYPE_CHECKING:
    from stead.environment import Environment, PathLike

__all__ = ["read_lines_of_stream"]

_TRIES = 2


async def read_lines_of_stream(env: "Environment", path: "PathLike", window: LineRange) -> LineWindow:
    """Reads a window of lines by streaming, in bounded memory.

    Where the environment has versions (`stat`), the line index of a version is kept with the environment; where it also
    reads ranges, later pages fetch only their part.

    Args:
        env: Any environment.
        path: The file.
        window: Which lines.

    Returns:
        The window, of one version of the file as far as the environment can tell versions apart.

    Raises:
        ValueError: `start_column` is past the end of its line.
        FileChanged: The file changed during each of two tries.
        SteadError: As `read_file`.
    """
    for attempt in range(1, _TRIES + 1):
        before = await env.stat(path) if env.capabilities.stat else None
        page = await _read_version(env, path, window, before)
        if before is None or before.version is None or (await env.stat(path)).version == before.version:
            return page
        if attempt == _TRIES:
            break
    raise FileChanged(
        f"{str(path)!r} changed while it was read; read it again when it is no longer written to",
        operation="read_lines",
        path=str(path),
    )


async def _read_version(env: "Environment", path: "PathLike", window: LineRange, info: FileInfo | None) -> LineWindow:
    version = None if info is None else info.version
    cache = _cache_of(env)
    known = None if info is None or version is None else cache.get(info.path)
    if known is not None and known[1] == version and env.capabilities.range_read:
        index = known[0]
        return await _scan(env, path, window, start=index.find(window.start, window.start_column), known=index)
    index = LineIndex()
    page = await _scan(env, path, window, start=index.find(1), growing=index)
    if info is not None and version is not None and page.total_lines is not None:
        cache.put(info.path, index, version)
    return page


async def _scan(
    env: "Environment",
    path: "PathLike",
    window: LineRange,
    *,
    start: Position,
    known: LineIndex | None = None,
    growing: LineIndex | None = None,
) -> LineWindow:
    scanner = LineScanner(window, growing, start=start)
    total = None if known is None else known.total_lines
    async with aclosing(env.read_file_stream(path, offset=start.byte)) as chunks:
        async for chunk in chunks:
            scanner.feed(chunk)
            if scanner.page_done and (total is not None or not window.count_total):
                return scanner.finish(total)
    return scanner.finish(scanner.total_lines() if total is None else total)


def _cache_of(env: "Environment") -> IndexCache[str]:
    # On the instance, like the lifecycle: a subclass need not call super().__init__().
    cache: IndexCache[str] = env.__dict__.setdefault("_stead_line_indexes", IndexCache())
    return cache
