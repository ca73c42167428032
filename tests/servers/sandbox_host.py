"""What the test servers of both sandbox providers share: sandboxes with real processes and files, faults, counters.

A server runs as a process of its own, so that its memory is not the client's, and ends when its standard input does.
Every process of a sandbox carries a mark that survives new sessions, double forks and cleared variables: its limit of
POSIX message queues. By it a sandbox is killed, and what a test left running is found.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import re
import resource
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

FIRST_MARK = 500_000
USER = 1000
"""The user of commands, where the server runs as root: a sandbox's user is not root either."""


@dataclass
class Sandbox:
    """One sandbox: a folder, a mark, and when it ends."""

    id: str
    mark: int
    folder: Path
    home: Path
    labels: dict[str, str]
    envs: dict[str, str]
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    state: str = "running"
    ends: float = 0.0
    started: float = field(default_factory=time.time)
    extra: dict[str, Any] = field(default_factory=dict)
    idle_after: float = 0.0
    idle: Callable[[], None] = lambda: None

    def processes(self) -> list[int]:
        """Returns the living processes that carry the mark."""
        return [pid for pid, mark in marked_processes() if mark == self.mark]

    def variables(self) -> dict[str, str]:
        """Returns what a process of the sandbox finds in its environment: nothing of the server's own."""
        return {
            "PATH": os.environ.get("STEAD_TEST_PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
            "USER": "user",
            "LANG": "C.UTF-8",
            **self.envs,
        }

    def kill_processes(self) -> None:
        """Ends every process, as the end of a machine does."""
        for _ in range(50):
            found = self.processes()
            if not found:
                return
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def signal_processes(self, number: int) -> None:
        """Stops or continues every process, as pausing a machine does."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def marked_processes() -> list[tuple[int, int]]:
    """Returns pid and mark of all living processes that have one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            limits = Path("/proc", entry, "limits").read_text()
            state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        match = re.search(r"Max msgqueue size\s+(\d+)", limits)
        if match and FIRST_MARK <= int(match[1]) < 819_200 and state not in "ZX":
            found.append((int(entry), int(match[1])))
    return found


class Fault:
    """One misbehaviour, for requests whose `METHOD path` matches."""

    def __init__(self, spec: dict[str, Any]) -> None:
        known = {"route", "kind", "times", "skip", "after", "status", "headers", "body", "seconds", "text"}
        if spec.keys() - known:
            raise ValueError(f"unknown keys of a fault: {sorted(spec.keys() - known)}")
        self.route = re.compile(spec.get("route", ""))
        self.kind: str = spec["kind"]
        self.left: int = spec.get("times", 1)
        self.skip: int = spec.get("skip", 0)
        self.spec = spec

    def takes(self, what: str) -> bool:
        if not self.left or not self.route.search(what):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.left -= 1
        return True


class Host:
    """The sandboxes of one server, and how it misbehaves."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.sandboxes: dict[str, Sandbox] = {}
        self.faults: list[Fault] = []
        self.scopes: dict[str, list[Fault]] = {}
        self.chaos: tuple[random.Random, float, list[dict[str, Any]]] | None = None
        self.calls: dict[str, int] = {}
        self.sent = self.received = 0
        self.open_streams = 0
        self.minute = 60.0
        self.longest_command = 0
        self.struck = 0
        self.created: list[dict[str, Any]] = []
        self._marks = iter(range(FIRST_MARK + 1000 * (os.getpid() % 300), 819_200))

    def add(self, labels: dict[str, str], envs: dict[str, str], *, home: str) -> Sandbox:
        name = "i" + secrets.token_hex(9)
        folder = self.base / name
        sandbox = Sandbox(name, next(self._marks), folder, folder / home, labels, envs)
        for made in (folder, folder / "tmp", sandbox.home):
            made.mkdir(parents=True)
            give_to_user(made)
        for parent in sandbox.home.relative_to(folder).parents:
            give_to_user(folder / parent)
        self.sandboxes[name] = sandbox
        return sandbox

    def living(self) -> list[Sandbox]:
        """Returns those that are not gone: to end one means looking at every process, so none is ended twice."""
        return [sandbox for sandbox in self.sandboxes.values() if sandbox.state != "gone"]

    def remove(self, sandbox: Sandbox) -> None:
        sandbox.state = "gone"
        sandbox.kill_processes()
        shutil.rmtree(sandbox.folder, ignore_errors=True)

    def find(self, name: str) -> Sandbox | None:
        sandbox = self.sandboxes.get(name)
        if sandbox is not None and sandbox.state == "running" and sandbox.ends and time.time() > sandbox.ends:
            self.remove(sandbox)
        if (
            sandbox is not None
            and sandbox.state == "running"
            and sandbox.idle_after
            and time.time() > sandbox.idle_after
        ):
            sandbox.idle()
        return None if sandbox is None or sandbox.state == "gone" else sandbox

    def fault(self, what: str, scope: str) -> Fault | None:
        for fault in self.scopes.get(scope, []) if scope else self.faults:
            if fault.takes(what):
                return fault
        if self.chaos is not None and not scope:
            dice, chance, kinds = self.chaos
            if dice.random() < chance:
                fitting = [kind for kind in kinds if re.search(kind["route"], what)]
                if fitting:
                    self.struck += 1
                    return Fault(dice.choice(fitting))
        return None

    async def expire(self) -> None:
        """Ends sandboxes at their time, also when nobody asks for them."""
        while True:
            await asyncio.sleep(0.1)
            for name in list(self.sandboxes):
                self.find(name)


def give_to_user(path: Path) -> None:
    """Hands a path to the sandbox's user, where the server is root."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER)


def become_user(base: Path) -> None:
    """Makes this server, where it is root, the sandboxes' user for good: its own access to files is the user's."""
    if os.geteuid() == 0:
        os.chown(base, USER, USER)
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)


