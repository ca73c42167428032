"""Shared by the tests of the S3 backend."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import pytest
from servers.fault_proxy import answer

from stead_s3 import S3Environment

T = TypeVar("T")

BOTH = pytest.mark.parametrize("server", ["seaweed", "moto_server"], ids=["seaweedfs", "moto"], indirect=True)
"""Marks tests of what the servers do each in its own way."""


def run(options: dict[str, Any], use: Callable[[S3Environment], Awaitable[T]]) -> T:
    """Runs one coroutine on a fresh environment, closed afterwards."""

    async def main() -> T:
        async with S3Environment(**options) as env:
            return await use(env)

    return asyncio.run(main())


def refusal(status: int, code: str, message: str = "", **headers: str) -> bytes:
    """An error as S3 answers it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return answer(status, body.encode(), Content_Type="application/xml", **headers)


def is_media(request: Any) -> bool:
    """Says whether a request asks for the bytes of an object."""
    return request.method == "GET" and "list-type" not in request.target and "uploadId" not in request.target


async def collect(stream: AsyncGenerator[bytes, None]) -> bytes:
    """Joins a stream and closes it."""
    async with aclosing(stream) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def source(mebibytes: int, byte: bytes = b"x") -> AsyncIterator[bytes]:
    """Yields so much, one MiB at a time."""
    for _ in range(mebibytes):
        yield byte * (1 << 20)


class BucketDoor:
    """The back door of the laws: another library's client."""

    def __init__(self, server: Any, prefix: str) -> None:
        self._client = server.client()
        self._bucket = server.bucket
        self._prefix = prefix

    def read(self, path: str) -> bytes:
        body = self._client.get_object(Bucket=self._bucket, Key=f"{self._prefix}/{path}")["Body"]
        with body:
            return body.read()

    def write(self, path: str, data: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=f"{self._prefix}/{path}", Body=data)

    def names(self, folder: str) -> list[str]:
        start = f"{self._prefix}/{folder}/"
        found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=start).get("Contents", ())
        return sorted({item["Key"].removeprefix(start).partition("/")[0] for item in found})

    def unfinished(self, folder: str) -> list[str]:
        start = f"{self._prefix}/{folder}/"
        found = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=start).get("Uploads", ())
        return [item["Key"] for item in found]

    def close(self) -> None:
        self._client.close()
