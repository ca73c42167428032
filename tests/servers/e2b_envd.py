"""The daemon inside an E2B sandbox: files over HTTP, processes and the file system over Connect.

Behaviour as told in envd 0.6: files are read and written as root, in place; a command runs as the user, by
`/bin/bash -l -c`; its deadline kills the first process alone; a client that goes away stops nothing.
"""

import asyncio
import base64
import contextlib
import os
import pwd
import shutil
import signal
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web
from e2b_connect import ConnectError, EventStream, stream_message, unary_error, unary_message
from sandbox_host import Host, Reply, Sandbox, abort, answer, give_to_user, spawn

CHUNK = 32 << 10
RETAINED = 30.0


class Process:
    """One started process and those who listen to it."""

    def __init__(self, process: asyncio.subprocess.Process, config: dict[str, Any]) -> None:
        self.process, self.config = process, config
        self.listeners: set[asyncio.Queue[dict[str, Any] | ConnectError]] = set()
        self.end: dict[str, Any] | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    async def drain(self, name: str, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(CHUNK):
            for queue in self.listeners:
                await queue.put({"event": {"data": {name: base64.b64encode(data).decode()}}})

    async def finish(self, drains: list[asyncio.Task[None]]) -> None:
        # As the daemon does: the end is told when the pipes are at theirs, whoever holds them.
        await asyncio.gather(*drains)
        code = await self.process.wait()
        killed = code < 0
        end: dict[str, Any] = {"exited": not killed, "status": f"exit status {code}"}
        if code > 0:
            end["exitCode"] = code
        if killed:
            text = f"signal: {signal.strsignal(-code) or -code}".lower()
            end |= {"exitCode": -1, "status": text, "error": text}
        self.end = {"event": {"end": end}}
        for queue in self.listeners:
            await queue.put(self.end)


class Envd:
    """The daemons of all sandboxes of a server."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.running: dict[tuple[str, int], Process] = {}

    def routes(self) -> list[web.RouteDef]:
        calls = {
            "/process.Process/Start": self.start,
            "/process.Process/Connect": self.connect,
            "/process.Process/List": self.list_processes,
            "/process.Process/SendSignal": self.send_signal,
            "/process.Process/SendInput": self.send_input,
            "/process.Process/CloseStdin": self.close_stdin,
            "/filesystem.Filesystem/Stat": self.stat,
            "/filesystem.Filesystem/ListDir": self.list_dir,
            "/filesystem.Filesystem/MakeDir": self.make_dir,
            "/filesystem.Filesystem/Move": self.move,
            "/filesystem.Filesystem/Remove": self.remove,
        }
        rpcs = [web.post(path, self._guarded(call)) for path, call in calls.items()]
        return [
            web.get("/health", self._guarded(self.health)),
            web.get("/files", self._guarded(self.read)),
            web.post("/files", self._guarded(self.write)),
            *rpcs,
        ]

    def _guarded(self, call: Any) -> Any:
        async def handler(request: web.Request) -> web.StreamResponse:
            name = request.headers.get("E2b-Sandbox-Id", "")
            sandbox = self.host.find(name)
            if sandbox is None or sandbox.state != "running":
                text = "The sandbox was not found"
                return answer(request, self.host, {"sandboxId": name, "message": text, "code": 502}, status=502)
            if request.headers.get("E2b-Sandbox-Port") != "49983":
                return answer(request, self.host, {"message": "The sandbox port is not open", "code": 502}, status=502)
            if request.path != "/health" and request.headers.get("X-Access-Token") != sandbox.token:
                return answer(request, self.host, {"code": 401, "message": "unauthorized access"}, status=401)
            try:
                return await call(request, sandbox)
            except ConnectError as error:
                return unary_error(request, self.host, error)

        return handler

    async def health(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        return web.Response(status=204)

    # ---- files -----------------------------------------------------------------------------------------------------

    async def read(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        _only(request, {"path", "username", "signature", "signature_expiration"})
        path = self._path(sandbox, request.query.get("path", ""))
        try:
            kind = os.stat(path).st_mode
            if stat.S_ISDIR(kind):
                return self._error(request, 400, f"path '{path}' is a directory")
            if not stat.S_ISREG(kind):
                return self._error(request, 400, f"path '{path}' is not a regular file")
            with open(path, "rb") as file:
                return await self._send(request, file, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return self._error(request, 404, f"path '{path}' does not exist")
        except NotADirectoryError as error:
            return self._error(request, 500, f"error opening file: {error}")

    async def _send(self, request: web.Request, file: Any, size: int) -> web.StreamResponse:
        first, last = 0, size
        wanted = request.http_range
        if wanted.start is not None and "Range" in request.headers:
            first = wanted.start if wanted.start >= 0 else max(0, size + wanted.start)
            last = min(size, wanted.stop if wanted.stop is not None else size)
        partial = (first, last) != (0, size)
        headers = {"Content-Length": str(last - first), "Content-Type": "application/octet-stream"}
        if partial:
            headers["Content-Range"] = f"bytes {first}-{last - 1}/{size}"
        reply = Reply(request, self.host, status=206 if partial else 200, headers=headers)
        async with reply:
            file.seek(first)
            while first < last:
                data = file.read(min(256 << 10, last - first))
                if not data:
                    abort(request)  # the file shrank: the announced length cannot be kept
                    raise ConnectionResetError
                await reply.write(data)
                first += len(data)
        return reply.response

    async def write(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        _only(request, {"path", "username", "signature", "signature_expiration"})
        if request["fault"] is not None and request["fault"].kind == "full":
            await self._drop_body(request)
            return self._error(request, 507, "not enough disk space available")
        try:
            if request.content_type == "application/octet-stream":
                path = self._path(sandbox, request.query.get("path", ""), writing=True)
                await self._store(request, sandbox, path, request.content.iter_chunked(256 << 10))
            else:
                path = await self._store_form(request, sandbox)
        except IsADirectoryError:
            return self._error(request, 400, "path is a directory")
        except (NotADirectoryError, FileExistsError) as error:
            return self._error(request, 500, f"error ensuring directories: {error}")
        info = {"name": os.path.basename(path), "path": path, "type": "file"}
        return answer(request, self.host, [info])

    async def _store_form(self, request: web.Request, sandbox: Sandbox) -> str:
        form = await request.multipart()
        part = await form.next()
        if not isinstance(part, BodyPartReader):
            raise ConnectError("invalid_argument", "no part in the form")
        name = request.query.get("path") or part.filename or ""
        path = self._path(sandbox, name, writing=True)

        async def chunks() -> Any:
            while data := await part.read_chunk(256 << 10):
                yield data

        await self._store(request, sandbox, path, chunks())
        return path

    async def _store(self, request: web.Request, sandbox: Sandbox, path: str, chunks: Any) -> None:
        if os.path.isdir(path):
            raise IsADirectoryError(path)
        missing = [p for p in Path(path).parents if not p.exists()]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        for folder in missing:
            give_to_user(folder)
        with open(path, "wb") as file:
            give_to_user(Path(path))
            async for data in chunks:
                self.host.received += len(data)
                file.write(data)
                fault = request["fault"]
                if fault is not None and fault.kind == "cut_upload" and file.tell() >= fault.spec.get("after", 0):
                    abort(request)
                    raise ConnectionResetError

    async def _drop_body(self, request: web.Request) -> None:
        # Read to its end: closing before that would break the connection under the client's next request.
        async for data in request.content.iter_chunked(256 << 10):
            self.host.received += len(data)

    def _path(self, sandbox: Sandbox, path: str, *, writing: bool = False) -> str:
        if path == "~" or path.startswith("~/"):
            path = str(sandbox.home) + path[1:]
        elif path.startswith("~"):
            raise ConnectError("invalid_argument", f"cannot expand {path!r}")
        if "\0" in path:
            raise ConnectError("invalid_argument", "invalid path")
        path = os.path.normpath(os.path.join(sandbox.home, path))
        if writing and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(sandbox.folder)):
            # Not the daemon's rule but this server's: its sandboxes have no walls, and tests must not need any.
            raise ConnectError("permission_denied", f"the test server does not write to {path}")
        return path

    def _error(self, request: web.Request, status: int, text: str) -> web.StreamResponse:
        return answer(request, self.host, {"code": status, "message": text}, status=status)

    # ---- processes -------------------------------------------------------------------------------------------------

    async def start(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        try:
            message = await stream_message(request, self.host, {"process", "pty", "tag", "stdin"})
            config = message.get("process", {})
            if config.keys() - {"cmd", "args", "envs", "cwd"}:
                raise ConnectError("invalid_argument", f"unknown field in {sorted(config)}")
            self.host.longest_command = max(self.host.longest_command, *map(len, config.get("args", [])), 0)
            cwd = self._path(sandbox, config.get("cwd", ""))
            if not os.path.isdir(cwd):
                raise ConnectError("invalid_argument", f"cwd '{cwd}' does not exist")
            process = await self._spawn(sandbox, config, cwd, stdin=message.get("stdin", False))
        except ConnectError as error:
            return await self._only_error(request, error)
        pid = process.process.pid
        self.running[sandbox.id, pid] = process
        seconds = int(request.headers["Connect-Timeout-Ms"]) / 1000 if "Connect-Timeout-Ms" in request.headers else None
        if seconds is not None:
            process.tasks.add(asyncio.create_task(self._kill_later(process, seconds)))
        return await self._listen(request, process, seconds)

    async def _spawn(self, sandbox: Sandbox, config: dict[str, Any], cwd: str, *, stdin: bool) -> Process:
        pipe = asyncio.subprocess.PIPE
        # The daemon's own wrapper: a nice value and a score for the memory killer, then the command in place.
        wrapper = ["/bin/sh", "-c", 'echo 100 > /proc/$$/oom_score_adj; exec nice -n 0 "$@"', "sh"]
        try:
            process = await spawn(
                sandbox,
                [*wrapper, config.get("cmd", ""), *config.get("args", [])],
                cwd=cwd,
                variables=sandbox.variables() | config.get("envs", {}),
                stdin=pipe if stdin else asyncio.subprocess.DEVNULL,
                stderr=pipe,
                group=False,
            )
        except OSError as error:
            raise ConnectError("invalid_argument", f"error starting process: {error}") from None
        made = Process(process, config)
        assert process.stdout is not None
        assert process.stderr is not None
        streams = {"stdout": process.stdout, "stderr": process.stderr}
        drains = [asyncio.create_task(made.drain(name, stream)) for name, stream in streams.items()]
        made.tasks.add(asyncio.create_task(made.finish(drains)))
        return made

    async def _kill_later(self, process: Process, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if process.end is None:
            with contextlib.suppress(ProcessLookupError):
                process.process.kill()
            for queue in process.listeners:
                await queue.put(ConnectError("deadline_exceeded", "context deadline exceeded"))

    async def connect(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        try:
            message = await stream_message(request, self.host, {"process"})
            process = self._selected(sandbox, message)
        except ConnectError as error:
            return await self._only_error(request, error)
        return await self._listen(request, process, None)

    async def _only_error(self, request: web.Request, error: ConnectError) -> web.StreamResponse:
        async with EventStream(request, self.host) as stream:
            await stream.end(error)
        return stream.reply.response

    async def _listen(self, request: web.Request, process: Process, seconds: float | None) -> web.StreamResponse:
        queue: asyncio.Queue[dict[str, Any] | ConnectError] = asyncio.Queue(64)
        process.listeners.add(queue)
        ping = float(request.headers.get("Keepalive-Ping-Interval", 90))
        fault = request["fault"]
        try:
            async with EventStream(request, self.host) as stream:
                await stream.send({"event": {"start": {"pid": process.process.pid}}})
                if fault is not None and fault.kind == "noise":
                    noise = base64.b64encode(fault.spec["text"].encode()).decode()
                    await stream.send({"event": {"data": {"stdout": noise}}})
                if process.end is not None:
                    await queue.put(process.end)
                while True:
                    try:
                        event = await asyncio.wait_for(queue.get(), ping)
                    except TimeoutError:
                        await stream.send({"event": {"keepalive": {}}})
                        continue
                    if isinstance(event, ConnectError):
                        await stream.end(event)
                        break
                    ended = "end" in event["event"]
                    if not (ended and fault is not None and fault.kind == "no_end"):
                        await stream.send(event)
                    if ended:
                        await stream.end()
                        break
            return stream.reply.response
        finally:
            process.listeners.discard(queue)
            # A writer may wait for room in this queue: its event has nobody to go to.
            while not queue.empty():
                queue.get_nowait()

    async def list_processes(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        await unary_message(request, self.host, set())
        living = [
            {"config": process.config, "pid": pid}
            for (owner, pid), process in self.running.items()
            if owner == sandbox.id and process.end is None
        ]
        return answer(request, self.host, {"processes": living})

    async def send_signal(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"process", "signal"})
        process = self._selected(sandbox, message)
        numbers = {
            "SIGNAL_SIGKILL": signal.SIGKILL,
            "SIGNAL_SIGTERM": signal.SIGTERM,
            9: signal.SIGKILL,
            15: signal.SIGTERM,
        }
        if message.get("signal") not in numbers:
            raise ConnectError("unimplemented", "invalid signal")
        try:
            process.process.send_signal(numbers[message["signal"]])
        except ProcessLookupError:
            raise ConnectError("internal", "error sending signal: os: process already finished") from None
        return answer(request, self.host, {})

    async def send_input(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"process", "input"})
        process = self._selected(sandbox, message)
        if process.process.stdin is None:
            raise ConnectError("invalid_argument", "stdin is not open")
        process.process.stdin.write(base64.b64decode(message["input"]["stdin"]))
        await process.process.stdin.drain()
        return answer(request, self.host, {})

    async def close_stdin(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"process"})
        process = self._selected(sandbox, message)
        if process.process.stdin is not None:
            process.process.stdin.close()
        return answer(request, self.host, {})

    def _selected(self, sandbox: Sandbox, message: dict[str, Any]) -> Process:
        process = self.running.get((sandbox.id, message.get("process", {}).get("pid", -1)))
        if process is None:
            raise ConnectError("not_found", f"process with pid {message.get('process')} not found")
        return process

    # ---- file system -----------------------------------------------------------------------------------------------

    async def stat(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"path"})
        return answer(request, self.host, {"entry": self._entry(self._path(sandbox, message.get("path", "")))})

    async def list_dir(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"path", "depth"})
        top = self._path(sandbox, message.get("path", ""))
        if not os.path.isdir(top):
            self._entry(top)
            raise ConnectError("invalid_argument", f"path is not a directory: {top}")
        found = []
        for folder, folders, files in os.walk(top):
            depth = len(Path(folder).relative_to(top).parts)
            if depth < message.get("depth", 1):
                found += [self._entry(os.path.join(folder, name)) for name in sorted(folders + files)]
        return answer(request, self.host, {"entries": found})

    async def make_dir(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"path"})
        path = self._path(sandbox, message.get("path", ""), writing=True)
        if os.path.isdir(path):
            raise ConnectError("already_exists", f"directory already exists: {path}")
        os.makedirs(path)
        give_to_user(Path(path))
        return answer(request, self.host, {"entry": self._entry(path)})

    async def move(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"source", "destination"})
        source = self._path(sandbox, message.get("source", ""), writing=True)
        target = self._path(sandbox, message.get("destination", ""), writing=True)
        self._entry(source)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(source, target)
        return answer(request, self.host, {"entry": self._entry(target)})

    async def remove(self, request: web.Request, sandbox: Sandbox) -> web.StreamResponse:
        message = await unary_message(request, self.host, {"path"})
        path = self._path(sandbox, message.get("path", ""), writing=True)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)
        return answer(request, self.host, {})

    def _entry(self, path: str) -> dict[str, Any]:
        try:
            info = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ConnectError("not_found", f"file not found: {path}") from None
        types = {stat.S_IFREG: "FILE_TYPE_FILE", stat.S_IFDIR: "FILE_TYPE_DIRECTORY", stat.S_IFLNK: "FILE_TYPE_SYMLINK"}
        entry = {
            "name": os.path.basename(path),
            "type": types.get(stat.S_IFMT(info.st_mode), "FILE_TYPE_UNSPECIFIED"),
            "path": path,
            "size": str(info.st_size),
            "mode": stat.S_IMODE(info.st_mode),
            "permissions": stat.filemode(info.st_mode),
            "owner": _name(info.st_uid),
            "group": str(info.st_gid),
            "modifiedTime": datetime.fromtimestamp(info.st_mtime, UTC).isoformat().replace("+00:00", "Z"),
        }
        if stat.S_ISLNK(info.st_mode):
            entry["symlinkTarget"] = os.readlink(path)
        return entry


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _only(request: web.Request, allowed: set[str]) -> None:
    unknown = set(request.query) - allowed
    if unknown:
        raise ConnectError("invalid_argument", f"unknown parameter {sorted(unknown)}")
