"""This machine as the machine of a `PosixEnvironment`, for what does not depend on a provider: scripts in other shells."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from pathlib import Path
from typing import Any

from stead.capabilities import POSIX
from stead.posix import COMMAND, PlaceOptions, PosixEnvironment

_TOOLS = (
    "awk",
    "base64",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "dd",
    "dirname",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mv",
    "nproc",
    "od",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "rm",
    "sed",
    "seq",
    "setsid",
    "sh",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "tty",
    "uniq",
    "wc",
    "xargs",
    "yes",
)


class LocalMachine:
    """Runs scripts as processes of this machine."""

    def __init__(self, home: Path, *, shell: str = "/bin/sh", path: str = "/usr/bin:/bin", noise: str = "") -> None:
        self.home, self.shell, self.noise = home, shell, noise
        self.variables = {"PATH": path, "HOME": str(home), "TMPDIR": str(home / "tmp")}
        self.commands: list[str] = []
        """The longest texts that it was given to run."""

    async def run(self, variables: Mapping[str, str], *, seconds: float) -> str:
        # The scripts ask for /bin/sh; another shell is tried by running it instead, in the same words.
        command = COMMAND.replace("/bin/sh", self.shell)
        self.commands.append(command)
        scripts = ("STEAD_SCRIPT", "STEAD_SUPERVISE")
        given = {n: v.replace("/bin/sh", self.shell) if n in scripts else v for n, v in variables.items()}
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            command,
            cwd=self.home / "work",
            env={**self.variables, **given},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
        return self.noise + output.decode(errors="replace")

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        with open(path, "rb") as file:
            while data := file.read(1 << 16):
                yield data

    async def store(self, path: str, content: AsyncIterable[bytes]) -> None:
        with open(path, "wb") as file:
            async for data in content:
                file.write(data)


class LocalPosix(PosixEnvironment):
    """Stead's scripts on this machine, below one folder."""

    backend = "local-posix"
    capabilities = POSIX

    def __init__(self, home: Path, **machine: Any) -> None:
        self.machine = LocalMachine(home, **machine)
        self.folder = home / "work"
        super().__init__(PlaceOptions(root=str(self.folder)))

    async def _start(self) -> None:
        for folder in (self.folder, self.machine.home / "tmp"):
            folder.mkdir(exist_ok=True)
        await self._attach(self.machine)

    async def _close(self) -> None:
        await self._detach(stop=True)


def busybox(folder: Path) -> str | None:
    """Makes a path with nothing but busybox in it, as in a minimal image; None where there is no busybox."""
    program = next((p for p in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(p)), None)
    if program is None:
        return None
    folder.mkdir()
    for tool in _TOOLS:
        (folder / tool).symlink_to(program)
    return str(folder)
