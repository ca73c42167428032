"""One peer's way to run commands, measured inside its own Python: `python execute_peers.py PEER FOLDER SIZE`.

Prints one line of JSON: median seconds of `true`, seconds of 100 x `sleep 0.1`, what a timeout left of a tree, and the
seconds and megabytes of a command with SIZE bytes of output. `bench_execute.py` runs it for each peer.
"""

import asyncio
import json
import logging
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Run = Callable[[str, float | None], Awaitable[str]]
"""Runs shell text with a timeout in seconds and returns what it printed, or what was left of that."""

TREE = "echo begin; sleep {mark} & setsid sleep {mark} & (env -i setsid sleep {mark} &) ; sleep {mark}"


async def stead(folder: str) -> Run:
    """Our own, for comparison."""
    from stead_local import LocalEnvironment

    env = LocalEnvironment(folder)

    async def run(command: str, timeout: float | None) -> str:
        return (await env.execute(command, timeout=timeout)).stdout

    return run


async def adk(folder: str) -> Run:
    """Google ADK's LocalEnvironment."""
    from google.adk.environment._local_environment import LocalEnvironment  # type: ignore[import-not-found]

    env = LocalEnvironment(working_dir=Path(folder))
    await env.initialize()

    async def run(command: str, timeout: float | None) -> str:
        return str((await env.execute(command, timeout=timeout)).stdout)

    return run


async def deepagents(folder: str) -> Run:
    """LangChain deepagents' LocalShellBackend, in threads since it blocks."""
    from deepagents.backends.local_shell import LocalShellBackend  # type: ignore[import-not-found]

    backend = LocalShellBackend(root_dir=folder, inherit_env=True)
    threads = ThreadPoolExecutor(100)

    async def run(command: str, timeout: float | None) -> str:
        seconds = 3600 if timeout is None else max(1, round(timeout))
        loop = asyncio.get_running_loop()
        return str((await loop.run_in_executor(threads, lambda: backend.execute(command, timeout=seconds))).output)

    return run


async def pydantic_ai(folder: str) -> Run:
    """Pydantic AI's LocalWorkspaceBackend."""
    from pydantic_ai.workspaces.local import LocalWorkspaceBackend  # type: ignore[import-not-found]

    backend = LocalWorkspaceBackend(folder, env=dict(os.environ))

    async def run(command: str, timeout: float | None) -> str:
        return str((await backend.run(command, shell=True, timeout=timeout)).stdout)

    return run


async def openai_agents(_folder: str) -> Run:
    """OpenAI Agents' UnixLocalSandboxClient."""
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient  # type: ignore[import-not-found]

    session = await UnixLocalSandboxClient().create()
    await session.start()

    async def run(command: str, timeout: float | None) -> str:
        result = await session.exec(command, timeout=timeout)
        return bytes(result.stdout).decode(errors="replace")

    return run


async def inspect_ai(_folder: str) -> Run:
    """Inspect's local sandbox."""
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment  # type: ignore[import-not-found]

    sandbox = LocalSandboxEnvironment()

    async def run(command: str, timeout: float | None) -> str:
        seconds = None if timeout is None else max(1, round(timeout))
        return str((await sandbox.exec(["sh", "-c", command], timeout=seconds, timeout_retry=False)).stdout)

    return run


PEERS = {
    "stead": stead,
    "google-adk": adk,
    "deepagents": deepagents,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "inspect-ai": inspect_ai,
}


def marked(mark: int) -> list[int]:
    """Processes whose command line holds the mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if str(mark).encode() in line:
                found.append(int(name))
    return [pid for pid in found if pid != os.getpid()]


async def tree(run: Run, timeout: float = 1.0) -> dict[str, Any]:
    """What a timeout makes of a tree: how long it takes, whether the output is kept, how many processes stay."""
    mark = 20_000 + os.getpid() % 10_000  # seconds to sleep, and the mark
    start = time.perf_counter()
    try:
        said = await asyncio.wait_for(run(TREE.format(mark=mark), timeout), 40)
    except Exception as error:
        said = f"({type(error).__name__}) {getattr(error, 'stdout', '') or getattr(error, 'output', '')}"
    seconds = time.perf_counter() - start
    await asyncio.sleep(0.2)
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return {"seconds": seconds, "kept": "begin" in said, "left": len(left)}


def peak_kb() -> int:
    """The peak resident size of this process since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


async def measure(run: Run, size: int, big: str) -> dict[str, Any]:
    """All figures of one way to run commands."""
    await run("true", None)
    times = []
    for _ in range(60):
        start = time.perf_counter()
        await run("true", None)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    await asyncio.gather(*(run("sleep 0.1", None) for _ in range(100)))
    burst = time.perf_counter() - start
    figures: dict[str, Any] = {"true": statistics.median(times), "burst": burst, "tree": await tree(run)}
    Path("/proc/self/clear_refs").write_text("5")
    base, start = peak_kb(), time.perf_counter()
    try:
        shown = len(await run(f"head -c {size} {big}", None))
    except Exception as error:
        figures["output"] = {"error": type(error).__name__}
        return figures
    seconds = time.perf_counter() - start
    figures["output"] = {"seconds": seconds, "megabytes": (peak_kb() - base) / 1024, "shown": shown}
    return figures


async def main() -> None:
    """Measures the peer that is named on the command line."""
    name, folder, size = sys.argv[1:4]
    logging.disable(logging.CRITICAL)
    try:
        run = await PEERS[name](folder)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}), flush=True)
        return
    print(json.dumps(await measure(run, int(size), f"{folder}/big")), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # some peers leave threads that wait for processes
