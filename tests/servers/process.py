"""Starting a server process, waiting until it is ready, and ending it by its id."""

import atexit
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["free_port", "start", "stop", "wait_until"]

_READY_SECONDS = 60.0


def free_port(*, also: int = 0) -> int:
    """Finds a port of the loopback interface that is free, and with it the port `also` above it."""
    for _ in range(50):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                if also:
                    second.bind(("127.0.0.1", port + also))
            except (OSError, OverflowError):
                continue
            return port
    raise RuntimeError("no free port was found")


def start(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    """Starts a server that ends with this process at the latest. Its output goes to a file: an unread pipe would block it."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=log.parent)
    atexit.register(stop, process)
    return process


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ends a server at once: nothing it holds is worth a slow goodbye."""
    atexit.unregister(stop)
    if process.poll() is None:
        process.kill()
    process.wait()


def wait_until(ready: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Waits until a server answers as it will from then on.

    Raises:
        RuntimeError: It ended, or is not ready after a minute; the message has the end of its log.
    """
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if ready():
            return
        time.sleep(0.05)
    stop(process)
    raise RuntimeError(f"the server is not ready; its log ends: {log.read_text(errors='replace')[-2000:]}")
