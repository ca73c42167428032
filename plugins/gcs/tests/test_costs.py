"""The GCS backend makes the requests that its page says, and no more."""

import asyncio

from servers.costs import requests_of

from stead_gcs import GcsEnvironment


def test_requests_of_each_call(near, proxy):
    """Counted before the server; what a write finds out about its folders is asked once."""
    env = GcsEnvironment(**near)

    async def main():
        try:
            return await requests_of(env, proxy)
        finally:
            await env.close()

    assert asyncio.run(main()) == {
        "start": "LIST",
        "write": "LIST POST",
        "write, first in a folder": "LIST GET GET POST",
        "write, again in a folder": "LIST POST",
        "write, 12 MiB from an iterator": "LIST POST PUT PUT PUT",
        "read": "GET",
        "read, a range": "GET",
        "read, missing": "GET LIST",
        "read_lines": "GET",
        "read_lines, again": "GET",
        "stat": "GET",
        "stat, a folder": "GET LIST",
        "stat, missing": "GET LIST LIST",
        "list": "LIST",
        "delete": "GET DELETE",
    }
