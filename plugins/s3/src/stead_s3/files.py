"""Objects of an S3 bucket, by requests of the SDK's client. Paths of its filesystem layer are not used: they parse keys."""

import asyncio
import secrets
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from stead.errors import FileChanged, FileExists, FileMissing, SteadError, Unsupported
from stead_fsspec.retry import retrying
from stead_fsspec.store import Body, Checksum, Condition, Found, ObjectStore, Page, Upload
from stead_s3.client import Access, close_client, make_client
from stead_s3.errors import ConditionFailed, UploadGone, code_of, translated
from stead_s3.probe import Probe
from stead_s3.sums import crc32
from stead_s3.upload import S3Upload

__all__ = ["MARK", "S3Store", "conditions"]

_READ = 1 << 20
MARK = "stead-write"
"""The name of the metadata that tells one write from another."""
_POOL_SECONDS = 10.0


class S3Store(ObjectStore):
    """The objects of one bucket."""

    backend = "s3"

    def __init__(self, access: Access, state_key: str) -> None:
        """Takes where the bucket is and who asks; asks for nothing yet.

        Args:
            access: The bucket, and how it is asked.
            state_key: The key of the directory for files of stead's own.
        """
        self._access = access
        self._client: Any = None
        self._sums_whole = access.checksums
        self._probe = Probe(self, known=access.endpoint_url is None, folder=state_key)

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self._access.bucket

    # ---- life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        with translated("opening", self.bucket):
            self._client = await make_client(self._access)
        await retrying(self._ask)

    async def _ask(self) -> None:
        with translated("opening", self.bucket):
            try:
                await self._client.list_objects_v2(Bucket=self.bucket, MaxKeys=1)
            except ClientError as error:
                # Credentials that may not list are good for reading or writing; a wrong signature has another code.
                if code_of(error) != "AccessDenied" or not error.response.get("Error", {}).get("Code"):
                    raise

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await close_client(client)

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, start: int, stop: int | None, version: Found | None) -> Body | None:
        wanted: dict[str, str] = {}
        if start or stop is not None:
            wanted["Range"] = f"bytes={start}-" if stop is None else f"bytes={start}-{stop - 1}"
        if version is not None and version.pin is not None:
            wanted["VersionId"] = version.pin
        elif version is not None and version.version is not None:
            wanted["IfMatch"] = f'"{version.version}"'
        with translated("reading", self.bucket, key):
            try:
                # The client has no limit on waiting for one of its connections.
                async with asyncio.timeout(self._access.timeout + _POOL_SECONDS):
                    answer = await self._client.get_object(Bucket=self.bucket, Key=key, **wanted)
            except ClientError as error:
                if code_of(error) == "InvalidRange":
                    return None
                raise
        return _S3Body(self.bucket, key, answer)

    async def head(self, key: str) -> Found | None:
        try:
            answer = await self.call("head_object", {"Key": key}, "looking at")
        except FileMissing:
            return None
        return _found(key, answer, answer["ContentLength"])

    async def pages(self, prefix: str, *, folders: bool, limit: int | None = None) -> AsyncGenerator[Page, None]:
        options: dict[str, Any] = {"Prefix": prefix}
        options |= {"Delimiter": "/"} if folders else {}
        options |= {} if limit is None else {"MaxKeys": limit}
        while True:
            answer = await self.call("list_objects_v2", options, "listing")
            yield Page(
                tuple(_listed(item) for item in answer.get("Contents", ())),
                tuple(item["Prefix"] for item in answer.get("CommonPrefixes", ())),
            )
            if limit is not None or not answer.get("IsTruncated"):
                return
            options["ContinuationToken"] = answer["NextContinuationToken"]

    # ---- writing ---------------------------------------------------------------------------------------------------

    async def put(self, key: str, data: bytes, condition: Condition, notes: Mapping[str, str]) -> Found:
        await self._probe.check(condition, "put")
        mark = secrets.token_hex(8)
        marked = {**notes, MARK: mark} if condition else dict(notes)
        request = {"Key": key, "Body": data, "Metadata": marked, **conditions(key, condition)}
        writing = self.call("put_object", request, "writing")
        return await self.decided(key, condition, mark, writing, size=len(data))

    async def begin(self, key: str, condition: Condition, notes: Mapping[str, str]) -> Upload:
        conditions(key, condition)  # before anything is sent
        await self._probe.check(condition, "parts")
        mark = secrets.token_hex(8)
        begun = {"Key": key, "Metadata": {**notes, MARK: mark}}
        answer = None
        if self._sums_whole:
            summed = {**begun, "ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}
            try:
                answer = await self.call("create_multipart_upload", summed, "writing")
            except Unsupported:
                self._sums_whole = False
        if answer is None:
            answer = await self.call("create_multipart_upload", begun, "writing")
        upload_id = answer["UploadId"]
        return S3Upload(self, key, condition, mark=mark, upload_id=upload_id, summed=self._sums_whole)

    async def delete(self, key: str) -> None:
        # S3 does not say whether there was anything to delete.
        if await self.head(key) is None:
            raise FileMissing(f"deleting {key!r}: not found")
        await self.call("delete_object", {"Key": key}, "deleting")

    # ---- for this package ------------------------------------------------------------------------------------------

    async def call(self, method: str, request: Mapping[str, Any], doing: str) -> dict[str, Any]:
        """Makes one request that is safe to repeat, as often as need be.

        Args:
            method: Of the SDK's client.
            request: Its arguments, without the bucket.
            doing: For messages.

        Raises:
            SteadError: It failed.
        """
        key = request.get("Key") or request.get("Prefix", "")

        async def once() -> dict[str, Any]:
            with translated(doing, self.bucket, key):
                answer: dict[str, Any] = await getattr(self._client, method)(Bucket=self.bucket, **request)
                return answer

        return await retrying(once)

    async def decided(
        self, key: str, condition: Condition, mark: str, writing: Awaitable[dict[str, Any]], *, size: int
    ) -> Found:
        """Waits for what makes an object appear, and says what its failure means.

        If an answer was lost, the request was repeated, and failed because the first one had succeeded: the mark then
        tells that what is there is what was written.

        Raises:
            FileExists: The condition did not hold.
            FileChanged: The condition did not hold.
            SteadError: It was not written.
        """
        try:
            return _found(key, await writing, size)
        except (ConditionFailed, FileMissing) as error:
            found = await self.head(key)
            if found is not None and found.notes.get(MARK) == mark:
                return found
            raise _lost(key, condition, error) from error.__cause__


def conditions(key: str, condition: Condition) -> dict[str, str]:
    """The arguments of a request that say under which condition it may replace what is there.

    Raises:
        FileChanged: No object can have that version.
    """
    if condition.absent:
        return {"IfNoneMatch": "*"}
    if condition.version is None:
        return {}
    if not condition.version.isprintable():
        raise FileChanged(f"{key!r} is not version {condition.version!r}: no header could hold it")
    return {"IfMatch": f'"{condition.version}"'}


def _lost(key: str, condition: Condition, error: SteadError) -> SteadError:
    if isinstance(error, UploadGone):
        return SteadError(
            f"the parts of {key!r} were removed before it was written; does a rule of the bucket do that?"
        )
    if condition.absent:
        return FileExists(f"{key!r} exists already")
    if condition.version is not None:
        return FileChanged(f"{key!r} is not version {condition.version!r} any more")
    return error


def _found(key: str, answer: Mapping[str, Any], size: int) -> Found:
    version_id = answer.get("VersionId")
    return Found(
        key=key,
        size=size,
        version=answer["ETag"].strip('"') if answer.get("ETag") else None,
        modified=_utc(answer.get("LastModified")),
        pin=version_id if version_id not in (None, "null") else None,
        notes={name: text for name, text in answer.get("Metadata", {}).items() if name.startswith("stead-")},
    )


def _listed(item: Mapping[str, Any]) -> Found:
    etag = item.get("ETag")
    return Found(
        key=item["Key"],
        size=item["Size"],
        version=etag.strip('"') if etag else None,
        modified=_utc(item.get("LastModified")),
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


class _S3Body(Body):
    def __init__(self, bucket: str, key: str, answer: Mapping[str, Any]) -> None:
        self._bucket = bucket
        self._key = key
        self._stream = answer["Body"]
        # The SDK keeps 64 KiB before it stops the connection, and starts it again for each: that is a quarter of the cost.
        content = self._stream.raw_stream.content
        if hasattr(content, "_high_water"):
            content._low_water, content._high_water = _READ, 2 * _READ  # noqa: SLF001 - aiohttp's own option, out of reach here
        size = answer["ContentLength"]
        if answer.get("ContentRange"):
            # `bytes 5-9/100`: where the part begins, and how much there is in all.
            part, _, total = answer["ContentRange"].removeprefix("bytes ").partition("/")
            self.start, size = int(part.partition("-")[0]), int(total)
        self.found = _found(key, answer, size)
        stored = answer.get("ChecksumCRC32")
        # A dash and a number after it say that it sums up the sums of parts, not the bytes.
        if stored and "-" not in stored:
            self.checksum = Checksum(int.from_bytes(b64decode(stored), "big"), lambda sum_, data: crc32(data, sum_))

    async def read(self) -> bytes:
        with translated("reading", self._bucket, self._key):
            chunk: bytes = await self._stream.read(_READ)
            return chunk

    async def close(self) -> None:
        # Without this the connection would stay taken: the pool would run empty, and the next request wait for ever.
        self._stream.close()
