"""What the SDKs do that a user must never feel, tried in a process of its own: `python traps.py PROVIDER URL`.

It prints one JSON object, trap -> null or what went wrong, and is run by every Python that has the SDKs.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from providers import PROVIDERS, Provider, after

from stead.errors import EnvironmentLost, StreamInterrupted, Unavailable

_MIB = 1 << 20
_BOUNDARY = b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n"


def equal(found: Any, expected: Any) -> None:
    """Fails with both values."""
    if found != expected:
        raise AssertionError(f"{found!r:.300} instead of {expected!r:.300}")


class Traps:
    """One trap a method, named for what would be wrong."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.server = provider.server

    def env(self, **options: Any) -> Any:
        return self.provider.environment(**options)

    async def spurious_cancellation(self) -> None:
        """The SDK's own timeout cancels the task that called it, seconds later, wherever that is."""
        async with self.env() as env:
            result = await env.execute("echo a; sleep 20", timeout=1)
            equal((result.timed_out, result.stdout), (True, "a\n"))
            async with aclosing(env.execute_stream("echo b; sleep 2", timeout=5)) as items:
                equal([type(item).__name__ async for item in items], ["OutputChunk", "ExecutionResult"])
            await asyncio.sleep(4)
            task = asyncio.current_task()
            equal(task is not None and task.cancelling(), 0)

    async def deadline_never_fires(self) -> None:
        """With a silent service the SDK's deadline waits for ever on Python 3.11, and twice as long as told elsewhere."""
        silent = {"route": self.provider.start, "kind": "stall", "skip": 1, "times": -1}
        env = self.env(url=self.provider.fault_url(silent), on_close="kill")
        async with env:
            began = time.monotonic()
            result = await env.execute("echo hi", timeout=1)
            equal((result.timed_out, time.monotonic() - began < 6), (True, True))

    async def request_timeout_doubled(self) -> None:
        """A request that the service does not answer takes as long as it was told, not twice that."""
        stall = {"route": f"POST {self.provider.create}$", "kind": "stall", "seconds": 60, "times": -1}
        options: dict[str, Any] = {"start_timeout": 1} if self.provider.name == "daytona" else {"request_timeout": 1}
        env = self.env(url=self.provider.fault_url(stall), **options)
        began = time.monotonic()
        with suppress(Unavailable):
            await env.start()
            raise AssertionError("it started")
        # Four tries of one second, the pauses between them, and looking for what they may have left.
        equal(time.monotonic() - began < 14, True)
        await env.close()

    async def upload_stalls_for_ever(self) -> None:
        """An upload that the service stops reading ends, and the old content stays."""
        async with self.env() as env:
            await env.write_file("a", "old")
            stall = {"route": self.provider.upload, "kind": "stall", "seconds": 60, "times": -1}
            async with self.env(
                url=self.provider.fault_url(stall), sandbox_id=env.sandbox_id, request_timeout=1
            ) as slow:
                began = time.monotonic()
                with suppress(Unavailable):
                    await slow.write_file("a", b"n" * _MIB)
                    raise AssertionError("it was written")
                equal(time.monotonic() - began < 20, True)
            equal(await env.read_file("a"), b"old")

    async def tree_survives_timeout(self) -> None:
        """The service's deadline kills the first process alone; here the whole tree ends, at a timeout and a cancellation."""
        command = "sleep 91 & (setsid sleep 92 &) & sh -c 'trap \"\" TERM; sleep 93; sleep 94' & wait"
        async with self.env() as env:
            equal((await env.execute(command, timeout=1)).timed_out, True)
            await self.nothing_runs("sleep 9")
            task = asyncio.create_task(env.execute(command))
            await asyncio.sleep(1)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.nothing_runs("sleep 9")

    async def background_holds_the_call(self) -> None:
        """A child in the background that holds the pipes delays the SDK's end until it ends too."""
        async with self.env() as env:
            began = time.monotonic()
            result = await env.execute("sleep 15 & echo hi")
            equal((result.stdout, time.monotonic() - began < 5), ("hi\n", True))

    async def long_command(self) -> None:
        """A command of more than 128 KiB is too long for one argument; no command that the service sees is long."""
        async with self.env() as env:
            text = f": {'x' * 300_000}; echo done"
            equal((await env.execute(text)).stdout, "done\n")
            equal((await env.execute(["printf", "%s", "y" * 100_000])).stdout, "y" * 100_000)

    async def bytes_of_output(self) -> None:
        """Output is exact: no newline added, no NUL or marker dropped, streams apart, bad bytes where they were."""
        for command, out in (
            ("printf hi", "hi"),
            ("printf 'a\\nb'; exit 2", "a\nb"),
            ("printf 'a\\0b'", "a\0b"),
            ("printf '\\1\\1\\1x\\2\\2\\2'", "\1\1\1x\2\2\2"),
            ("printf '\\377\\376'", "\ufffd\ufffd"),
            ("printf '@0123456789abcdef ok b @0123456789abcdef'", "@0123456789abcdef ok b @0123456789abcdef"),
        ):
            async with self.env() as env:
                result = await env.execute(command + "; echo err >&2")
                equal((result.stdout, result.stderr), (out, "err\n" if "exit" not in command else ""))

    async def exit_n_ends_the_shell(self) -> None:
        """`exec`, `exit`, `set -e` and `cd` end nothing but their own command, and leave nothing to the next."""
        async with self.env() as env:
            found = [
                (await env.execute(text, timeout=10)).exit_code
                for text in ("exec true", "exit 3", "set -e; false", "cd /; export A=1", "kill -KILL $$")
            ]
            equal(found, [0, 3, 1, 0, 137])
            equal((await env.execute("pwd; echo [$A]")).stdout, f"{env.working_dir}\n[]\n")

    async def stdin_eaters(self) -> None:
        """A command that reads its standard input finds an end, or what it was given: never the rest of a script."""
        async with self.env() as env:
            equal((await env.execute("cat; read x; echo [$x]", timeout=10)).stdout, "[]\n")
            equal((await env.execute("cat", stdin="given\n", timeout=10)).stdout, "given\n")

    async def empty_and_boundary_bearing_files(self) -> None:
        """An empty file, and files that hold the SDK's own form boundary, are read as they are."""
        large = _BOUNDARY + b"x" * (9 * _MIB) + _BOUNDARY + b"tail"
        async with self.env() as env:
            for content in (b"", _BOUNDARY, b"a" * 100_000 + _BOUNDARY + b"b" * 100_000, large):
                await env.write_file("f", content)
                equal(await env.read_file("f") == content, True)

    async def dead_sandbox_is_a_timeout(self) -> None:
        """A sandbox that is gone is told as that by every call, though the SDK derives it from its timeout."""
        async with self.env() as env:
            await env.write_file("f", b"x" * (9 * _MIB))
            self.server.expire(env.sandbox_id)
            calls = (env.execute("ls", timeout=5), env.read_file("f"), env.write_file("g", "y"), env.stat("f"))
            for call in calls:
                try:
                    await call
                except EnvironmentLost:
                    continue
                raise AssertionError("no loss was told")

    async def raw_transport_errors(self) -> None:
        """A connection that is cut is an error of stead's, or is resumed: never the transport's own error."""
        async with self.env() as env:
            await env.write_file("f", b"0123456789" * _MIB)
            cut = {"route": self.provider.download, "kind": "cut", "after": 300_000, "times": 3}
            async with self.env(url=self.provider.fault_url(cut), sandbox_id=env.sandbox_id) as broken:
                equal(await broken.read_file("f") == b"0123456789" * _MIB, True)
            # A stall in mid-stream is no wait for ever; and what is silent each time is told.
            stalls = {
                "route": self.provider.download,
                "kind": "stall_body",
                "after": 300_000,
                "seconds": 2,
                "times": 1,
            }
            url = self.provider.fault_url(stalls)
            async with self.env(url=url, sandbox_id=env.sandbox_id, request_timeout=1) as broken:
                equal(await broken.read_file("f") == b"0123456789" * _MIB, True)
            cut["after"], cut["times"] = 0, -1
            async with self.env(url=self.provider.fault_url(cut), sandbox_id=env.sandbox_id) as broken:
                with suppress(StreamInterrupted, Unavailable):
                    await broken.read_file("f")
                    raise AssertionError("it was read")

    async def lost_replies(self) -> None:
        """A command whose first answers are lost has run exactly once, and its result comes."""
        async with self.env() as env:
            lose = {"route": self.provider.start, "kind": "lose_reply", "skip": 1, "times": 2}
            async with self.env(url=self.provider.fault_url(lose), sandbox_id=env.sandbox_id) as broken:
                result = await broken.execute("echo once >> count; echo done")
                equal(result.stdout, "done\n")
            equal(await env.read_file("count"), b"once\n")

    async def lost_midway(self) -> None:
        """A sandbox that ends while a command runs is told soon, not at the timeout."""
        async with self.env() as env:
            after(1, lambda: self.server.expire(env.sandbox_id))
            began = time.monotonic()
            with suppress(EnvironmentLost, Unavailable):
                await env.execute("sleep 60", timeout=50)
                raise AssertionError("it ended")
            equal(time.monotonic() - began < 30, True)

    async def streamed_upload(self) -> None:
        """A streamed write whose producer fails leaves the old content and raises the producer's error."""

        async def failing() -> AsyncIterator[bytes]:
            yield b"n" * _MIB
            raise ZeroDivisionError

        async with self.env() as env:
            await env.write_file("f", "old")
            with suppress(ZeroDivisionError):
                await env.write_file("f", failing())
                raise AssertionError("it was written")
            equal(await env.read_file("f"), b"old")

    async def early_close(self) -> None:
        """A stream that is left early gives its connection back at once."""
        async with self.env() as env:
            await env.write_file("f", b"x" * (32 * _MIB))
            for _ in range(3):
                async with aclosing(env.read_file_stream("f")) as chunks:
                    await anext(chunks)
            await asyncio.sleep(0.5)
            equal(self.server.state()["open_streams"], 0)

    async def nothing_runs(self, words: str) -> None:
        """Waits until no process of a sandbox has such a command line."""
        found: list[str] = []
        for _ in range(40):
            found = [line for pid in self.server.processes() if words in (line := _command_line(pid))]
            if not found:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"still running: {found}")


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


TRAPS = [name for name, value in vars(Traps).items() if asyncio.iscoroutinefunction(value) and name != "nothing_runs"]


def main(name: str, url: str) -> None:
    """Tries all traps of a provider, and prints what happened."""
    from sandbox_servers import RemoteServer

    traps = Traps(PROVIDERS[name](RemoteServer(name, url)))
    found: dict[str, str | None] = {}
    for trap in TRAPS:
        try:
            asyncio.run(asyncio.wait_for(getattr(traps, trap)(), 90))
            found[trap] = None
        except BaseException as error:  # what it is, is what the test asks
            found[trap] = f"{type(error).__name__}: {error}"
        print(f"{trap}: {found[trap] or 'held'}", file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
