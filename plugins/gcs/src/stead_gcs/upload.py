"""Writing an object of a bucket in parts, one after the other."""

import base64
from contextlib import suppress
from typing import TYPE_CHECKING

import google_crc32c

from stead.errors import SteadError, StreamInterrupted, Unavailable
from stead_fsspec.errors import ChecksumMismatch
from stead_fsspec.retry import Retry
from stead_fsspec.store import Condition, Found, Upload
from stead_gcs.client import Answer, Request

if TYPE_CHECKING:
    from stead_gcs.files import GcsStore

__all__ = ["GcsUpload"]


class GcsUpload(Upload):
    """One resumable upload: the service says how much of it has arrived, and goes on from there."""

    def __init__(self, store: "GcsStore", key: str, condition: Condition, *, mark: str, session: str) -> None:
        """Takes an upload that the service has begun.

        Args:
            store: The store.
            key: The object.
            condition: Under which it may replace what is there; the service knows it already.
            mark: Tells that an object is this one.
            session: The URL of the upload.
        """
        self._store = store
        self._key = key
        self._condition = condition
        self._mark = mark
        self._session = session
        self._sent = 0
        self._sum = 0

    async def part(self, number: int, data: bytes) -> None:
        await self._send(data, last=False)

    async def finish(self, rest: bytes) -> Found:
        return await self._store.decided(self._key, self._condition, self._mark, self._send(rest, last=True))

    async def abort(self) -> None:
        # The service answers 499 to a success.
        with suppress(SteadError):
            await self._store.client.ask(Request("DELETE", self._session), "aborting", self._key)

    async def _send(self, data: bytes, *, last: bool) -> Answer:
        begin, end = self._sent, self._sent + len(data)
        self._sum = google_crc32c.extend(self._sum, data)
        arrived, known, retry = begin, True, Retry()
        while True:
            try:
                if not known:
                    answer = await self._put(b"", f"bytes */{end if last else '*'}")
                else:
                    answer = await self._put_rest(data[arrived - begin :], arrived, end, last=last)
            except (Unavailable, StreamInterrupted) as error:
                await retry.pause(error)
                known = False
                continue
            if answer.status != 308:
                self._check(answer, end, last=last)
                self._sent = end
                return answer
            before, arrived, known = arrived, _arrived(answer), True
            if arrived == end and not last:
                self._sent = end
                return answer
            if not begin <= arrived <= end:
                raise StreamInterrupted(f"the service has {arrived} bytes of {self._key!r}, and {end} were sent to it")
            if arrived > before:
                retry.progress()
            else:
                await retry.pause(Unavailable(f"writing {self._key!r}: the service takes no more of it"))

    def _check(self, answer: Answer, end: int, *, last: bool) -> None:
        """Makes sure that the object that appeared is the one that was sent."""
        stored = answer.data.get("crc32c")
        if (
            not last
            or int(answer.data.get("size", end)) != end
            or (stored is not None and stored != self._encoded_sum())
        ):
            raise ChecksumMismatch(
                f"what the service stored at {self._key!r} is not what was sent to it; write it again"
            )

    def _encoded_sum(self) -> str:
        return base64.b64encode(self._sum.to_bytes(4, "big")).decode()

    async def _put_rest(self, data: bytes, begin: int, end: int, *, last: bool) -> Answer:
        total = str(end) if last else "*"
        place = f"{begin}-{end - 1}" if data else "*"
        return await self._put(data, f"bytes {place}/{total}", last=last)

    async def _put(self, data: bytes, place: str, *, last: bool = False) -> Answer:
        headers = {"Content-Range": place}
        if last:
            # The service compares before the object appears.
            headers["X-Goog-Hash"] = f"crc32c={self._encoded_sum()}"
        return await self._store.client.ask(Request("PUT", self._session, {}, headers, (data,)), "writing", self._key)


def _arrived(answer: Answer) -> int:
    """Returns how many bytes the service has: its answer names the last one."""
    last = answer.headers.get("Range", "").rpartition("-")[2]
    return int(last) + 1 if last else 0
