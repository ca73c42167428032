"""An object store with a machine: files live in the store, commands run on the machine, and each sees the other's work."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from stead.environment import Environment, PathLike
from stead.errors import ConfigError, FileChanged, FileExists, FileMissing
from stead.results import ExecutionResult, FileInfo, OutputChunk
from stead.wrappers.mapped import Mapped

__all__ = ["Conflict", "StagedEnvironment", "SyncReport"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A file that a command changed while somebody else changed it in the store. Nothing of either is lost."""

    path: str
    """The file; in the store it holds the other's content."""
    kept_as: str | None
    """Where the command's content was written in the store; None if the command had deleted the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What one command moved between store and machine. Paths are those of the environment."""

    staged: tuple[str, ...] = ()
    """Written to the machine before the command."""
    written: tuple[str, ...] = ()
    """Written back to the store after it."""
    deleted: tuple[str, ...] = ()
    """Deleted in the store, since the command had deleted them."""
    conflicts: tuple[Conflict, ...] = ()


@dataclass(slots=True)
class _Moves:
    staged: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)

    def report(self) -> SyncReport:
        return SyncReport(
            staged=tuple(self.staged),
            written=tuple(self.written),
            deleted=tuple(self.deleted),
            conflicts=tuple(self.conflicts),
        )


@dataclass(frozen=True, slots=True)
class _Pair:
    """One file as it was when both sides were last equal."""

    store: str | None
    machine: str | None


