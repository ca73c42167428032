"""Requests of the JSON interface, over the session of gcsfs: one for each environment, with limits on every wait."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from stead.errors import Unavailable
from stead_gcs.errors import check, translated

__all__ = ["Access", "Answer", "Client", "Request"]

_GOOGLE = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_CONNECT_SECONDS = 5.0
_POOL_SECONDS = 10.0
_CONNECTIONS = 64
_BUFFER = 1 << 20
_PIECE = 1 << 18
_FRESH_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Access:
    """Where a bucket is, who asks, and how. Its repr shows no secret."""

    bucket: str
    project: str | None = None
    credentials: Any = field(default=None, repr=False)
    endpoint_url: str | None = None
    anonymous: bool = False
    timeout: float = 30.0

    @property
    def base(self) -> str:
        """Where the service listens."""
        return (self.endpoint_url or _GOOGLE).rstrip("/")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, without credentials."""

    method: str
    url: str
    """Without a query, or with one that the service made."""
    query: Mapping[str, str] = field(default_factory=dict)
    """More of it, not encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    data: Sequence[bytes] = ()
    """The body, in pieces."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    data: dict[str, Any]
    """Its JSON; empty if it has none."""


class Client:
    """A session, and the credentials it sends."""

    def __init__(self, access: Access, filesystem: Any, session: aiohttp.ClientSession) -> None:
        """Takes what `open` made."""
        self._access = access
        self._filesystem = filesystem
        self._session = session
        self.billed = False
        """Whether requests say which project is billed for them."""

    @classmethod
    async def open(cls, access: Access) -> "Client":
        """Finds credentials and makes the session.

        Raises:
            Exception: What the libraries raise for credentials and options that they cannot use.
        """
        # The libraries' import takes two seconds, and finding credentials may ask the network: not on the event loop.
        filesystem = await asyncio.to_thread(_filesystem, access)
        filesystem.session_kwargs = {
            "auto_decompress": False,  # what is stored is what is read, compressed or not
            "connector": aiohttp.TCPConnector(limit=_CONNECTIONS),
            "read_bufsize": _BUFFER,
            "timeout": aiohttp.ClientTimeout(
                total=None,
                connect=access.timeout + _POOL_SECONDS,
                sock_connect=min(_CONNECT_SECONDS, access.timeout),
                sock_read=access.timeout,
            ),
        }
        session = await filesystem._set_session()  # noqa: SLF001 - how gcsfs makes one on this loop
        # It repeats PUT and DELETE by itself when a kept connection breaks: a part of an upload would come twice.
        session._retry_connection = False  # noqa: SLF001 - there is no option for it
        return cls(access, filesystem, session)

    async def close(self) -> None:
        """Ends all connections."""
        await self._session.close()
        await asyncio.sleep(0)  # transports are closed one turn of the loop later

    def object_url(self, key: str, *, media: bool = False) -> str:
        """The URL of an object, or of its bytes."""
        service = "/download/storage/v1" if media else "/storage/v1"
        return f"{self._access.base}{service}/b/{quote(self._access.bucket, safe='')}/o/{quote(key, safe='')}"

    def bucket_url(self, *, upload: bool = False) -> str:
        """The URL of a bucket's objects, to list or to write them."""
        service = "/upload/storage/v1" if upload else "/storage/v1"
        return f"{self._access.base}{service}/b/{quote(self._access.bucket, safe='')}/o"

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        """Sends one request, and returns its answer as soon as its head is there. The caller closes it."""
        headers = {"Accept-Encoding": "identity", **request.headers}
        size = sum(map(len, request.data))
        if size:
            headers["Content-Length"] = str(size)
        await self._authorise(headers)
        query = dict(request.query)
        if self.billed and self._access.project is not None:
            query["userProject"] = self._access.project
        pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
        url = f"{request.url}{'&' if '?' in request.url else '?'}{pairs}" if pairs else request.url
        return await self._session.request(
            request.method,
            # Encoded here and sent as it is: a library that decodes and encodes again would find another object.
            URL(url, encoded=True),
            headers=headers,
            # In small pieces: one large one would be copied whole into the transport's buffer.
            data=_pieces(request.data) if size else None,
            allow_redirects=False,
        )

    async def ask(self, request: Request, doing: str, key: str = "") -> Answer:
        """Sends one request and reads its answer.

        Args:
            request: The request.
            doing: For messages.
            key: For messages.

        Raises:
            SteadError: It was not answered, or not with success; 308 is one.
        """
        with translated(doing, self._access.bucket, key):
            answer = await self.send(request)
            try:
                body = await answer.read()
            finally:
                answer.close()
            if answer.status != 308:
                check(answer.status, body, answer.headers, bucket=self._access.bucket)
            return Answer(answer.status, answer.headers, _json(body))

    async def _authorise(self, headers: dict[str, str]) -> None:
        keeper = self._filesystem.credentials
        if keeper.credentials is None:
            return
        if not _fresh(keeper.credentials):
            # Renewing blocks for a round trip, under a lock of threads.
            await asyncio.to_thread(keeper.maybe_refresh)
        keeper.apply(headers)


def _json(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        found: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise Unavailable(f"the answer is damaged: {error}") from error
    return found


async def _pieces(data: Sequence[bytes]) -> AsyncGenerator[bytes, None]:
    for part in data:
        view = memoryview(part)
        for start in range(0, len(part), _PIECE):
            yield bytes(view[start : start + _PIECE])


def _fresh(credentials: Any) -> bool:
    expiry = credentials.expiry
    left = None if expiry is None else (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()
    return bool(credentials.valid) and (left is None or left > _FRESH_SECONDS)


def _filesystem(access: Access) -> Any:
    # Not `gcsfs.GCSFileSystem`: that one asks another protocol of the endpoint first, and waits for it.
    from gcsfs.core import GCSFileSystem

    return GCSFileSystem(
        project=access.project or "",  # None would be warned of, though nothing here needs one
        token="anon" if access.anonymous else _credentials(access.credentials),
        endpoint_url=access.endpoint_url,
        asynchronous=True,
        # Its cache of instances knows threads but not loops, that of listings never expires.
        skip_instance_cache=True,
        use_listings_cache=False,
    )


def _credentials(given: Any) -> Any:
    """Makes credentials out of what an option can hold.

    Raises:
        ValueError: It holds none.
        OSError: The file cannot be read.
        Exception: What the library raises for a key that is not complete.
    """
    auth, oauth2 = import_module("google.auth"), import_module("google.oauth2.credentials")
    if given is None:
        return auth.default(scopes=[_SCOPE])[0]
    if hasattr(given, "refresh"):
        return given
    if isinstance(given, str) and not given.lstrip().startswith("{"):
        if not os.path.exists(given):
            return oauth2.Credentials(given)
        given = Path(given).read_text(encoding="utf-8")
    key = json.loads(given) if isinstance(given, str) else dict(given)
    if key.get("type") == "service_account":
        account = import_module("google.oauth2.service_account").Credentials
        return account.from_service_account_info(key, scopes=[_SCOPE])
    if key.get("type") == "authorized_user":
        return oauth2.Credentials.from_authorized_user_info(key, scopes=[_SCOPE])
    raise ValueError("a key is of type service_account or authorized_user; others are found as default credentials")