async def spawn(
    sandbox: Sandbox, argv: list[str], *, cwd: str, variables: dict[str, str], stdin: int, stderr: int, group: bool
) -> asyncio.subprocess.Process:
    """Starts a process of a sandbox: marked, as its user, with nothing of the server's variables."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (sandbox.mark, sandbox.mark))
        if group:
            os.setpgid(0, 0)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)

    return await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=variables,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        preexec_fn=prepare,
        limit=1 << 16,
    )


class Reply:
    """A response body that is counted, and in which the request's fault may strike."""

    def __init__(self, request: web.Request, host: Host, *, status: int = 200, headers: dict[str, str] | None = None):
        self.request, self.host = request, host
        self.fault: Fault | None = request.get("fault")
        self.response = web.StreamResponse(status=status, headers=headers)
        self.sent = 0

    async def __aenter__(self) -> Self:
        self.host.open_streams += 1
        await self.response.prepare(self.request)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.host.open_streams -= 1
        if kind is None:
            await self.response.write_eof()

    async def write(self, data: bytes) -> None:
        kind = self.fault.kind if self.fault else ""
        if self.fault and kind in ("cut", "eof", "stall_body"):
            left = self.fault.spec.get("after", 0) - self.sent
            if len(data) > left:
                await self._send(data[: max(0, left)])
                await self._strike(kind)
                return
        await self._send(data)

    async def _strike(self, kind: str) -> None:
        if kind == "stall_body":
            await asyncio.sleep(self.fault.spec.get("seconds", 3600) if self.fault else 0)
        if kind == "eof" and self.response.content_length is None:
            raise _EndEarly
        abort(self.request)
        raise ConnectionResetError

    async def _send(self, data: bytes) -> None:
        if data:
            await self.response.write(data)
            self.sent += len(data)
            self.host.sent += len(data)


class _EndEarly(Exception):
    """The body ends here, as if that were all."""


def abort(request: web.Request) -> None:
    """Breaks the connection."""
    if request.transport is not None:
        request.transport.abort()


def scoped(routes: list[web.RouteDef]) -> list[web.RouteDef]:
    """Adds each route once more below `/_fault/NAME`, where only the faults of that name strike."""
    return routes + [web.route(r.method, "/_fault/{scope}" + r.path, r.handler) for r in routes]


def prefix(request: web.Request) -> str:
    """Returns how the addresses begin that the server tells to this client."""
    scope = request.match_info.get("scope")
    return f"{request.app['url']}/_fault/{scope}" if scope else str(request.app["url"])


def answer(request: web.Request, host: Host, value: Any, *, status: int = 200, headers: dict[str, str] | None = None):
    """Answers JSON, counted."""
    body = b"" if value is None else json.dumps(value).encode()
    host.sent += len(body)
    kind = None if value is None else "application/json"
    return web.Response(status=status, body=body or None, content_type=kind, headers=headers)


