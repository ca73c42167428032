"""Runs of `traps.py`, two at a time beside the other tests: they wait most of the time."""

import json
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pythons import pythons, variables
from sandbox_servers import SandboxServer

_SECONDS = 900


class TrapRuns:
    """What the traps of a provider did on a Python: begun when first asked for, or before."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2)
        self._runs: dict[tuple[str, str], Future[dict[str, str | None]]] = {}
        self._processes: list[subprocess.Popen[str]] = []

    def begin(self, version: str, name: str) -> "Future[dict[str, str | None]]":
        """Begins a run, unless that was done."""
        if (version, name) not in self._runs:
            self._runs[version, name] = self._pool.submit(self._run, version, name)
        return self._runs[version, name]

    def close(self) -> None:
        """Gives up what has not ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()  # nothing if it has ended
        self._pool.shutdown()

    def _run(self, version: str, name: str) -> dict[str, str | None]:
        # A server of its own: that of the other tests is reset by them.
        with SandboxServer(name) as server:
            words = [pythons()[version], str(Path(__file__).with_name("traps.py")), name, server.url]
            process = subprocess.Popen(
                words, env=variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            self._processes.append(process)
            try:
                out, told = process.communicate(timeout=_SECONDS)
            finally:
                process.kill()
                process.wait()
        assert process.returncode == 0, f"the interpreter ended with {process.returncode}: {told[-2000:]}"
        # What the SDKs leave behind when something is given up would be printed by asyncio.
        assert "never retrieved" not in told
        return json.loads(out.splitlines()[-1])
