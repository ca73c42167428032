"""Shared by the tests of the GCS backend."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar
from urllib.parse import quote

from servers.fault_proxy import answer

from stead_gcs import GcsEnvironment

T = TypeVar("T")


def run(options: dict[str, Any], use: Callable[[GcsEnvironment], Awaitable[T]]) -> T:
    """Runs one coroutine on a fresh environment, closed afterwards."""

    async def main() -> T:
        async with GcsEnvironment(**options) as env:
            return await use(env)

    return asyncio.run(main())


def refusal(status: int, message: str, reason: str = "", **headers: str) -> bytes:
    """An error as GCS answers it."""
    error = {"code": status, "message": message, "errors": [{"message": message, "reason": reason}]}
    return answer(status, json.dumps({"error": error}).encode(), Content_Type="application/json", **headers)


def is_media(request: Any) -> bool:
    """Says whether a request asks for the bytes of an object."""
    return "alt=media" in request.target


async def collect(stream: AsyncGenerator[bytes, None]) -> bytes:
    """Joins a stream and closes it."""
    async with aclosing(stream) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def source(mebibytes: int, byte: bytes = b"x") -> AsyncIterator[bytes]:
    """Yields so much, one MiB at a time."""
    for _ in range(mebibytes):
        yield byte * (1 << 20)


class BucketDoor:
    """The back door of the laws: plain requests."""

    def __init__(self, server: Any, prefix: str) -> None:
        self._server = server
        self._prefix = prefix
        self._objects = f"/storage/v1/b/{server.bucket}/o"

    def read(self, path: str) -> bytes:
        return self._server.request("GET", f"{self._objects}/{quote(f'{self._prefix}/{path}', safe='')}?alt=media")

    def write(self, path: str, data: bytes) -> None:
        name = quote(f"{self._prefix}/{path}", safe="")
        self._server.request("POST", f"/upload{self._objects}?uploadType=media&name={name}", data)

    def write_gzip(self, path: str, data: bytes) -> bytes:
        """Stores content packed, as `Content-Encoding: gzip` has it; returns what is stored."""
        about = {"name": f"{self._prefix}/{path}", "contentEncoding": "gzip", "contentType": "text/plain"}
        packed = gzip.compress(data)
        body = f"--b\r\nContent-Type: application/json\r\n\r\n{json.dumps(about)}\r\n--b\r\n".encode()
        body += b"Content-Type: text/plain\r\n\r\n" + packed + b"\r\n--b--\r\n"
        kind = "multipart/related; boundary=b"
        self._server.request("POST", f"/upload{self._objects}?uploadType=multipart", body, Content_Type=kind)
        return packed

    def names(self, folder: str) -> list[str]:
        start = f"{self._prefix}/{folder}/"
        found = json.loads(self._server.request("GET", f"{self._objects}?prefix={quote(start, safe='')}"))
        return sorted({item["name"].removeprefix(start).partition("/")[0] for item in found.get("items", ())})
