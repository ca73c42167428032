"""The SDK's client: one for each environment, with limits on every wait and no retries of its own."""

import asyncio
from dataclasses import dataclass, field
from functools import cache
from typing import Any

__all__ = ["Access", "close_client", "make_client"]

_CONNECT_SECONDS = 5.0
_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Access:
    """Where a bucket is, who asks, and how. Its repr shows no secret."""

    bucket: str
    endpoint_url: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    anonymous: bool = False
    timeout: float = 30.0
    checksums: bool = True


async def make_client(access: Access) -> Any:
    """Makes a client of aiobotocore through s3fs, which knows where credentials are found.

    Raises:
        Exception: What the SDK raises for options and credentials that it cannot use.
    """
    # The SDK's import takes a second, its client a third of one (it reads a description of all of S3): not on the event
    # loop. A client belongs to no loop before its first request.
    client = await asyncio.to_thread(lambda: asyncio.run(_session(access)))
    if access.checksums:
        client.meta.events.register("before-call.s3.GetObject", _ask_for_checksum)
    return client


async def close_client(client: Any) -> None:
    """Ends a client's connections."""
    await client.close()
    await asyncio.sleep(0)  # transports are closed one turn of the loop later


async def _session(access: Access) -> Any:
    return await _filesystem(access).set_session()


def _filesystem(access: Access) -> Any:
    from s3fs import S3FileSystem

    when = "when_supported" if access.checksums else "when_required"
    config = {
        "connect_timeout": min(_CONNECT_SECONDS, access.timeout),
        "read_timeout": access.timeout,
        "max_pool_connections": _CONNECTIONS,
        # Repeating is decided where it is known what is safe to repeat; two layers of it would multiply.
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        "request_checksum_calculation": when,
        # The SDK can check only a body that came in one piece; the stream checks resumed ones too.
        "response_checksum_validation": "when_required",
    }
    return S3FileSystem(
        anon=access.anonymous,
        key=access.access_key,
        secret=access.secret_key,
        token=access.session_token,
        endpoint_url=access.endpoint_url,
        client_kwargs={"region_name": access.region} if access.region is not None else {},
        config_kwargs=config,
        asynchronous=True,
        # Its cache of instances knows threads but not loops, that of listings never expires.
        skip_instance_cache=True,
        use_listings_cache=False,
        session=_sdk_session(access.profile),
    )


def _sdk_session(profile: str | None) -> Any:
    from aiobotocore.session import AioSession

    session = AioSession(profile=profile)
    # The descriptions of services never change: parsed once a process, the next client costs a tenth.
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> Any:
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _ask_for_checksum(params: dict[str, Any], **_: object) -> None:
    params["headers"]["x-amz-checksum-mode"] = "ENABLED"
