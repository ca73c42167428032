"""A server that speaks E2B's protocols on 127.0.0.1: its control plane, and the daemons of its sandboxes.

Strict where a client could be wrong unnoticed: a request without the key, with a field or a parameter that does not
exist, or for a path that does not exist is refused. Start it with `--base DIR`; it prints its address as JSON.
"""

import json
import signal
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from e2b_envd import Envd
from sandbox_host import Host, Sandbox, answer, misbehave, run, scoped

KEY = "e2b_test_key"
LONGEST = 3600
"""Seconds that a sandbox may live, as on the smallest plan."""
ENVD_VERSION = "0.6.13"
_CREATE = {
    "templateID", "timeout", "autoPause", "autoPauseMemory", "autoResume", "allow_internet_access", "network",
    "metadata", "envVars", "mcp", "iam", "volumeMounts",
}  # fmt: skip


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Control:
    """The control plane."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.keys: dict[str, Sandbox] = {}
        self.quota: int | None = None

    def routes(self) -> list[web.RouteDef]:
        one = "/sandboxes/{id}"
        return [
            web.post("/v2/sandboxes", self._guarded(self.create)),
            web.get("/v2/sandboxes", self._guarded(self.list)),
            web.post("/v2/sandboxes/{id}/connect", self._guarded(self.connect)),
            web.get(one, self._guarded(self.info)),
            web.delete(one, self._guarded(self.kill)),
            web.post(one + "/timeout", self._guarded(self.timeout)),
            web.post(one + "/pause", self._guarded(self.pause)),
        ]

    def _guarded(self, call: Any) -> Any:
        async def handler(request: web.Request) -> web.StreamResponse:
            try:
                if "X-API-KEY" not in request.headers:
                    raise Refused(401, "no credentials found")
                if request.headers["X-API-KEY"] != KEY:
                    raise Refused(401, "invalid API key")
                return await call(request)
            except Refused as refused:
                told = {"code": refused.status, "message": refused.message}
                return answer(request, self.host, told, status=refused.status)

        return handler

    async def create(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, _CREATE, needed={"templateID"})
        if body["templateID"] not in ("base", "test-template"):
            raise Refused(404, f"template '{body['templateID']}' not found")
        for name in ("metadata", "envVars"):
            values = body.get(name, {})
            if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
                raise Refused(400, f"{name} must map strings to strings")
        seconds = self._seconds(body.get("timeout", 300))
        known = self.keys.get(request.headers.get("Idempotency-Key", ""))
        if known is not None and known.state != "gone":
            return answer(request, self.host, self._told(known), status=201)
        if request["fault"] is not None and request["fault"].kind == "quota":
            raise Refused(429, "you have reached the maximum number of concurrent E2B sandboxes (20)")
        sandbox = self.host.add(body.get("metadata", {}), body.get("envVars", {}), home="home/user")
        sandbox.ends = time.time() + seconds
        sandbox.extra = {"template": body["templateID"], "autoPause": body.get("autoPause", False)}
        if "Idempotency-Key" in request.headers:
            self.keys[request.headers["Idempotency-Key"]] = sandbox
        self.host.created.append(body)
        return answer(request, self.host, self._told(sandbox), status=201)

    def make(self, given: dict[str, Any]) -> dict[str, str]:
        """Makes a sandbox for a test that needs to know its folder beforehand."""
        sandbox = self.host.add(given.get("labels", {}), {}, home="home/user")
        sandbox.ends = time.time() + given.get("timeout", 300)
        sandbox.extra = {"template": "base", "autoPause": False}
        return {"id": sandbox.id, "home": str(sandbox.home)}

    async def connect(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, {"timeout", "memory"})
        sandbox = self._find(request, "Paused sandbox {} not found")
        ends = time.time() + self._seconds(body.get("timeout", 300))
        resumed = sandbox.state == "paused"
        if resumed:
            sandbox.state = "running"
            sandbox.ends = ends
            sandbox.signal_processes(signal.SIGCONT)
        sandbox.ends = max(sandbox.ends, ends)
        return answer(request, self.host, self._told(sandbox), status=201 if resumed else 200)

    async def info(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._find(request)
        return answer(request, self.host, self._listed(sandbox) | {"envdAccessToken": sandbox.token})

    async def list(self, request: web.Request) -> web.StreamResponse:
        unknown = set(request.query) - {"metadata", "state", "nextToken", "limit", "order", "template", "startedAt"}
        if unknown:
            raise Refused(400, f"unknown parameter {sorted(unknown)}")
        # Escaped twice by the SDK: as a query of its own, and each of its parts before that.
        wanted = {unquote(name): unquote(value) for name, value in parse_qsl(request.query.get("metadata", ""))}
        states = ",".join(request.query.getall("state", ["running", "paused"])).split(",")
        size = int(request.query.get("limit", 100))
        names = sorted(self.host.sandboxes)
        start = names.index(request.query["nextToken"]) if "nextToken" in request.query else 0
        found = [sandbox for name in names[start:] if (sandbox := self.host.find(name)) is not None]
        found = [s for s in found if s.state in states and wanted.items() <= s.labels.items()]
        headers = {"x-next-token": found[size].id} if len(found) > size else None
        return answer(request, self.host, [self._listed(s) for s in found[:size]], headers=headers)

    async def kill(self, request: web.Request) -> web.StreamResponse:
        self.host.remove(self._find(request))
        return web.Response(status=204)

    async def timeout(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, {"timeout"}, needed={"timeout"})
        sandbox = self._find(request)
        sandbox.ends = time.time() + self._seconds(body["timeout"])
        return web.Response(status=204)

    async def pause(self, request: web.Request) -> web.StreamResponse:
        await self._body(request, {"memory", "requireHealthyGuest"})
        sandbox = self._find(request)
        if sandbox.state == "paused":
            raise Refused(409, f"Sandbox {sandbox.id} is already paused")
        sandbox.signal_processes(signal.SIGSTOP)
        sandbox.state = "paused"
        sandbox.ends = 0.0
        return web.Response(status=204)

    async def _body(self, request: web.Request, allowed: set[str], needed: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
        data = await request.read()
        self.host.received += len(data)
        try:
            body = json.loads(data) if data else {}
        except ValueError:
            raise Refused(400, "the body is no JSON") from None
        if not isinstance(body, dict) or body.keys() - allowed or needed - body.keys():
            raise Refused(400, f"unknown or missing fields: {sorted(body)}")
        return body

    def _seconds(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Refused(400, f"timeout must be an integer, not {value!r}")
        if value > LONGEST:
            raise Refused(400, f"Timeout cannot be greater than {LONGEST // 3600} hours")
        return value

    def _find(self, request: web.Request, text: str = "sandbox {} not found") -> Sandbox:
        name = request.match_info["id"]
        sandbox = self.host.find(name)
        if sandbox is None:
            raise Refused(404, text.format(name))
        return sandbox

    def _told(self, sandbox: Sandbox) -> dict[str, Any]:
        return {
            "templateID": sandbox.extra["template"],
            "sandboxID": sandbox.id,
            "clientID": "test",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": sandbox.token,
        }

    def _listed(self, sandbox: Sandbox) -> dict[str, Any]:
        def iso(seconds: float) -> str:
            return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")

        return {
            "templateID": sandbox.extra["template"],
            "sandboxID": sandbox.id,
            "clientID": "test",
            "startedAt": iso(sandbox.started),
            "endAt": iso(sandbox.ends or sandbox.started),
            "cpuCount": 2,
            "memoryMB": 512,
            "diskSizeMB": 1024,
            "envdVersion": ENVD_VERSION,
            "state": sandbox.state,
            "metadata": sandbox.labels,
        }


def make_app(host: Host) -> web.Application:
    """Makes the application; both parts share one address, and tell themselves apart by paths."""
    app = web.Application(middlewares=[misbehave], client_max_size=1 << 30)
    control = Control(host)
    app.add_routes(scoped([*control.routes(), *Envd(host).routes()]))
    app["make"] = control.make
    return app


if __name__ == "__main__":
    run(make_app)
