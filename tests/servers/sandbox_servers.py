"""Starting a test server of a sandbox provider, and telling it how to misbehave."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent


class RemoteServer:
    """A test server that somebody runs, told how to misbehave."""

    def __init__(self, name: str, url: str) -> None:
        """Names the server.

        Args:
            name: `e2b` or `daytona`.
            url: Where it is.
        """
        self.name, self.url = name, url

    def ask(self, action: str, value: Any = None) -> dict[str, Any]:
        """Does an administrator's action and returns the server's state."""
        data = json.dumps(value).encode() if value is not None else b""
        request = urllib.request.Request(f"{self.url}/_test/{action}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def state(self) -> dict[str, Any]:
        """Returns sandboxes, calls and traffic."""
        return self.ask("state")

    def faults(self, *specs: dict[str, Any]) -> None:
        """Replaces the faults that are due."""
        self.ask("faults", list(specs))

    def scope(self, name: str, *specs: dict[str, Any]) -> str:
        """Says which faults strike below an address of its own, and returns that."""
        self.ask("scope", {"name": name, "faults": list(specs)})
        return f"{self.url}/_fault/{name}"

    def make(self, **given: Any) -> dict[str, str]:
        """Makes a sandbox and tells its name and its home folder."""
        request = urllib.request.Request(f"{self.url}/_test/make", json.dumps(given).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def expire(self, sandbox: str | None = None) -> None:
        """Ends one sandbox, or all, as their time does."""
        self.ask("expire", {} if sandbox is None else {"sandbox": sandbox})

    def reset(self) -> None:
        """Forgets faults, calls and traffic."""
        self.ask("reset", {})

    def living(self) -> dict[str, Any]:
        """Returns the sandboxes that exist."""
        return {name: s for name, s in self.state()["sandboxes"].items() if s["state"] != "gone"}

    def processes(self) -> list[int]:
        """Returns all living processes of all sandboxes."""
        return [pid for sandbox in self.state()["sandboxes"].values() for pid in sandbox["processes"]]

    def calls(self, part: str = "") -> int:
        """Counts the requests whose `METHOD path` contains a text."""
        return sum(n for what, n in self.state()["calls"].items() if part in what)


class SandboxServer(RemoteServer):
    """A test server of our own. Use it as a context manager."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")

    def __enter__(self) -> Self:
        # Not below pytest's own folder: a sandbox's user, who is not root, could not enter that.
        self._folder = tempfile.TemporaryDirectory(prefix=f"stead-{self.name}-", ignore_cleanup_errors=True)
        os.chmod(self._folder.name, 0o755)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / f"{self.name}_server.py"), "--base", self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["url"]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid
