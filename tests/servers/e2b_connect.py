"""The Connect protocol with its JSON codec, as far as a sandbox daemon speaks it; written from its specification.

Unary: `application/json` both ways, an error is an HTTP status with `{"code", "message"}`. Streaming:
`application/connect+json`, envelopes of one flag byte and a length of four, and one last envelope with flag 2 that holds
`{}` or `{"error": {"code", "message"}}`.
"""

import json
import struct
from typing import Any, Self

from aiohttp import web
from sandbox_host import Host, Reply, answer

END = 2
STATUS = {
    "invalid_argument": 400, "unauthenticated": 401, "permission_denied": 403, "not_found": 404, "already_exists": 409,
    "resource_exhausted": 429, "unimplemented": 501, "internal": 500, "unavailable": 503, "deadline_exceeded": 504,
}  # fmt: skip


class ConnectError(Exception):
    """An error of a call, with its Connect code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def told(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def unary_error(request: web.Request, host: Host, error: ConnectError) -> web.StreamResponse:
    return answer(request, host, error.told(), status=STATUS[error.code])


async def unary_message(request: web.Request, host: Host, allowed: set[str]) -> dict[str, Any]:
    """Reads the message of a unary call; a field that it does not have is refused, so that a typing error is seen."""
    if request.content_type != "application/json":
        raise ConnectError("invalid_argument", f"content type {request.content_type} of a unary call")
    data = await request.read()
    host.received += len(data)
    return checked(data, allowed)


async def stream_message(request: web.Request, host: Host, allowed: set[str]) -> dict[str, Any]:
    """Reads the one message that opens a server stream."""
    if request.content_type != "application/connect+json":
        raise ConnectError("invalid_argument", f"content type {request.content_type} of a stream")
    data = await request.read()
    host.received += len(data)
    if len(data) < 5:
        raise ConnectError("invalid_argument", "no envelope")
    flags, length = struct.unpack(">BI", data[:5])
    if flags != 0 or length != len(data) - 5:
        raise ConnectError("invalid_argument", f"an envelope of {length} bytes with flags {flags} in {len(data)} bytes")
    return checked(data[5:], allowed)


def checked(data: bytes, allowed: set[str]) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except ValueError as error:
        raise ConnectError("invalid_argument", f"unmarshal message: {error}") from None
    if not isinstance(message, dict) or message.keys() - allowed:
        raise ConnectError("invalid_argument", f"unmarshal message: unknown field in {sorted(message)}")
    return message


class EventStream:
    """A server stream: envelopes, then the end."""

    def __init__(self, request: web.Request, host: Host) -> None:
        self.reply = Reply(request, host, headers={"Content-Type": "application/connect+json"})

    async def __aenter__(self) -> Self:
        await self.reply.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await self.reply.__aexit__(kind, *rest)

    async def send(self, message: dict[str, Any]) -> None:
        await self._envelope(0, message)

    async def end(self, error: ConnectError | None = None) -> None:
        await self._envelope(END, {} if error is None else {"error": error.told()})

    async def _envelope(self, flags: int, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        await self.reply.write(struct.pack(">BI", flags, len(data)) + data)
