"""Laws about what a command prints: complete or spilled, counted exactly, never mixed or lost."""

import asyncio
import hashlib

import pytest

from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.environment import Environment

__all__ = ["OutputLaws"]


class OutputLaws(LawSettings):
    """Group G, continued: output."""

    @law("G3", needs="execute")
    async def test_execute_output_as_is(self, env: Environment) -> None:
        """No output is empty, and no newline is added or taken away."""
        for command, expected in (
            ("true", ""),
            ("printf x", "x"),
            ("printf '\\n\\n'", "\n\n"),
            ("printf ' a\\r\\n'", " a\r\n"),
        ):
            result = await env.execute(command)
            assert (result.stdout, result.stderr) == (expected, "")

    @law("G4", needs="execute")
    async def test_execute_undecodable(self, env: Environment) -> None:
        """Output is UTF-8 with replacement, and a character that is written in two parts arrives whole."""
        bad = await env.execute("printf '\\377\\376ok'; printf '\\360' >&2")
        assert (bad.stdout, bad.stderr) == ("\ufffd\ufffdok", "\ufffd")
        split = await env.execute("printf '\\347\\225'; sleep 0.1; printf '\\214'")
        assert split.stdout == "\u754c"

    @law("G5", needs="execute")
    async def test_execute_500_kib(self, env: Environment) -> None:
        """500 KiB of output come back complete."""
        result = await env.execute("head -c 512000 /dev/zero | tr '\\000' x")
        assert result.stdout == "x" * 512_000
        assert (result.stdout_bytes, result.stdout_path) == (512_000, None)

    @law("G5", needs="execute")
    async def test_execute_10_mib(self, env: Environment) -> None:
        """10 MiB of output are counted exactly and never lost: complete, or spilled to a file that the result names."""
        result = await env.execute("i=0; while [ $i -lt 160 ]; do printf '%065536d' $i; i=$((i+1)); done")
        expected = b"".join(b"%065536d" % n for n in range(160))
        assert result.stdout_bytes == len(expected)
        path = result.stdout_path
        found = result.stdout.encode() if path is None else await env.read_file(path)
        await _discard(env, path)
        assert hashlib.sha256(found).digest() == hashlib.sha256(expected).digest()

    @law("G5", needs="execute")
    async def test_execute_output_limit(self, env: Environment) -> None:
        """Output up to `output_limit` bytes is complete; beyond it head and tail are kept and the whole is spilled."""
        for size in (999, 1000, 1001, 5000):
            result = await env.execute(f"printf '%0{size}d' 7", output_limit=1000)
            whole = b"%0*d" % (size, 7)
            assert result.stdout_bytes == size
            if size <= 1000:
                assert (result.stdout.encode(), result.stdout_path) == (whole, None)
                continue
            assert result.stdout_path is not None
            assert await env.read_file(result.stdout_path) == whole
            await _discard(env, result.stdout_path)
            assert result.stdout.startswith("0" * 400)
            assert result.stdout.endswith("07")

    @law("G5", needs="execute")
    async def test_execute_output_limit_range(self, env: Environment) -> None:
        """An output limit of 0 keeps none of the text, a negative one is a ValueError."""
        result = await env.execute("printf secret-text", output_limit=0)
        await _discard(env, result.stdout_path)
        assert ("secret-text" in result.stdout, result.stdout_bytes) == (False, 11)
        with pytest.raises(ValueError, match="output_limit"):
            await env.execute("true", output_limit=-1)

    @law("G6", needs="execute")
    async def test_execute_both_streams_full(self, env: Environment) -> None:
        """Both streams full at once do not deadlock."""
        command = "head -c 3000000 /dev/zero >&2 & head -c 3000000 /dev/zero; wait"
        result = await env.execute(command, timeout=15, output_limit=1000)
        await _discard(env, result.stdout_path, result.stderr_path)
        assert (result.stdout_bytes, result.stderr_bytes, result.timed_out) == (3_000_000, 3_000_000, False)

    @law("G7", needs="execute")
    async def test_execute_parallel_large(self, env: Environment) -> None:
        """Five such commands in parallel do not either."""
        commands = (env.execute(f"head -c 500000 /dev/zero | tr '\\000' {n}; echo {n} >&2") for n in range(5))
        found = [(result.stdout, result.stderr) for result in await asyncio.gather(*commands)]
        assert found == [(str(n) * 500_000, f"{n}\n") for n in range(5)]


async def _discard(env: Environment, *paths: str | None) -> None:
    """Removes spilled output: it outlives the environment, and the suite leaves nothing behind."""
    for path in paths:
        if path is not None and env.capabilities.delete_file:
            await env.delete_file(path)
