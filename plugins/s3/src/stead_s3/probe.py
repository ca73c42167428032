"""Whether a store other than AWS keeps to the conditions of a write: some ignore them and write."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from stead.errors import FileMissing, SteadError, Unavailable, Unsupported
from stead_fsspec.store import Condition
from stead_s3.errors import ConditionFailed

if TYPE_CHECKING:
    from stead_s3.files import S3Store

__all__ = ["Probe", "Way"]

Way = Literal["put", "parts"]
"""How an object is written: in one request, or in parts."""

_ETAG = '"00000000000000000000000000000000"'


class Probe:
    """Tries each kind of condition once, on an object of its own, before it is first relied on."""

    def __init__(self, store: "S3Store", *, known: bool, folder: str) -> None:
        """Takes the store; asks for nothing yet.

        Args:
            store: The store.
            known: True if the store is known to keep to conditions.
            folder: Where objects to try with may be written.
        """
        self._store = store
        self._known = known
        self._folder = folder
        self._found: dict[tuple[str, Way], bool] = {}
        self._lock = asyncio.Lock()

    async def check(self, condition: Condition, way: Way) -> None:
        """Makes sure that a condition will be kept to.

        Raises:
            Unsupported: It would be ignored.
            SteadError: It could not be tried.
        """
        if self._known or not condition:
            return
        kind = "if_absent" if condition.absent else "if_version"
        async with self._lock:
            if (kind, way) not in self._found:
                self._found[kind, way] = await self._try(kind, way)
        if not self._found[kind, way]:
            raise Unsupported(
                f"the store at this endpoint_url ignores conditions of a write, so {kind} cannot be kept to"
            )

    async def _try(self, kind: str, way: Way) -> bool:
        key = f"{self._folder}/probe-{secrets.token_hex(8)}"
        store = self._store
        try:
            if kind == "if_absent":
                await store.call("put_object", {"Key": key, "Body": b""}, "probing")
            condition = {"IfNoneMatch": "*"} if kind == "if_absent" else {"IfMatch": _ETAG}
            write = self._put if way == "put" else self._parts
            return not await _succeeds(lambda: write(key, condition))
        finally:
            with suppress(SteadError):
                await store.call("delete_object", {"Key": key}, "probing")

    async def _put(self, key: str, condition: dict[str, str]) -> None:
        await self._store.call("put_object", {"Key": key, "Body": b"probe", **condition}, "probing")

    async def _parts(self, key: str, condition: dict[str, str]) -> None:
        store = self._store
        begun = await store.call("create_multipart_upload", {"Key": key}, "probing")
        upload = {"Key": key, "UploadId": begun["UploadId"]}
        try:
            part = await store.call("upload_part", {**upload, "PartNumber": 1, "Body": b"probe"}, "probing")
            parts = [{"PartNumber": 1, **{n: v for n, v in part.items() if n == "ETag" or n.startswith("Checksum")}}]
            request = {**upload, "MultipartUpload": {"Parts": parts}, **condition}
            await store.call("complete_multipart_upload", request, "probing")
        finally:
            with suppress(SteadError):
                await store.call("abort_multipart_upload", upload, "probing")


async def _succeeds(write: Callable[[], Awaitable[None]]) -> bool:
    """Says whether a write goes through whose condition cannot hold."""
    try:
        await write()
    except (ConditionFailed, FileMissing):  # AWS and moto say 404 to If-Match where nothing is
        return False
    except Unavailable:
        raise
    except Unsupported:
        return True  # it is refused, but as a thing that the store does not know: so it cannot be relied on
    return True
