"""A proxy that breaks what passes through: cuts bodies, stalls, answers instead of the server, loses an answer.

It forwards requests as they are, so that signatures stay good, and counts them.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urlsplit

__all__ = ["Fault", "FaultProxy", "Request", "answer"]

_PIECE = 1 << 16


@dataclass(slots=True)
class Request:
    """One request that came in."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case."""
    status: int = 0
    """What was answered; 0 as long as nothing was, or if the answer was lost."""


@dataclass(slots=True)
class Fault:
    """What happens to requests that match."""

    action: Literal["reset", "end", "stall", "corrupt", "answer", "lose"]
    """`reset`: the connection breaks (RST). `end`: it ends (FIN). `stall`: nothing more comes. All three after `after`
    bytes of the answer's body. `corrupt`: the byte after them is another. `answer`: `response` comes from the proxy and
    the server sees nothing. `lose`: the server does its work and the answer is lost."""
    after: int = 0
    response: bytes = b""
    matches: Callable[[Request], bool] = lambda request: True
    times: int = 1 << 30
    """How many requests it hits."""
    hits: int = 0


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Builds a response for `Fault.response`."""
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Canned\r\nContent-Length: {len(body)}\r\n{named}\r\n"
    return head.encode() + body


@dataclass
class FaultProxy:
    """Forwards to one server. `url` is where it listens; requests and faults may be looked at and set at any time."""

    server: str
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    url: str = ""
    connections: int = 0
    """Connections of clients that are open now."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.server)
        self._host, self._port = parts.hostname, parts.port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        # The loop holds tasks weakly: one whose client went away while the server works would be collected.
        self._serving: set[object] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @contextmanager
    def fault(self, action: str, **settings: object) -> Iterator[Fault]:
        """Adds a fault while the block runs."""
        made = Fault(action, **settings)  # type: ignore[arg-type]
        self.faults.append(made)
        try:
            yield made
        finally:
            self.faults.remove(made)

    @contextmanager
    def counted(self) -> Iterator[list[Request]]:
        """Yields a list that holds the requests of the block once it is left, and those until then."""
        self.requests.clear()
        yield self.requests

    def _run(self) -> None:
        # Within run_forever: a stop that came between it and another run of the loop would be lost.
        self._loop.create_task(self._listen())
        try:
            self._loop.run_forever()
        finally:
            self._server.close()
            self._loop.run_until_complete(_end_all())
            self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_PIECE)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._ready.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving.add(task := asyncio.current_task())
        ends = [writer]
        try:
            await self._forward_all(reader, writer, ends)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # an end of either side ends this connection and nothing else
        except asyncio.CancelledError:  # the proxy ends: what was not sent yet never will be
            for end in ends:
                end.transport.abort()
        finally:
            self.connections -= 1
            self._serving.discard(task)
            for end in ends:
                end.close()

    async def _forward_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: list[asyncio.StreamWriter]
    ) -> None:
        """Forwards the requests of one connection; what it opens itself is added to `ends`."""
        up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while head := await _head(reader):
            request = _parsed(head)
            self.requests.append(request)
            fault = self._fault_of(request)
            if "expect" in request.headers:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if fault is not None and fault.action == "answer":
                async for _ in _body(reader, request.headers):
                    pass
                request.status = int(fault.response.split(b" ", 2)[1])
                writer.write(fault.response)
                await writer.drain()
                continue
            if up is None:
                up = await asyncio.open_connection(self._host, self._port, limit=_PIECE)
                ends.append(up[1])
            up[1].write(b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:")))
            async for piece in _body(reader, request.headers):
                up[1].write(piece)
                await up[1].drain()
            if not await self._relay(request, up[0], writer, fault):
                return

    async def _relay(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault | None
    ) -> bool:
        """Passes an answer on. Returns False if the connection must not be used again."""
        head = await _head(reader)
        while head.startswith(b"HTTP/1.1 100"):
            head = await _head(reader)
        answered = _parsed(head)
        if fault is not None and fault.action == "lose":
            async for _ in _body(reader, answered.headers, request=request, status=head):
                pass
            _reset(writer)
            return False
        request.status = int(head.split(b" ", 2)[1])
        writer.write(head)
        passed = 0
        async for piece in _body(reader, answered.headers, request=request, status=head):
            if fault is not None and passed <= fault.after < passed + len(piece):
                cut = fault.after - passed
                if fault.action != "corrupt":
                    writer.write(piece[:cut])
                    return await _broken(writer, fault)
                piece = piece[:cut] + bytes([piece[cut] ^ 0xFF]) + piece[cut + 1 :]
            passed += len(piece)
            writer.write(piece)
            await writer.drain()
        await writer.drain()
        return True

    def _fault_of(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.hits < fault.times and fault.matches(request):
                fault.hits += 1
                return fault
        return None


async def _end_all() -> None:
    # A connection that was accepted a moment ago has its task only now, and a closed transport ends one turn later.
    for _ in range(3):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


async def _broken(writer: asyncio.StreamWriter, fault: Fault) -> bool:
    if fault.action == "stall":
        with suppress(ConnectionError):
            await writer.drain()
        await asyncio.sleep(3600)
    if fault.action == "reset":
        with suppress(ConnectionError):
            await writer.drain()
        _reset(writer)
    return False


def _reset(writer: asyncio.StreamWriter) -> None:
    # Closing with a linger of zero sends RST instead of FIN.
    found = writer.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return b""


def _parsed(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, *_ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return Request(method, target, {name.lower(): value.strip() for name, _, value in pairs})


async def _body(
    reader: asyncio.StreamReader, headers: dict[str, str], *, request: Request | None = None, status: bytes = b""
) -> AsyncIterator[bytes]:
    """Yields the body of a request, or of an answer to `request`, as it came."""
    if request is not None and (request.method == "HEAD" or status.split(b" ", 2)[1] in (b"204", b"304")):
        return
    if headers.get("transfer-encoding", "").lower() == "chunked":
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            yield line + (await reader.readexactly(size + 2) if size else b"")
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            yield line
        yield line
        return
    left = int(headers.get("content-length", "0"))
    while left:
        piece = await reader.read(min(left, _PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece
