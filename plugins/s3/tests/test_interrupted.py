"""Connections that stall, break and damage what they carry."""

import pytest
from s3_support import is_media, run
from servers.interruptions import Interruptions

from stead.errors import Unavailable
from stead_fsspec.store import ANY


class TestInterrupted(Interruptions):
    """The tests of all object stores."""

    run = staticmethod(run)
    is_media = staticmethod(is_media)

    @staticmethod
    def pins(request, info):
        return request.headers["if-match"] == f'"{info.version}"'


def test_damaged_write(near, proxy):
    """The store compares what it gets with its checksum: what is damaged on its way is not stored."""

    async def use(env):
        await env.write_file("a", "old")
        upload = await env._store.begin(env._key("a"), ANY, {})
        await upload.part(1, b"x" * (5 << 20))
        upload._sums[1] = (upload._sums[1][0] ^ 1, upload._sums[1][1])
        with pytest.raises(Unavailable, match="damaged"):
            await upload.finish(b"rest")
        await upload.abort()
        assert await env.read_file("a") == b"old"

    run(near, use)
