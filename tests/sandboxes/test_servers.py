"""The test servers speak the providers' protocols, and refuse what the providers refuse: spoken to by hand, without an SDK."""

import base64
import http.client
import json
import struct
from urllib.parse import urlsplit

import pytest


class Wire:
    """Plain HTTP to a server."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.address, self.headers = urlsplit(url).netloc, headers

    def ask(self, method: str, path: str, body=None, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        sent = {"Content-Type": "application/json", **self.headers}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def e2b(provider_of):
    """A sandbox of E2B: the control plane and the daemon, by hand."""
    server = provider_of("e2b").server
    control = Wire(server.url, {"X-API-KEY": "e2b_test_key"})
    status, body = control.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60, "metadata": {"a": "b"}})
    assert status == 201
    made = json.loads(body)
    daemon = {
        "X-Access-Token": made["envdAccessToken"],
        "E2b-Sandbox-Id": made["sandboxID"],
        "E2b-Sandbox-Port": "49983",
    }
    return control, Wire(server.url, daemon), made["sandboxID"]


def envelopes(body: bytes) -> list[tuple[int, dict]]:
    """Takes a Connect stream apart."""
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        found.append((flags, json.loads(body[5 : 5 + size])))
        body = body[5 + size :]
    return found


def start(daemon: Wire, text: str, **headers: str) -> list[tuple[int, dict]]:
    """Runs a command, in the daemon's own words."""
    message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", text]}, "stdin": False}).encode()
    framed = struct.pack(">BI", 0, len(message)) + message
    status, body = daemon.ask(
        "POST", "/process.Process/Start", framed, Content_Type="application/connect+json", **headers
    )
    assert status == 200
    return envelopes(body)


def test_e2b_process_stream(e2b):
    """A command is a start, data in base64, an end whose code is left out if it is 0, and a last envelope with flag 2."""
    _, daemon, _ = e2b
    found = start(daemon, "echo out; echo err >&2; exit 3")
    assert (found[0][0], list(found[0][1]["event"])) == (0, ["start"])
    data = {k: base64.b64decode(v) for _, m in found[1:-2] for k, v in m["event"]["data"].items()}
    assert data == {"stdout": b"out\n", "stderr": b"err\n"}
    assert found[-2] == (0, {"event": {"end": {"exited": True, "status": "exit status 3", "exitCode": 3}}})
    assert found[-1] == (2, {})
    assert "exitCode" not in start(daemon, "true")[-2][1]["event"]["end"]


