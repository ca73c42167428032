"""Numbers beyond what a shell counts to, and names that its programs would take for something else, in each shell."""

import asyncio
from contextlib import aclosing

from test_scripts import shell_env

from stead.results import LineRange

__all__ = ["shell_env"]

_HUGE = (2**62, 2**63, 10**30)


def test_huge_numbers(shell_env):
    """A limit, a length, an offset, a line or a column beyond 64 bits means what it says: all there is, or past its end."""

    async def part(env, offset: int, length: int | None) -> bytes:
        async with aclosing(env.read_file_stream("f", offset=offset, length=length)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def use() -> None:
        async with shell_env as env:
            await env.write_file("f", b"0123456789\n")
            whole = await env.read_lines("f", LineRange())
            for huge in _HUGE:
                assert (await env.execute("echo hello", output_limit=huge)).stdout == "hello\n"
                assert await part(env, 0, huge) == b"0123456789\n"
                assert await part(env, 5, huge) == b"56789\n"
                assert await part(env, huge, None) == b""
                assert await part(env, huge, huge) == b""
                assert await env.read_lines("f", LineRange(end=huge, max_chars=huge)) == whole
                assert (await env.read_lines("f", LineRange(start=huge))).lines == ""

    asyncio.run(use())


def test_odd_names_of_programs(shell_env):
    """A program's name may look like an option or a variable: it is run if it exists, else its code is 127."""

    async def use() -> None:
        async with shell_env as env:
            tools = env.machine.home / "own"
            tools.mkdir()
            env.machine.variables["PATH"] += f":{tools}"
            for name in ("-a=b", "-x", "--", "a=b"):
                missing = await env.execute([name, "x"])
                assert (missing.exit_code, missing.stdout) == (127, "")
                assert name in missing.stderr
                (tools / name).write_text('#!/bin/sh\necho "$V$@"; exit 5\n')
                (tools / name).chmod(0o755)
                result = await env.execute([name, "a b", "-c"], env={"V": "1"})
                assert (result.stdout, result.exit_code) == ("1a b -c\n", 5)

    asyncio.run(use())