class StagedEnvironment(Mapped):
    """Files live in `store`; a command runs on `machine`, between bringing changes there and bringing changes back.

    A write back is conditional on the version that was staged: if somebody else wrote the file meanwhile, their content
    stays and the command's is kept beside it, as `NAME.conflict-ID`. One sync runs at a time; commands run in parallel,
    and what two of them do to one file on the machine is between them, as on any machine.

    Paths are those of the machine, so that what `pwd` prints can be used; `root` of the machine is the root of the store.
    """

    def __init__(
        self,
        store: Environment,
        machine: Environment,
        *,
        wanted: Callable[[str], bool] | None = None,
        on_sync: Callable[[SyncReport], None] | None = None,
        owns: bool = True,
    ) -> None:
        """Takes both environments; touches nothing.

        Args:
            store: Needs `stat`, `list_files`, `delete_file`, `create_only` and `conditional_write`.
            machine: Needs `execute`, `stat`, `list_files` and `delete_file`. Its working directory belongs to this
                environment.
            wanted: Which files of the store are staged, by their path below the root; None is all.
            on_sync: Called after each command with what was moved, conflicts included. None logs each conflict as a
                warning.
            owns: Whether `close()` closes both.

        Raises:
            ConfigError: One of them lacks a capability.
        """
        _require(store, "stat", "list_files", "delete_file", "create_only", "conditional_write")
        _require(machine, "execute", "stat", "list_files", "delete_file")
        super().__init__(store, base=store.working_dir, root=machine.working_dir, owns=owns)
        self.machine = machine
        self._wanted = wanted
        self._on_sync = on_sync or _warn_of_conflicts
        self._known: dict[str, _Pair] = {}
        self._syncing = asyncio.Lock()
        self.capabilities = replace(
            store.capabilities,
            execute=True,
            execute_stream=machine.capabilities.execute_stream,
            isolation=machine.capabilities.isolation,
        )

    async def _start(self) -> None:
        await self.inner.start()
        await self.machine.start()

    async def _close(self) -> None:
        if self.owns:
            try:
                await self.machine.close()
            finally:
                await self.inner.close()

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
        moves = await self._stage_in()
        try:
            result = await self.machine.execute(
                command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
            )
        finally:
            await self._bring_back(moves)
        return await self._with_spills(result)

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
        moves = await self._stage_in()
        stream = self.machine.execute_stream(
            command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, output_limit=output_limit
        )
        result: ExecutionResult | None = None
        try:
            async with aclosing(stream) as items:
                async for item in items:
                    if isinstance(item, ExecutionResult):
                        result = item
                    else:
                        yield item
        finally:
            # Before the result is given out, so that who has it sees the files too.
            await self._bring_back(moves)
        if result is not None:
            yield await self._with_spills(result)

    # ---- store to machine ------------------------------------------------------------------------------------------

    async def _stage_in(self) -> _Moves:
        moves = _Moves()
        async with self._syncing:
            inside = await _files_of(self.inner)
            for name, info in inside.items():
                known = self._known.get(name)
                if (self._wanted is None or self._wanted(name)) and (known is None or known.store != info.version):
                    await self._stage_file(name, moves)
            for name in [name for name, pair in self._known.items() if pair.store is not None and name not in inside]:
                await self._unstage_file(name)
        return moves

    async def _stage_file(self, name: str, moves: _Moves) -> None:
        source = self._in_store(name)
        self._known.pop(name, None)
        try:
            before = await self.inner.stat(source)
            async with aclosing(self.inner.read_file_stream(source)) as chunks:
                there = await self.machine.write_file(name, chunks)
            after = await self.inner.stat(source)
        except (FileMissing, FileChanged):
            return  # gone, or being written: the next command gets it
        # A version that is not the one read would let a write back overwrite what was never staged.
        if before.version == after.version:
            self._known[name] = _Pair(after.version, there.version)
            moves.staged.append(name)

    async def _unstage_file(self, name: str) -> None:
        pair = self._known.pop(name)
        try:
            if (await self.machine.stat(name)).version == pair.machine:
                await self.machine.delete_file(name)
        except FileMissing:
            return

    # ---- machine to store ------------------------------------------------------------------------------------------

    async def _bring_back(self, moves: _Moves) -> None:
        async with self._syncing:
            there = await _files_of(self.machine)
            for name, info in there.items():
                known = self._known.get(name)
                if known is None or known.machine != info.version:
                    await self._write_back(name, info, known, moves)
            for name in [name for name in self._known if name not in there]:
                await self._delete_back(name, self._known.pop(name), moves)
        self._on_sync(moves.report())

    async def _write_back(self, name: str, info: FileInfo, known: _Pair | None, moves: _Moves) -> None:
        version = None if known is None else known.store
        try:
            written = await self._copy_back(name, name, version)
        except (FileChanged, FileExists):
            kept = f"{name}.conflict-{secrets.token_hex(4)}"
            await self._copy_back(name, kept, None)
            moves.conflicts.append(Conflict(path=name, kept_as=kept))
            self._known.pop(name, None)  # the next command gets the other's content
            return
        except FileMissing:
            return  # deleted on the machine since it was listed, by what still runs there
        moves.written.append(name)
        self._known[name] = _Pair(written.version, info.version)

    async def _copy_back(self, name: str, target: str, version: str | None) -> FileInfo:
        async with aclosing(self.machine.read_file_stream(name)) as chunks:
            return await self.inner.write_file(
                self._in_store(target), chunks, if_absent=version is None, if_version=version
            )

    async def _delete_back(self, name: str, pair: _Pair, moves: _Moves) -> None:
        try:
            info = await self.inner.stat(self._in_store(name))
        except FileMissing:
            return
        if info.version != pair.store:
            moves.conflicts.append(Conflict(path=name, kept_as=None))
            return
        await self.inner.delete_file(self._in_store(name))
        moves.deleted.append(name)

    async def _with_spills(self, result: ExecutionResult) -> ExecutionResult:
        """Brings spilled output to the store, where the paths in the result are read."""
        for path in (result.stdout_path, result.stderr_path):
            if path is not None:
                await self._copy_back(path, str(PurePosixPath(path).relative_to(self.machine.working_dir)), None)
        return result

    def _in_store(self, name: str) -> str:
        return str(self.inner.working_dir / name)


def _warn_of_conflicts(report: SyncReport) -> None:
    for conflict in report.conflicts:
        kept = "(a deletion) was not done" if conflict.kept_as is None else f"is kept as {conflict.kept_as!r}"
        _log.warning("%r was changed in the store while a command ran; the command's own %s", conflict.path, kept)


async def _files_of(env: Environment) -> dict[str, FileInfo]:
    """The regular files of an environment, by their path below its working directory; stead's own are left out."""
    found = {}
    async with aclosing(env.list_files(".", recursive=True)) as entries:
        async for entry in entries:
            name = str(PurePosixPath(entry.path).relative_to(env.working_dir))
            if entry.kind == "file" and not name.startswith(f"{env.state_dir}/"):
                found[name] = entry
    return found


def _require(env: Environment, *names: str) -> None:
    lacking = [name for name in names if not getattr(env.capabilities, name)]
    if lacking:
        raise ConfigError(f"{env!r} cannot be staged: it does not declare {', '.join(lacking)}")
