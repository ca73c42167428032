"""A server that speaks Daytona's protocols on 127.0.0.1: its API, and the toolboxes of its sandboxes.

Strict where a client could be wrong unnoticed: a request without the key, with a field or a parameter that does not exist,
or for a path that does not exist is refused. There is no event socket, as behind a proxy that lets none through. Start it
with `--base DIR`; it prints its address as JSON. As root it becomes the sandboxes' user: so does the daemon.
"""

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from daytona_toolbox import Refused, Toolbox, refusal
from sandbox_host import Host, Sandbox, answer, become_user, misbehave, prefix, run, scoped

KEY = "dtn_test_key"
API = "DAYTONA_API"
_CREATE = {
    "name", "snapshot", "user", "env", "labels", "public", "networkBlockAll", "networkAllowList", "target", "cpu",
    "gpu", "memory", "disk", "autoStopInterval", "autoArchiveInterval", "autoDeleteInterval", "ttlMinutes", "volumes",
    "buildInfo", "autoPauseInterval", "secrets", "kvm", "spot", "queueTimeout", "gpuType", "linkedSandbox",
    "domainAllowList", "outboundProxyUrl", "otelEndpointOverride",
}  # fmt: skip


class Api:
    """The control plane."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.touches = 0

    def routes(self) -> list[web.RouteDef]:
        one = "/api/sandbox/{id}"
        return [
            web.post("/api/sandbox", self._guarded(self.create)),
            web.get("/api/sandbox", self._guarded(self.list)),
            web.get(one, self._guarded(self.get)),
            web.delete(one, self._guarded(self.delete)),
            web.post(one + "/start", self._guarded(self.start)),
            web.post(one + "/stop", self._guarded(self.stop)),
            web.post(one + "/autostop/{minutes}", self._guarded(self.autostop)),
            web.post(one + "/autodelete/{minutes}", self._guarded(self.autodelete)),
            web.post(one + "/last-activity", self._guarded(self.activity)),
        ]

    def _guarded(self, call: Any) -> Any:
        async def handler(request: web.Request) -> web.StreamResponse:
            try:
                if request.headers.get("Authorization") != f"Bearer {KEY}":
                    raise Refused(401, "Invalid credentials", "UNAUTHORIZED", API)
                return await call(request)
            except Refused as refused:
                return refusal(request, self.host, refused)

        return handler

    async def create(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        body = json.loads(data)
        given = {name: value for name, value in body.items() if value is not None}
        if given.keys() - _CREATE:
            raise Refused(400, f"unknown fields: {sorted(given.keys() - _CREATE)}", "BAD_REQUEST", API)
        if given.get("snapshot", "default") not in ("default", "test-snapshot"):
            raise Refused(404, f"Snapshot {given['snapshot']} not found", "NOT_FOUND", API)
        if request["fault"] is not None and request["fault"].kind == "quota":
            raise Refused(403, "Total disk quota exceeded (30GB > 30GB)", "FORBIDDEN", API)
        sandbox = self._add(given.get("labels", {}), given.get("env", {}), given.get("autoStopInterval", 15))
        sandbox.extra |= {"target": given.get("target", "us"), "ephemeral": given.get("autoDeleteInterval") == 0}
        self.host.created.append(given)
        fault = request["fault"]
        if fault is not None and fault.kind == "lost_start":
            raise Refused(504, "gateway timeout", "GATEWAY_TIMEOUT", API)
        if fault is not None and fault.kind == "slow_start":
            sandbox.state = "starting"
            asyncio.get_running_loop().call_later(fault.spec.get("seconds", 0.5), self._started, sandbox)
        return answer(request, self.host, self._told(request, sandbox))

    def make(self, given: dict[str, Any]) -> dict[str, str]:
        """Makes a sandbox for a test that needs to know its folder beforehand."""
        sandbox = self._add(given.get("labels", {}), {}, 15)
        return {"id": sandbox.id, "home": str(sandbox.home)}

    def _add(self, labels: dict[str, str], envs: dict[str, str], minutes: float) -> Sandbox:
        sandbox = self.host.add(labels, envs, home="home/daytona")

        def touch() -> None:
            sandbox.idle_after = (
                time.time() + self.host.minute * sandbox.extra["autostop"] if sandbox.extra["autostop"] else 0.0
            )

        sandbox.extra = {"autostop": minutes, "target": "us", "touched": touch, "ephemeral": False}
        sandbox.idle = lambda: self._halt(sandbox)
        touch()
        return sandbox

    def _started(self, sandbox: Sandbox) -> None:
        if sandbox.state == "starting":
            sandbox.state = "running"

    async def get(self, request: web.Request) -> web.StreamResponse:
        return answer(request, self.host, self._told(request, self._find(request)))

    async def list(self, request: web.Request) -> web.StreamResponse:
        if set(request.query) - {"labels", "cursor", "limit"}:
            raise Refused(400, f"unknown parameter {sorted(request.query)}", "BAD_REQUEST", API)
        wanted = json.loads(request.query.get("labels", "{}"))
        size = int(request.query.get("limit", 100))
        names = sorted(self.host.sandboxes)
        start = names.index(request.query["cursor"]) if "cursor" in request.query else 0
        found = [sandbox for name in names[start:] if (sandbox := self.host.find(name)) is not None]
        found = [s for s in found if wanted.items() <= s.labels.items()]
        more = found[size].id if len(found) > size else None
        items = [self._told(request, s) for s in found[:size]]
        return answer(request, self.host, {"items": items, "nextCursor": more})

    async def delete(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._find(request)
        told = self._told(request, sandbox) | {"state": "destroyed"}
        self.host.remove(sandbox)
        return answer(request, self.host, told)

    async def start(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._find(request)
        sandbox.state = "running"
        sandbox.extra["touched"]()
        return answer(request, self.host, self._told(request, sandbox))

    async def stop(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._find(request)
        self._halt(sandbox)
        return answer(request, self.host, self._told(request, sandbox))

    def _halt(self, sandbox: Sandbox) -> None:
        # Files stay, processes do not; an ephemeral sandbox does not stay either.
        sandbox.state = "stopped"
        sandbox.idle_after = 0.0
        sandbox.kill_processes()
        if sandbox.extra["ephemeral"]:
            self.host.remove(sandbox)

    async def autostop(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._find(request)
        sandbox.extra["autostop"] = float(request.match_info["minutes"])
        sandbox.extra["touched"]()
        return answer(request, self.host, self._told(request, sandbox))

    async def autodelete(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._find(request)
        sandbox.extra["ephemeral"] = float(request.match_info["minutes"]) == 0
        return answer(request, self.host, self._told(request, sandbox))

    async def activity(self, request: web.Request) -> web.StreamResponse:
        self._find(request).extra["touched"]()
        return web.Response(status=201)

    def _find(self, request: web.Request) -> Sandbox:
        name = request.match_info["id"]
        sandbox = self.host.find(name)
        if sandbox is None:
            raise Refused(404, f"Sandbox with ID or name {name} not found", "NOT_FOUND", API)
        return sandbox

    def _told(self, request: web.Request, sandbox: Sandbox) -> dict[str, Any]:
        started = datetime.fromtimestamp(sandbox.started, UTC).isoformat().replace("+00:00", "Z")
        return {
            "id": sandbox.id,
            "organizationId": "org",
            "name": sandbox.id,
            "snapshot": "default",
            "user": "daytona",
            "env": sandbox.envs,
            "labels": sandbox.labels,
            "public": False,
            "networkBlockAll": False,
            "kvm": False,
            "target": sandbox.extra["target"],
            "cpu": 1,
            "gpu": 0,
            "memory": 1,
            "disk": 3,
            "state": {"running": "started"}.get(sandbox.state, sandbox.state),
            "autoStopInterval": sandbox.extra["autostop"],
            "autoDeleteInterval": 0 if sandbox.extra["ephemeral"] else -1,
            "createdAt": started,
            "toolboxProxyUrl": f"{prefix(request)}/toolbox",
        }


def make_app(host: Host) -> web.Application:
    """Makes the application; both parts share one address, and tell themselves apart by paths."""
    become_user(host.base)
    app = web.Application(middlewares=[misbehave], client_max_size=1 << 30)
    api = Api(host)
    app.add_routes(scoped([*api.routes(), *Toolbox(host, KEY).routes()]))
    app["make"] = api.make
    return app


if __name__ == "__main__":
    run(make_app)
