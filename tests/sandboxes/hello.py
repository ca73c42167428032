"""The smallest use of an environment, as a program: `python hello.py PROVIDER URL`."""

import asyncio
import sys

from providers import PROVIDERS
from sandbox_servers import RemoteServer


async def main(name: str, url: str) -> None:
    """Runs a command and prints its output."""
    async with PROVIDERS[name](RemoteServer(name, url)).environment() as env:
        print((await env.execute("echo hello")).stdout, end="")


asyncio.run(main(*sys.argv[1:]))
