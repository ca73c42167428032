"""An environment on a POSIX machine behind a service: everything but how the machine is got and let go."""

import posixpath
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath

from stead.command_input import check_variables, output_limit
from stead.environment import Content, Environment, PathLike, check_range
from stead.errors import ConfigError, Unavailable
from stead.paths import split_path
from stead.posix.answers import raise_status
from stead.posix.calls import Caller
from stead.posix.commands import CommandOptions, PosixCommands
from stead.posix.files import PosixFiles
from stead.posix.lines import PosixLines
from stead.posix.machine import Machine
from stead.posix.reading import PosixReading
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk

__all__ = ["PlaceOptions", "PosixEnvironment"]

_HELLO_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Where on a machine an environment is, and how it runs commands there."""

    root: str | None = None
    """What paths may not leave, absolute; None is `/`."""
    working_dir: str | None = None
    """Where commands start, absolute; None is `root` if that is given, else where the machine starts them by itself."""
    usual_dir: str = "/"
    """What the working directory is taken for until the machine was asked."""
    state_dir: str = ".stead"
    """Where spilled output goes, relative to the working directory."""
    output_limit: int = 1 << 20
    """Bytes of each stream of a command that a result holds, unless the call says otherwise."""
    envs: Mapping[str, str] | None = None
    """Variables of every command."""


class PosixEnvironment(Environment):
    """The contract's methods over a `Machine`.

    For authors: `_start` gets a machine and calls `_attach(machine)`; `_close` calls `_detach()` and lets it go.
    """

    backend = "posix"
    """The backend's name, for errors."""
    lease = 120.0
    """Seconds without a question after which a command is ended on the machine, since its owner has gone."""

    def __init__(self, place: PlaceOptions) -> None:
        """Takes the options; touches nothing.

        Raises:
            ConfigError: A path is not absolute, `working_dir` is not inside `root`, or another option is out of its range.
        """
        self._root = _absolute("root", place.root)
        self._given_dir = _absolute("working_dir", place.working_dir)
        if self._root and self._given_dir and not PurePosixPath(self._given_dir).is_relative_to(self._root):
            raise ConfigError(
                f"working_dir {self._given_dir!r} is not inside root {self._root!r}", backend=self.backend
            )
        state_dir = PurePosixPath(place.state_dir)
        if not place.state_dir or state_dir.is_absolute() or ".." in state_dir.parts:
            raise ConfigError(f"state_dir must be a folder below the working directory, not {place.state_dir!r}")
        try:
            self._envs, self._output_limit = check_variables(place.envs), output_limit(place.output_limit, 1 << 20)
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error), backend=self.backend) from error
        self._place = place
        self._working_dir = PurePosixPath(self._given_dir or self._root or place.usual_dir)
        self._caller: Caller | None = None

    @property
    def working_dir(self) -> PurePosixPath:
        """Where relative paths start and commands run. Unless an option says it, it is asked at start."""
        return self._working_dir

    async def _attach(self, machine: Machine) -> None:
        """Makes acquaintance with a machine.

        Raises:
            SteadError: It gives no answer, or lacks a program that stead's scripts need.
        """
        caller = Caller(machine, self.backend)
        asked = {"DIR": self._given_dir or "", "ROOT": self._root or "", "STATE": self._place.state_dir}
        reply = await caller.call("hello", asked, tries=_HELLO_TRIES)
        if reply.status == "lacks":
            raise Unavailable(
                f"the machine lacks programs that stead needs:{reply.data.decode()}",
                backend=self.backend,
                retryable=False,
            )
        if reply.status != "ok":
            raise_status(reply.status, backend=self.backend, operation="start", path=reply.data.decode())
        (place, root, scratch, shell), _ = reply.fields(4)
        caller.place.dir, caller.place.root = place, root
        caller.place.scratch, caller.place.shell = scratch, shell
        self._working_dir = PurePosixPath(place)
        self._caller = caller
        self._files = PosixFiles(caller)
        self._reading = PosixReading(caller)
        self._lines = PosixLines(caller)
        self._commands = PosixCommands(
            caller,
            self._files,
            CommandOptions(
                state_dir=str(self._working_dir / self._place.state_dir),
                envs=self._envs,
                output_limit=self._output_limit,
                lease=self.lease,
            ),
        )

    async def _detach(self, *, stop: bool, lost: str | None = None) -> None:
        """Ends all calls.

        Args:
            stop: Also end the commands that run and remove files of ours; not needed for a machine that ends itself.
            lost: What became of the machine, where it is not the environment that is closed.
        """
        if self._caller is None:
            return
        if stop:
            await self._commands.close()
            await self._caller.clean()
        self._caller.close(lost)
        self._commands.abandon()
        self._lines.clear()

    # ---- files -----------------------------------------------------------------------------------------------------

    async def read_file(self, path: PathLike) -> bytes:
        split_path(path)
        await self._ready()
        return await self._reading.read(path)

    async def read_file_stream(
        self, path: PathLike, *, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        check_range(offset, length)
        split_path(path)
        await self._ready()
        async with aclosing(self._reading.stream(path, offset=offset, length=length)) as chunks:
            async for chunk in chunks:
                self._check_open()
                yield chunk
                self._check_open()

    async def write_file(
        self, path: PathLike, content: Content, *, if_absent: bool = False, if_version: str | None = None
    ) -> FileInfo:
        if if_absent and if_version is not None:
            raise ValueError("if_absent and if_version cannot both hold; give one")
        prepared = PosixFiles.prepare(path, content)
        await self._ready()
        return await self._files.write(path, prepared, if_absent=if_absent, if_version=if_version)

    async def stat(self, path: PathLike) -> FileInfo:
        split_path(path)
        await self._ready()
        return await self._files.stat(path)

    async def list_files(self, path: PathLike = ".", *, recursive: bool = False) -> AsyncGenerator[FileInfo, None]:
        split_path(path)
        await self._ready()
        async with aclosing(self._files.list(path, recursive=recursive)) as entries:
            async for entry in entries:
                yield entry

    async def delete_file(self, path: PathLike) -> None:
        split_path(path)
        await self._ready()
        await self._files.delete(path)

    async def read_lines(self, path: PathLike, window: LineRange) -> LineWindow:
        split_path(path)
        await self._ready()
        page = await self._lines.read(path, window)
        return await super().read_lines(path, window) if page is None else page

    # ---- commands --------------------------------------------------------------------------------------------------

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> ExecutionResult:
        await self._ready()
        request = self._commands.request(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )
        await self._before_command(request.timeout)
        return await self._commands.run(request)

    async def execute_stream(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        cwd: PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        output_limit: int | None = None,
    ) -> AsyncGenerator[OutputChunk | ExecutionResult, None]:
        await self._ready()
        request = self._commands.request(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )
        await self._before_command(request.timeout)
        async with aclosing(self._commands.stream(request)) as items:
            async for item in items:
                yield item

    async def _before_command(self, timeout: float | None) -> None:
        """Hook: makes sure that the machine will live as long as a command may run."""

    def _check_open(self) -> None:
        if self._caller is not None:
            self._caller.check_open()


def _absolute(name: str, path: str | None) -> str | None:
    if path is None:
        return None
    if not path.startswith("/") or "\0" in path:
        raise ConfigError(f"{name} must be an absolute path on the machine, not {path!r}")
    return posixpath.normpath(path)
