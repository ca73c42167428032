"""Use a class that was written for an older contract, or for another framework, as an environment."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Protocol

from stead.capabilities import Capabilities
from stead.environment import Content, Environment, PathLike, check_range
from stead.errors import Unsupported
from stead.paths import resolve_path
from stead.results import ExecutionResult, FileInfo

__all__ = ["FourMethods", "adapt"]


class FourMethods(Protocol):
    """The least that `adapt` needs. `execute` and `read_file_stream` are used where they exist."""

    @property
    def working_dir(self) -> Any:
        """A path; a `str` will do."""

    async def read_file(self, path: Any) -> bytes:
        """The whole file."""

    async def write_file(self, path: Any, content: Any) -> Any:
        """Replaces the file."""


def adapt(obj: FourMethods, *, capabilities: Capabilities | None = None) -> Environment:
    """Wraps an object with the four methods of the older contract; an `Environment` is returned as it is.

    What is missing is filled in: byte ranges by skipping, `FileInfo` from what was written, streamed writes by
    collecting. Capabilities are derived from what the object has.

    Args:
        obj: Has `working_dir`, `read_file`, `write_file`, and perhaps `execute`, `read_file_stream`, `initialize` or
            `start`, and `close`.
        capabilities: What the object can do beyond what is derived, such as `atomic_write`.

    Raises:
        TypeError: A required member is missing.
    """
    if isinstance(obj, Environment):
        return obj
    missing = [name for name in ("working_dir", "read_file", "write_file") if not hasattr(obj, name)]
    if missing:
        raise TypeError(f"{type(obj).__name__} cannot be adapted: it has no {', '.join(missing)}")
    return _Adapted(obj, capabilities or Capabilities())


class _Adapted(Environment):
    def __init__(self, obj: FourMethods, declared: Capabilities) -> None:
        self._obj = obj
        self._execute: Callable[..., Any] | None = getattr(obj, "execute", None)
        self._stream: Callable[..., Any] | None = getattr(obj, "read_file_stream", None)
        self._ranged = self._stream is not None and _accepts(self._stream, "offset", "length")
        self.capabilities = replace(
            declared,
            execute=self._execute is not None,
            streaming_read=declared.streaming_read or self._stream is not None,
        )

    def __repr__(self) -> str:
        return f"adapt({type(self._obj).__name__})"

    @property
    def working_dir(self) -> PurePosixPath:
        return PurePosixPath(str(self._obj.working_dir))

    async def _start(self) -> None:
        begin = getattr(self._obj, "initialize", None) or getattr(self._obj, "start", None)
        if begin is not None:
            await begin()

    async def _close(self) -> None:
        end = getattr(self._obj, "close", None)
        if end is not None:
            await end()

    async def read_file(self, path: PathLike) -> bytes:
        await self._ready()
        return bytes(await self._obj.read_file(self._path(path)))

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        check_range(offset, length)
        await self._ready()
        if self._stream is None:
            async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        ranged = {"offset": offset, "length": length} if self._ranged else {}
        skip, left = (0, None) if self._ranged else (offset, length)
        async with aclosing(self._stream(self._path(path), **ranged)) as chunks:
            async for chunk in chunks:
                part, skip = chunk[skip:], max(0, skip - len(chunk))
                if left is not None:
                    part, left = part[:left], left - min(left, len(part))
                if part:
                    yield bytes(part)
                if left == 0:
                    return

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent and if_version is not None:
            raise ValueError("if_absent and if_version cannot both hold; give one")
        if if_absent or if_version is not None:
            raise Unsupported(f"{self!r} cannot write conditionally", operation="write_file")
        data = await collect_content(content)
        await self._ready()
        await self._obj.write_file(self._path(path), data)
        return FileInfo(path=str(self._path(path)), kind="file", size=len(data))

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecutionResult:
        if self._execute is None:
            raise self._unsupported("execute")
        given = {"cwd": cwd, "env": env, "stdin": stdin, "output_limit": output_limit}
        options = {name: value for name, value in given.items() if value is not None}
        for name in options:
            if not _accepts(self._execute, name):
                raise Unsupported(f"{self!r} has no option {name} for execute", operation="execute")
        await self._ready()
        result = await self._execute(command, timeout=timeout, **options)
        if isinstance(result, ExecutionResult):
            return result
        stdout, stderr = result.stdout or "", result.stderr or ""
        return ExecutionResult(
            exit_code=result.exit_code,
            stdout=stdout,
            stderr=stderr,
            timed_out=bool(getattr(result, "timed_out", False)),
            stdout_bytes=len(stdout.encode(errors="replace")),
            stderr_bytes=len(stderr.encode(errors="replace")),
        )

    def _path(self, path: PathLike) -> str:
        return str(resolve_path(path, working_dir=self.working_dir, root=self.working_dir))


async def collect_content(content: Content) -> bytes:
    """Joins what `write_file` takes into bytes, for backends that cannot stream a write.

    Raises:
        UnicodeEncodeError: A lone surrogate.
        TypeError: `content` or an item of it is of another type.
    """
    if isinstance(content, AsyncIterable):
        async with closing_pieces(content) as pieces:
            return b"".join([content_bytes(piece, text=False) async for piece in pieces])
    return content_bytes(content)


def content_bytes(content: object, *, text: bool = True) -> bytes:
    """Copies one piece of content into bytes: `str` as UTF-8 if `text`, bytes-like as it is.

    Raises:
        UnicodeEncodeError: A lone surrogate.
        TypeError: Another type.
    """
    if isinstance(content, str) and text:
        return content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    allowed = "str, bytes, bytearray, memoryview or an async iterable of bytes" if text else "bytes-like pieces"
    raise TypeError(f"content must be {allowed}, not {type(content).__name__}")


def closing_pieces(content: AsyncIterable[bytes]) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Iterates over what a caller hands to `write_file`, and closes the iterator on every way out.

    A producer that holds a file or a response then releases it also when the write fails. An iterator without `aclose`
    holds nothing that could be released.
    """
    pieces: Any = aiter(content)
    return aclosing(pieces) if hasattr(pieces, "aclose") else nullcontext(pieces)


def time_of(seconds: float) -> datetime | None:
    """The time of a file in UTC, or None for one that no `datetime` can hold: file systems know years beyond 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _accepts(function: Callable[..., Any], *names: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return all(n in parameters for n in names) or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