def test_e2b_deadline(e2b):
    """The deadline kills the first process alone, and ends the stream with an error."""
    _, daemon, _ = e2b
    found = start(daemon, "sleep 20", Connect_Timeout_Ms="300")
    assert found[-1] == (2, {"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}})


def test_e2b_refuses(e2b):
    """No key, another key, a field, a parameter or a path that does not exist, and a dead sandbox are each refused."""
    control, daemon, sandbox = e2b
    assert Wire(f"http://{control.address}", {}).ask("GET", f"/sandboxes/{sandbox}")[0] == 401
    assert control.ask("GET", f"/sandboxes/{sandbox}", X_API_KEY="other")[0] == 401
    assert control.ask("POST", "/v2/sandboxes", {"templateID": "base", "surprise": 1})[0] == 400
    assert control.ask("POST", "/v2/sandboxes", {"templateID": "no-such"})[0] == 404
    assert control.ask("POST", f"/sandboxes/{sandbox}/timeout", {"timeout": 10**9})[0] == 400
    assert daemon.ask("GET", "/files?path=/etc/hostname", X_Access_Token="other")[0] == 401
    assert daemon.ask("GET", "/files?path=no-such")[0] == 404
    assert daemon.ask("GET", "/files?path=.")[0] == 400
    assert daemon.ask("POST", "/filesystem.Filesystem/Stat", {"path": "x", "surprise": 1})[0] == 400
    assert control.ask("POST", f"/sandboxes/{sandbox}/pause", {})[0] == 204
    assert control.ask("POST", f"/sandboxes/{sandbox}/pause", {})[0] == 409
    assert daemon.ask("GET", "/health")[0] == 502
    assert control.ask("POST", f"/v2/sandboxes/{sandbox}/connect", {"timeout": 60})[0] == 201
    assert daemon.ask("GET", "/health")[0] == 204
    assert control.ask("DELETE", f"/sandboxes/{sandbox}")[0] == 204
    assert control.ask("DELETE", f"/sandboxes/{sandbox}")[0] == 404
    status, body = daemon.ask("GET", "/health")
    assert (status, "was not found" in json.loads(body)["message"]) == (502, True)


def test_e2b_files(e2b):
    """A file is written in place, its parents made, and read whole or in part."""
    _, daemon, _ = e2b
    status, body = daemon.ask("POST", "/files?path=d/f", b"0123456789", Content_Type="application/octet-stream")
    assert (status, json.loads(body)[0]["name"]) == (200, "f")
    assert daemon.ask("GET", "/files?path=d/f") == (200, b"0123456789")
    assert daemon.ask("GET", "/files?path=d/f", Range="bytes=2-4") == (206, b"234")


@pytest.fixture
def daytona(provider_of):
    """A sandbox of Daytona: the API and the toolbox, by hand."""
    server = provider_of("daytona").server
    wire = Wire(server.url, {"Authorization": "Bearer dtn_test_key"})
    status, body = wire.ask("POST", "/api/sandbox", {"labels": {"a": "b"}, "env": {}})
    assert status == 200
    return wire, json.loads(body)["id"]


def test_daytona_execute(daytona):
    """A command's streams come back merged, and a timeout loses what it printed."""
    wire, sandbox = daytona
    path = f"/toolbox/{sandbox}/process/execute"
    status, body = wire.ask("POST", path, {"command": "echo out; echo err >&2; echo $A; exit 3", "envs": {"A": "b"}})
    assert (status, json.loads(body)) == (200, {"exitCode": 3, "result": "out\nerr\nb\n"})
    status, body = wire.ask("POST", path, {"command": "echo lost; sleep 20", "timeout": 1})
    assert (status, json.loads(body)["code"]) == (408, "PROCESS_EXECUTION_TIMEOUT")
    # The text is the shell's standard input: a command that reads takes what follows.
    assert json.loads(wire.ask("POST", path, {"command": "cat\necho eaten"})[1])["result"] == "echo eaten\n"


def test_daytona_refuses(daytona):
    """No key, a field or a path that does not exist, a stopped and a dead sandbox are each refused, with the envelope."""
    wire, sandbox = daytona
    assert wire.ask("GET", f"/api/sandbox/{sandbox}", Authorization="Bearer other")[0] == 401
    assert wire.ask("POST", "/api/sandbox", {"surprise": 1})[0] == 400
    assert wire.ask("POST", f"/toolbox/{sandbox}/process/execute", {"command": "true", "timeout": 0.5})[0] == 400
    status, body = wire.ask("GET", f"/toolbox/{sandbox}/files/download?path=no-such")
    assert (status, json.loads(body)["code"], json.loads(body)["source"]) == (404, "FILE_NOT_FOUND", "DAYTONA_DAEMON")
    assert wire.ask("POST", f"/api/sandbox/{sandbox}/stop")[0] == 200
    assert wire.ask("POST", f"/toolbox/{sandbox}/process/execute", {"command": "true"})[0] == 400
    assert wire.ask("POST", f"/api/sandbox/{sandbox}/start")[0] == 200
    assert wire.ask("POST", f"/toolbox/{sandbox}/process/execute", {"command": "true"})[0] == 200
    assert wire.ask("DELETE", f"/api/sandbox/{sandbox}")[0] == 200
    status, body = wire.ask("POST", f"/toolbox/{sandbox}/process/execute", {"command": "true"})
    assert (status, json.loads(body)["source"]) == (404, "DAYTONA_PROXY")


def test_daytona_form_boundary(daytona):
    """The form of a bulk download has a fixed boundary, as the real daemon's: files that hold it need another way."""
    wire, sandbox = daytona
    wire.ask(
        "POST",
        f"/toolbox/{sandbox}/process/execute",
        {"command": "printf 'a\\r\\n--DAYTONA-FILE-BOUNDARY--\\r\\nb' > f"},
    )
    status, body = wire.ask("POST", f"/toolbox/{sandbox}/files/bulk-download", {"paths": ["f"]})
    assert (status, body.count(b"--DAYTONA-FILE-BOUNDARY--")) == (200, 2)
    whole = wire.ask("GET", f"/toolbox/{sandbox}/files/download?path=f")
    assert whole == (200, b"a\r\n--DAYTONA-FILE-BOUNDARY--\r\nb")