@web.middleware
async def misbehave(request: web.Request, handler: Any) -> web.StreamResponse:
    """Counts each request, and lets a fault that is due strike before or after it."""
    host: Host = request.app["host"]
    if request.path.startswith("/_test/"):
        return await handler(request)
    scope = request.match_info.get("scope", "")
    what = f"{request.method} {request.path.removeprefix(f'/_fault/{scope}')}"
    host.calls[what] = host.calls.get(what, 0) + 1
    fault = host.fault(what, scope)
    request["fault"] = fault
    kind = fault.kind if fault else ""
    if fault and kind == "status":
        await request.read()
        body = fault.spec.get("body", {"code": fault.spec["status"], "message": "the test said so"})
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        form = "text/html" if isinstance(body, str) else "application/json"
        return web.Response(
            status=fault.spec["status"], body=content, content_type=form, headers=fault.spec.get("headers")
        )
    if fault and kind in ("stall", "slow"):
        await asyncio.sleep(fault.spec.get("seconds", 3600))
    if kind == "drop":
        abort(request)
        raise ConnectionResetError
    try:
        response = await handler(request)
    except _EndEarly:
        return web.Response()
    if kind == "lose_reply":
        abort(request)
        raise ConnectionResetError
    # A body that a handler streams is cut while it is sent; one that it returns whole is cut here.
    if kind == "cut" and isinstance(response, web.Response) and isinstance(response.body, bytes):
        length = {"Content-Length": str(len(response.body)), "Content-Type": "application/json"}
        async with Reply(request, host, status=response.status, headers=length) as reply:
            await reply.write(response.body)
    return response


async def _admin(request: web.Request) -> web.Response:
    host: Host = request.app["host"]
    given = await request.json() if request.can_read_body else {}
    if request.match_info["action"] == "make":
        make: Any = request.app["make"]
        return web.json_response(make(given))
    _act(host, request.match_info["action"], given)
    return web.json_response(_state(host))


def _act(host: Host, action: str, given: Any) -> None:
    if action == "faults":
        host.faults = [Fault(spec) for spec in given]
    elif action == "scope":
        host.scopes[given["name"]] = [Fault(spec) for spec in given["faults"]]
    elif action == "chaos":
        kinds = given.get("kinds", [])
        host.chaos = (random.Random(given.get("seed", 0)), given["chance"], kinds) if kinds else None
    elif action == "expire":
        for sandbox in host.living():
            if given.get("sandbox", sandbox.id) == sandbox.id:
                host.remove(sandbox)
    elif action == "minute":
        host.minute = given["seconds"]
    elif action == "reset":
        host.minute = 60.0
        host.faults, host.chaos, host.calls, host.created = [], None, {}, []
        host.sent = host.received = host.longest_command = host.struck = 0
    elif action != "state":
        raise web.HTTPNotFound


def _state(host: Host) -> dict[str, Any]:
    living = marked_processes()
    names: dict[int, list[int]] = {}
    for pid, mark in living:
        names.setdefault(mark, []).append(pid)
    return {
        "sandboxes": {
            s.id: {
                "state": s.state,
                "labels": s.labels,
                "home": str(s.home),
                "folder": str(s.folder),
                "left": s.ends - time.time() if s.ends else None,
                "processes": names.get(s.mark, []),
                **{name: value for name, value in s.extra.items() if not callable(value)},
            }
            for s in host.sandboxes.values()
        },
        "calls": host.calls,
        "created": host.created,
        "sent": host.sent,
        "received": host.received,
        "open_streams": host.open_streams,
        "struck": host.struck,
        "longest_command": host.longest_command,
        "faults": [fault.spec for fault in host.faults if fault.left],
    }


async def _until_parent_ends() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def _serve(app: web.Application, host: Host) -> None:
    app["host"] = host
    app.router.add_post("/_test/{action}", _admin)
    # Longer than any client keeps an idle connection, so that a request never meets a connection that is closing.
    runner = web.AppRunner(app, keepalive_timeout=600, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    app["url"] = f"http://127.0.0.1:{port}"
    expiry = asyncio.create_task(host.expire())
    print(json.dumps({"url": app["url"]}), flush=True)
    try:
        await _until_parent_ends()
    finally:
        expiry.cancel()
        for sandbox in host.living():
            host.remove(sandbox)
        # Handlers that stall would hold the runner's own shutdown; nobody waits for them any more.
        os._exit(0)


def run(make_app: Any) -> None:
    """Serves until standard input ends.

    Args:
        make_app: Makes the application from its host.
    """
    # Clients that go away, and connections that are broken on purpose, are nothing to report.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path, required=True)
    base: Path = parser.parse_args().base.resolve()
    base.mkdir(parents=True, exist_ok=True)
    host = Host(base)
    asyncio.run(_serve(make_app(host), host))
