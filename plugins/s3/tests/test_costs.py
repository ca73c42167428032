"""The S3 backend makes the requests that its page says, and no more."""

import asyncio

from servers.costs import requests_of

from stead_s3 import S3Environment


def test_requests_of_each_call(near, proxy):
    """Counted before the server; what a write finds out about its folders is asked once."""
    env = S3Environment(**near)

    async def main():
        try:
            return await requests_of(env, proxy)
        finally:
            await env.close()

    assert asyncio.run(main()) == {
        "start": "LIST",
        "write": "LIST PUT",
        "write, first in a folder": "LIST HEAD HEAD PUT",
        "write, again in a folder": "LIST PUT",
        "write, 12 MiB from an iterator": "LIST POST PUT PUT PUT POST",
        "read": "GET",
        "read, a range": "GET",
        "read, missing": "GET LIST",
        "read_lines": "GET",
        "read_lines, again": "GET",
        "stat": "HEAD",
        "stat, a folder": "HEAD LIST",
        "stat, missing": "HEAD LIST LIST",
        "list": "LIST",
        "delete": "HEAD DELETE",
    }
