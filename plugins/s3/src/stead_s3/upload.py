"""Writing an object of a bucket in parts."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stead.errors import FileMissing, SteadError
from stead_fsspec.store import Condition, Found, Upload

if TYPE_CHECKING:
    from stead_s3.files import S3Store

__all__ = ["S3Upload"]

_ABORTS = 3


class S3Upload(Upload):
    """One multipart upload."""

    def __init__(self, store: "S3Store", key: str, condition: Condition, mark: str, upload_id: str) -> None:
        """Takes an upload that the store has begun."""
        self._store = store
        self._key = key
        self._condition = condition
        self._mark = mark
        self._upload = {"Key": key, "UploadId": upload_id}
        self._parts: dict[int, dict[str, Any]] = {}
        self._size = 0

    async def part(self, number: int, data: bytes) -> None:
        answer = await self._store.call(
            "upload_part", "writing", self._key, PartNumber=number, Body=data, **self._upload
        )
        # The store wants each part's checksum again at the end, in the same words.
        named = {name: value for name, value in answer.items() if name == "ETag" or name.startswith("Checksum")}
        self._parts[number] = {"PartNumber": number, **named}
        self._size += len(data)

    async def finish(self) -> Found:
        from stead_s3.files import conditions

        parts = [self._parts[number] for number in sorted(self._parts)]
        writing = self._store.call(
            "complete_multipart_upload",
            "writing",
            self._key,
            MultipartUpload={"Parts": parts},
            **self._upload,
            **conditions(self._condition),
        )
        return await self._store.decided(self._key, self._condition, self._mark, writing, size=self._size)

    async def abort(self) -> None:
        # A part that was under way may arrive after the abort and stay: AWS says to look, and to abort again.
        for _ in range(_ABORTS):
            with suppress(FileMissing):
                await self._store.call("abort_multipart_upload", "aborting", self._key, **self._upload)
            try:
                await self._store.call("list_parts", "aborting", self._key, **self._upload)
            except SteadError:
                return
