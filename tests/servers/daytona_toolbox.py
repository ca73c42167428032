"""The daemon inside a Daytona sandbox: its toolbox of files and processes, as told of version 0.190.

A command is written to the standard input of the first of zsh, bash and sh; both its streams come back as one text when it
has ended; a timeout kills its process group, and what it printed is gone. Files are written in place.
"""

import asyncio
import json
import os
import shutil
import signal
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import BodyPartReader, web
from sandbox_host import Host, Reply, Sandbox, abort, answer, spawn

BOUNDARY = "DAYTONA-FILE-BOUNDARY"
DAEMON = "DAYTONA_DAEMON"


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, code: str = "", source: str = DAEMON) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.source = status, message, code, source


def refusal(request: web.Request, host: Host, refused: Refused) -> web.StreamResponse:
    """Answers an error in the provider's envelope."""
    told = {
        "statusCode": refused.status,
        "message": refused.message,
        "code": refused.code,
        "source": refused.source,
        "timestamp": datetime.now(UTC).isoformat(),
        "path": request.path,
        "method": request.method,
    }
    return answer(request, host, told, status=refused.status)


class Toolbox:
    """The daemons of all sandboxes of a server."""

    def __init__(self, host: Host, key: str) -> None:
        self.host, self.key = host, key

    def routes(self) -> list[web.RouteDef]:
        base = "/toolbox/{id}"
        return [
            web.get(base + "/work-dir", self._guarded(self.work_dir)),
            web.get(base + "/user-home-dir", self._guarded(self.work_dir)),
            web.get(base + "/files", self._guarded(self.list_files)),
            web.delete(base + "/files", self._guarded(self.delete)),
            web.get(base + "/files/info", self._guarded(self.info)),
            web.get(base + "/files/download", self._guarded(self.download)),
            web.post(base + "/files/bulk-download", self._guarded(self.bulk_download)),
            web.post(base + "/files/bulk-upload", self._guarded(self.bulk_upload)),
            web.post(base + "/files/folder", self._guarded(self.folder)),
            web.post(base + "/files/move", self._guarded(self.move)),
            web.post(base + "/process/execute", self._guarded(self.execute)),
        ]

    def _guarded(self, call: Any) -> Any:
        async def handler(request: web.Request) -> web.StreamResponse:
            try:
                if request.headers.get("Authorization") != f"Bearer {self.key}":
                    raise Refused(401, "unauthorized", "UNAUTHORIZED", "DAYTONA_PROXY")
                sandbox = self.host.find(request.match_info["id"])
                if sandbox is None:
                    raise Refused(404, "sandbox not found", "NOT_FOUND", "DAYTONA_PROXY")
                if sandbox.state != "running":
                    raise Refused(400, "bad request: sandbox is not running", "BAD_REQUEST", "DAYTONA_PROXY")
                sandbox.extra["touched"]()
                return await call(request, sandbox)
            except Refused as refused:
                return refusal(request, self.host, refused)

        return handler

    async def work_dir(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        return answer(request, self.host, {"dir": str(sandbox.home)})

    # ---- files -----------------------------------------------------------------------------------------------------

    async def download(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        path = self._path(request, sandbox)
        with self._opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            reply = Reply(
                request,
                self.host,
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(size),
                    "Content-Disposition": f"attachment; filename*=utf-8''{quote(os.path.basename(path))}",
                },
            )
            async with reply:
                await self._copy(request, file, size, reply)
        return reply.response

    async def _copy(self, request: web.Request, file: Any, size: int, reply: Reply) -> None:
        while size:
            data = file.read(min(256 << 10, size))
            if not data:
                abort(request)  # the file shrank: the announced length cannot be kept
                raise ConnectionResetError
            await reply.write(data)
            size -= len(data)

    def _opened(self, path: str) -> Any:
        try:
            kind = os.stat(path).st_mode
            if stat.S_ISDIR(kind):
                raise Refused(400, f"path must be a file, not a directory: {path}", "INVALID_FILE_PATH")
            if not stat.S_ISREG(kind):
                raise Refused(400, f"not a regular file: {path}", "INVALID_FILE_PATH")
            return open(path, "rb")
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(404, f"file not found: {path}", "FILE_NOT_FOUND") from None
        except PermissionError:
            raise Refused(403, f"permission denied: {path}", "FILE_ACCESS_DENIED") from None

    async def bulk_download(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        body = await self._body(request, {"paths"})
        form = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        reply = Reply(request, self.host, headers=form)
        async with reply:
            for given in body["paths"]:
                path = self._joined(sandbox, given)
                name = f"filename=\"{os.path.basename(path)}\"; filename*=utf-8''{quote(given)}"
                try:
                    file = self._opened(path)
                except Refused as refused:
                    part = json.dumps({"message": refused.message, "statusCode": refused.status}).encode()
                    await self._part(reply, "error", name, "application/json", part)
                    continue
                with file:
                    size = os.fstat(file.fileno()).st_size
                    await self._part(reply, "file", name, "application/octet-stream", None, size)
                    await self._copy(request, file, size, reply)
                await reply.write(b"\r\n")
            await reply.write(f"--{BOUNDARY}--\r\n".encode())
        return reply.response

    async def _part(
        self, reply: Reply, kind: str, name: str, form: str, data: bytes | None, size: int | None = None
    ) -> None:
        length = f"Content-Length: {size}\r\n" if size is not None else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{kind}"; {name}\r\nContent-Type: {form}\r\n{length}\r\n'
        await reply.write(head.encode())
        if data is not None:
            await reply.write(data + b"\r\n")

    async def bulk_upload(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        form = await request.multipart()
        path, done, errors = "", [], []
        while (part := await form.next()) is not None:
            if not isinstance(part, BodyPartReader):
                raise Refused(400, "nested form", "BAD_REQUEST")
            if part.name and part.name.endswith(".path"):
                path = (await part.read()).decode()
                continue
            if request["fault"] is not None and request["fault"].kind == "full":
                while data := await part.read_chunk(256 << 10):
                    self.host.received += len(data)
                errors.append(f"{path}: write: no space left on device")
                continue
            try:
                done.append(
                    {"path": path, "bytes": await self._store(request, part, self._joined(sandbox, path, True))}
                )
            except OSError as error:
                await part.release()
                errors.append(f"{path}: create: open {path}: {(error.strerror or '').lower()}")
        if errors:
            return answer(request, self.host, {"errors": errors, "files": done}, status=400)
        return answer(request, self.host, {"files": done})

    async def _store(self, request: web.Request, part: BodyPartReader, path: str) -> int:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "wb") as file:
            while data := await part.read_chunk(256 << 10):
                self.host.received += len(data)
                file.write(data)
                fault = request["fault"]
                if fault is not None and fault.kind == "cut_upload" and file.tell() >= fault.spec.get("after", 0):
                    abort(request)
                    raise ConnectionResetError
            return file.tell()

    async def info(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        return answer(request, self.host, self._told(self._path(request, sandbox)))

    async def list_files(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        path = self._path(request, sandbox, {"path", "depth"})
        self._told(path)
        if not os.path.isdir(path):
            raise Refused(400, f"not a directory: {path}", "INVALID_FILE_PATH")
        return answer(request, self.host, [self._told(os.path.join(path, name)) for name in sorted(os.listdir(path))])

    async def delete(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        path = self._path(request, sandbox, {"path", "recursive"}, writing=True)
        self._told(path)
        if os.path.isdir(path):
            if request.query.get("recursive") != "true":
                raise Refused(400, "cannot delete directory without recursive flag", "BAD_REQUEST")
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return web.Response(status=204)

    async def folder(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        path = self._path(request, sandbox, {"path", "mode"}, writing=True)
        os.makedirs(path, mode=int(request.query["mode"], 8), exist_ok=True)
        return web.Response(status=201)

    async def move(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        source = self._joined(sandbox, request.query["source"], True)
        target = self._joined(sandbox, request.query["destination"], True)
        self._told(source)
        if os.path.exists(target):
            raise Refused(409, "destination already exists", "CONFLICT")
        os.rename(source, target)
        return web.Response(status=200)

    def _told(self, path: str) -> dict[str, Any]:
        try:
            info = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(404, f"file not found: {path}", "FILE_NOT_FOUND") from None
        return {
            "name": os.path.basename(path),
            "isDir": stat.S_ISDIR(info.st_mode),
            "size": info.st_size,
            "mode": stat.filemode(info.st_mode),
            "permissions": f"{stat.S_IMODE(info.st_mode):04o}",
            "owner": str(info.st_uid),
            "group": str(info.st_gid),
            "modTime": datetime.fromtimestamp(info.st_mtime, UTC).isoformat(),
        }

    def _path(
        self,
        request: web.Request,
        sandbox: Sandbox,
        allowed: set[str] = frozenset({"path"}),  # type: ignore[assignment]
        *,
        writing: bool = False,
    ) -> str:
        if set(request.query) - allowed:
            raise Refused(400, f"unknown parameter {sorted(set(request.query) - allowed)}", "BAD_REQUEST")
        if not request.query.get("path"):
            raise Refused(400, "path is required", "BAD_REQUEST")
        return self._joined(sandbox, request.query["path"], writing)

    def _joined(self, sandbox: Sandbox, path: str, writing: bool = False) -> str:
        path = os.path.normpath(os.path.join(sandbox.home, path))
        if writing and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(sandbox.folder)):
            # Not the daemon's rule but this server's: its sandboxes have no walls, and tests must not need any.
            raise Refused(403, f"the test server does not write to {path}", "FILE_ACCESS_DENIED")
        return path

    # ---- processes -------------------------------------------------------------------------------------------------

    async def execute(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        body = await self._body(request, {"command", "cwd", "envs", "timeout"})
        seconds = body.get("timeout")
        if not isinstance(body.get("command"), str) or not body["command"].strip():
            raise Refused(400, "command is required", "BAD_REQUEST")
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)):
            raise Refused(400, "timeout must be an integer", "BAD_REQUEST")
        self.host.longest_command = max(self.host.longest_command, len(body["command"]))
        fault = request["fault"]
        if fault is not None and fault.kind == "execution_timeout":
            raise Refused(408, "command execution timeout", "PROCESS_EXECUTION_TIMEOUT")
        cwd = self._joined(sandbox, body.get("cwd") or "")
        if not os.path.isdir(cwd):
            told = {"exitCode": -1, "result": f"fork/exec: chdir {cwd}: no such file or directory"}
            return answer(request, self.host, told)
        shell = next(s for s in ("/usr/bin/zsh", "/bin/bash", "/bin/sh") if os.path.exists(s))
        process = await spawn(
            sandbox,
            [shell],
            cwd=cwd,
            variables=sandbox.variables() | (body.get("envs") or {}),
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            group=True,
        )
        if fault is not None and fault.kind == "ignore_timeout":
            seconds = None
        # Shielded: a client that goes away stops nothing.
        return await asyncio.shield(asyncio.ensure_future(self._finish(request, process, body["command"], seconds)))

    async def _finish(
        self, request: web.Request, process: asyncio.subprocess.Process, command: str, seconds: int | None
    ) -> web.StreamResponse:
        try:
            async with asyncio.timeout(seconds or None):
                output, _ = await process.communicate(command.encode() + b"\n")
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise Refused(408, "command execution timeout", "PROCESS_EXECUTION_TIMEOUT") from None
        code = process.returncode or 0
        result = output.decode("utf-8", "replace")
        fault = request["fault"]
        if fault is not None and fault.kind == "noise":
            result = fault.spec["text"] + result
        return answer(request, self.host, {"exitCode": code if code >= 0 else -1, "result": result})

    async def _body(self, request: web.Request, allowed: set[str]) -> dict[str, Any]:
        data = await request.read()
        self.host.received += len(data)
        try:
            body = json.loads(data)
        except ValueError:
            raise Refused(400, "the body is no JSON", "BAD_REQUEST") from None
        if not isinstance(body, dict) or body.keys() - allowed:
            raise Refused(400, f"unknown fields: {sorted(body)}", "BAD_REQUEST")
        return body
