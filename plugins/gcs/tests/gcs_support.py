"""Shared by the tests of the GCS backend."""

import asyncio
import json
from collections.abc import Awaitable, Callable
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

    def names(self, folder: str) -> list[str]:
        start = f"{self._prefix}/{folder}/"
        found = json.loads(self._server.request("GET", f"{self._objects}?prefix={quote(start, safe='')}"))
        return sorted({item["name"].removeprefix(start).partition("/")[0] for item in found.get("items", ())})
