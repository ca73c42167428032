"""Connections that stall, break and damage what they carry."""

from gcs_support import is_media, run
from servers.interruptions import Interruptions


class TestInterrupted(Interruptions):
    """The tests of all object stores."""

    run = staticmethod(run)
    is_media = staticmethod(is_media)

    @staticmethod
    def pins(request, info):
        return f"generation={info.version}" in request.target


def test_damaged_description(near, proxy):
    """An answer that cannot be read is asked for again."""

    async def use(env):
        await env.write_file("a", "x")
        with proxy.fault("corrupt", after=0, times=1, matches=lambda r: "/storage/v1/" in r.target):
            assert (await env.stat("a")).size == 1

    run(near, use)
