"""Writing an object of a bucket in parts."""

from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stead.errors import FileMissing, SteadError
from stead_fsspec.store import Condition, Found, Upload
from stead_s3.sums import combined, crc32

if TYPE_CHECKING:
    from stead_s3.files import S3Store

__all__ = ["S3Upload"]

_ABORTS = 3


class S3Upload(Upload):
    """One multipart upload.

    The sum of the whole is handed over at its end, so that the store checks what it put together, and readers can check
    what they get.
    """

    def __init__(
        self, store: "S3Store", key: str, condition: Condition, *, mark: str, upload_id: str, summed: bool
    ) -> None:
        """Takes an upload that the store has begun.

        Args:
            store: The store.
            key: The object.
            condition: Under which it may replace what is there.
            mark: Tells that an object is this one.
            upload_id: The store's name for the upload.
            summed: Whether it was begun with a sum over the whole.
        """
        self._store = store
        self._key = key
        self._condition = condition
        self._mark = mark
        self._upload = {"Key": key, "UploadId": upload_id}
        self._summed = summed
        self._parts: dict[int, dict[str, Any]] = {}
        self._sums: dict[int, tuple[int, int]] = {}

    async def part(self, number: int, data: bytes) -> None:
        sum_ = crc32(data)
        with_sum = {"ChecksumCRC32": _encoded(sum_)} if self._summed else {}
        request = {**self._upload, "PartNumber": number, "Body": data, **with_sum}
        answer = await self._store.call("upload_part", request, "writing")
        # The store wants each part's checksum again at the end, in the same words.
        named = {name: value for name, value in answer.items() if name == "ETag" or name.startswith("Checksum")}
        self._parts[number] = {"PartNumber": number, **named}
        self._sums[number] = (sum_, len(data))

    async def finish(self, rest: bytes) -> Found:
        from stead_s3.files import conditions

        if rest:
            await self.part(len(self._parts) + 1, rest)
        whole, size = 0, 0
        for _, (sum_, length) in sorted(self._sums.items()):
            whole, size = combined(whole, sum_, length), size + length
        with_sum = {"ChecksumCRC32": _encoded(whole), "ChecksumType": "FULL_OBJECT"} if self._summed else {}
        parts = [self._parts[number] for number in sorted(self._parts)]
        request = {
            **self._upload,
            "MultipartUpload": {"Parts": parts},
            **with_sum,
            **conditions(self._key, self._condition),
        }
        writing = self._store.call("complete_multipart_upload", request, "writing")
        return await self._store.decided(self._key, self._condition, self._mark, writing, size=size)

    async def abort(self) -> None:
        # A part that was under way may arrive after the abort and stay: AWS says to look, and to abort again.
        for _ in range(_ABORTS):
            with suppress(FileMissing):
                await self._store.call("abort_multipart_upload", self._upload, "aborting")
            try:
                await self._store.call("list_parts", self._upload, "aborting")
            except SteadError:
                return


def _encoded(sum_: int) -> str:
    return b64encode(sum_.to_bytes(4, "big")).decode()
