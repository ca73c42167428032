"""Objects of a GCS bucket, by requests of the JSON interface. Paths of gcsfs are not used: they parse names."""

import base64
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import google_crc32c
from aiohttp import ClientResponse

from stead.errors import AccessDenied, FileChanged, FileExists, FileMissing, SteadError, Unavailable
from stead_fsspec.retry import retrying
from stead_fsspec.store import Body, Checksum, Condition, Found, ObjectStore, Page, Upload
from stead_gcs.client import Access, Answer, Client, Request
from stead_gcs.errors import BucketMissing, ConditionFailed, Refusal, check, translated
from stead_gcs.upload import GcsUpload

__all__ = ["MARK", "GcsStore", "found_of"]

_READ = 1 << 20
MARK = "stead-write"
"""The name of the metadata that tells one write from another."""
_DIGITS = 19
"""Of the largest generation: they are 64-bit numbers with a sign."""
_FIELDS = "name,size,generation,updated,metadata"


class GcsStore(ObjectStore):
    """The objects of one bucket."""

    backend = "gcs"
    ordered_parts = True

    def __init__(self, access: Access) -> None:
        """Takes where the bucket is and who asks; asks for nothing yet."""
        self._access = access
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The client, once it is open.

        Raises:
            Unavailable: It is not.
        """
        if self._client is None:
            raise Unavailable("the connections are closed", retryable=False)
        return self._client

    # ---- life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        with translated("opening", self._access.bucket):
            self._client = await Client.open(self._access)
        try:
            await self._look()
        except FileMissing as error:
            raise BucketMissing(
                f"the bucket {self._access.bucket!r} does not exist; make it, or name another"
            ) from error.__cause__
        except AccessDenied as error:
            # Credentials that may not list are good for reading or writing; wrong ones are 401.
            if not isinstance(error.__cause__, Refusal) or error.__cause__.status != 403:
                raise

    async def _look(self) -> None:
        try:
            await self._list({"maxResults": "1"})
        except SteadError as error:
            if "requester pays" not in error.message or self._access.project is None:
                raise
            self.client.billed = True
            await self._list({"maxResults": "1"})

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, start: int, stop: int | None, version: Found | None) -> Body | None:
        # `gzip` asks for the bytes as they are stored: without it the service unpacks what is stored as gzip.
        headers = {"Accept-Encoding": "gzip"}
        if start or stop is not None:
            headers["Range"] = f"bytes={start}-" if stop is None else f"bytes={start}-{stop - 1}"
        query = {"alt": "media"}
        if version is not None and version.version is not None:
            query["generation"] = version.version
        with translated("reading", self._access.bucket, key):
            url = self.client.object_url(key, media=True)
            answer = await self.client.send(Request("GET", url, query, headers))
            body = _GcsBody(self._access.bucket, key, answer)
            try:
                if answer.status == 416:
                    await body.close()
                    return None
                if answer.status >= 300:
                    check(answer.status, await answer.read(), answer.headers, bucket=self._access.bucket)
                body.begin()
            except BaseException:
                await body.close()
                raise
        return body

    async def head(self, key: str) -> Found | None:
        try:
            request = Request("GET", self.client.object_url(key), {"fields": _FIELDS})
            answer = await self.ask(request, "looking at", key)
        except FileMissing:
            return None
        return found_of(answer.data)

    async def pages(self, prefix: str, *, folders: bool, limit: int | None = None) -> AsyncGenerator[Page, None]:
        query = {"prefix": prefix, "fields": f"items({_FIELDS}),prefixes,nextPageToken"}
        query |= {"delimiter": "/"} if folders else {}
        query |= {} if limit is None else {"maxResults": str(limit)}
        while True:
            answer = await self._list(query)
            yield Page(tuple(found_of(item) for item in answer.get("items", ())), tuple(answer.get("prefixes", ())))
            if limit is not None or not answer.get("nextPageToken"):
                return
            query["pageToken"] = answer["nextPageToken"]

    async def _list(self, query: Mapping[str, str]) -> dict[str, Any]:
        answer = await self.ask(Request("GET", self.client.bucket_url(), query), "listing", query.get("prefix", ""))
        return answer.data

    # ---- writing ---------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: bytes, condition: Condition, notes: Mapping[str, str]) -> Found:
        mark = secrets.token_hex(8)
        about = {
            "name": key,
            "crc32c": base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode(),
            "metadata": {**notes, MARK: mark} if condition else dict(notes),
        }
        # Content that holds the boundary would be cut there: it is new each time, and nobody can know it before.
        boundary = secrets.token_hex(16)
        parts = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n".encode(),
            f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n".encode(),
            data,
            f"\r\n--{boundary}--\r\n".encode(),
        )
        request = Request(
            "POST",
            self.client.bucket_url(upload=True),
            {"uploadType": "multipart", **conditions(key, condition)},
            {"Content-Type": f"multipart/related; boundary={boundary}"},
            parts,
        )
        return await self.decided(key, condition, mark, self.ask(request, "writing", key))

    async def begin(self, key: str, condition: Condition, notes: Mapping[str, str]) -> Upload:
        mark = secrets.token_hex(8)
        request = Request(
            "POST",
            self.client.bucket_url(upload=True),
            {"uploadType": "resumable", **conditions(key, condition)},
            {"Content-Type": "application/json; charset=UTF-8"},
            (json.dumps({"name": key, "metadata": {**notes, MARK: mark}}).encode(),),
        )
        answer = await self.ask(request, "writing", key)
        return GcsUpload(self, key, condition, mark=mark, session=answer.headers["Location"])

    async def delete(self, key: str) -> None:
        # Asked first: when the answer to a delete is lost, it is repeated (by the HTTP library too), and finds nothing.
        if await self.head(key) is None:
            raise FileMissing(f"deleting {key!r}: not found")
        with suppress(FileMissing):
            await self.ask(Request("DELETE", self.client.object_url(key)), "deleting", key)

    # ---- for this package ------------------------------------------------------------------------------------------

    async def ask(self, request: Request, doing: str, key: str) -> Answer:
        """Makes one request that is safe to repeat, as often as need be.

        Args:
            request: The request.
            doing: For messages.
            key: For messages.

        Raises:
            SteadError: It failed.
        """
        return await retrying(lambda: self.client.ask(request, doing, key))

    async def decided(self, key: str, condition: Condition, mark: str, writing: Awaitable[Answer]) -> Found:
        """Waits for what makes an object appear, and says what its failure means.

        If an answer was lost, the request was repeated, and failed because the first one had succeeded: the mark then
        tells that what is there is what was written.

        Raises:
            FileExists: The condition did not hold.
            FileChanged: The condition did not hold.
            SteadError: It was not written.
        """
        try:
            return found_of((await writing).data)
        except (ConditionFailed, FileMissing) as error:
            found = await self.head(key)
            if found is not None and found.notes.get(MARK) == mark:
                return found
            raise _lost(key, condition, error) from error.__cause__


def conditions(key: str, condition: Condition) -> dict[str, str]:
    """The parameters of a request that say under which condition it may replace what is there.

    Raises:
        FileChanged: No object can have that version.
    """
    if condition.absent:
        return {"ifGenerationMatch": "0"}
    if condition.version is None:
        return {}
    # 0 would mean "if there is none".
    version = condition.version
    if not (version.isascii() and version.isdecimal() and len(version) <= _DIGITS and 0 < int(version) < 1 << 63):
        raise FileChanged(f"{key!r} is not version {condition.version!r}: a version here is a generation, a number")
    return {"ifGenerationMatch": condition.version}


def found_of(item: Mapping[str, Any]) -> Found:
    """Reads the description of an object."""
    updated = item.get("updated")
    notes = item.get("metadata") or {}
    return Found(
        key=item["name"],
        size=int(item.get("size", 0)),
        version=str(item["generation"]),
        modified=None if updated is None else datetime.fromisoformat(updated),
        notes={name: text for name, text in notes.items() if name.startswith("stead-")},
    )


def _lost(key: str, condition: Condition, error: SteadError) -> SteadError:
    if condition.absent and isinstance(error, ConditionFailed):
        return FileExists(f"{key!r} exists already")
    if isinstance(error, ConditionFailed):
        return FileChanged(f"{key!r} is not version {condition.version!r} any more")
    return SteadError(f"the upload of {key!r} was ended before it was finished: {error.message}")


class _GcsBody(Body):
    def __init__(self, bucket: str, key: str, answer: ClientResponse) -> None:
        self._bucket = bucket
        self._key = key
        self._answer = answer

    def begin(self) -> None:
        """Reads the head of a success."""
        headers = self._answer.headers
        size = int(headers.get("X-Goog-Stored-Content-Length") or headers.get("Content-Length") or 0)
        if self._answer.status == 206:
            # `bytes 5-9/100`: where the part begins, and how much there is in all.
            part, _, total = headers["Content-Range"].removeprefix("bytes ").partition("/")
            self.start, size = int(part.partition("-")[0]), int(total)
        self.found = Found(key=self._key, size=size, version=headers.get("X-Goog-Generation"))
        stored = next(
            (h[7:] for line in headers.getall("X-Goog-Hash", []) for h in line.split(",") if h.startswith("crc32c=")),
            None,
        )
        if stored is not None:
            self.checksum = Checksum(int.from_bytes(base64.b64decode(stored), "big"), google_crc32c.extend)

    async def read(self) -> bytes:
        with translated("reading", self._bucket, self._key):
            return await self._answer.content.read(_READ)

    async def close(self) -> None:
        # Not `release`, which would read the rest to use the connection again.
        self._answer.close()
