"""An object store with a machine: files live in the store, commands run on the machine, and each sees the other's work."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from stead.environment import Environment, PathLike
from stead.errors import (
    ConfigError,
    EnvironmentClosed,
    FileChanged,
    FileExists,
    FileMissing,
    IsADirectory,
    NotADirectory,
    SteadError,
)
from stead.results import ExecutionResult, FileInfo, OutputChunk
from stead.wrappers.mapped import Mapped
from stead.wrappers.sync_report import Conflict, Moves, SyncReport, Unsettled, log_troubles

__all__ = ["StagedEnvironment"]

_TRIES = 3
_REMOVE_EMPTY = 'find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || :'


@dataclass(frozen=True, slots=True)
class _Pair:
    """One file as it was when both sides were last equal."""

    store: str | None
    """None: the machine has another content, which is kept elsewhere in the store and may be overwritten."""
    machine: str | None


class StagedEnvironment(Mapped):
    """Files live in `store`; a command runs on `machine`, between bringing changes there and bringing changes back.

    A write is conditional on the version that was last carried over: if a file was changed on the machine and somebody
    else wrote it in the store meanwhile, their content stays and the machine's is kept beside it in the store, as
    `NAME.conflict-ID`. A file that one side refuses is left and reported; the others are moved. One sync runs at a time;
    commands run in parallel, and what two of them do to one file on the machine is between them, as on any machine.

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
            on_sync: Called after each command with what was moved, conflicts and failures included. None logs these two
                as warnings.
            owns: Whether `close()` closes both.

        Raises:
            ConfigError: One of them lacks a capability.
        """
        _require(store, "stat", "list_files", "delete_file", "create_only", "conditional_write")
        _require(machine, "execute", "stat", "list_files", "delete_file")
        super().__init__(store, base=store.working_dir, root=machine.working_dir, owns=owns)
        self.machine = machine
        self._wanted = wanted
        self._on_sync = on_sync or log_troubles
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
        # A sandbox tells where it starts commands only now.
        self._base, self._root = self.inner.working_dir, self.machine.working_dir

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

    async def _stage_in(self) -> Moves:
        moves = Moves()
        try:
            async with self._syncing:
                inside = await _files_of(self.inner)
                # What is gone first: a file may have become the folder of another, or the reverse.
                for name in [name for name in self._known if name not in inside]:
                    with moves.apart(name):
                        await self._unstage_file(name)
                for name, info in inside.items():
                    known = self._known.get(name)
                    if (self._wanted is None or self._wanted(name)) and (known is None or known.store != info.version):
                        with moves.apart(name):
                            await self._stage_file(name, moves)
        except BaseException:
            self._on_sync(moves.report())  # no command follows that would tell
            raise
        return moves

    async def _stage_file(self, name: str, moves: Moves) -> None:
        source = self._in_store(name)
        for attempt in range(1, _TRIES + 1):
            known = self._known.get(name)
            try:
                before = await self.inner.stat(source)
                if known is not None and known.store == before.version:
                    return
                there = await self._replace_on_machine(source, name, known)
                self._known[name] = _Pair(None, there.version)
                after = await self.inner.stat(source)
            except FileMissing:
                return  # gone since it was listed
            except (FileExists, FileChanged, IsADirectory):
                if attempt == _TRIES:
                    raise
                await self._keep(name, moves)
                continue
            # A version that is not the one read would let a write back overwrite what was never staged.
            if before.version == after.version:
                self._known[name] = _Pair(after.version, there.version)
                moves.staged.append(name)
            return

    async def _replace_on_machine(self, source: str, name: str, known: _Pair | None) -> FileInfo:
        """Writes a file to the machine, unless what is there now was never brought back."""
        version = None if known is None else known.machine
        can = self.machine.capabilities
        async with aclosing(_content(self.inner, source)) as chunks:
            if can.create_only and can.conditional_write:
                return await self.machine.write_file(name, chunks, if_absent=version is None, if_version=version)
            try:
                found = (await self.machine.stat(name)).version or ""
            except FileMissing:
                found = None
            if found != version:
                raise FileChanged(f"{name!r} was changed on the machine")
            return await self.machine.write_file(name, chunks)

    async def _unstage_file(self, name: str) -> None:
        try:
            if (await self.machine.stat(name)).version == self._known[name].machine:
                await self.machine.delete_file(name)
        except (FileMissing, NotADirectory, IsADirectory):
            pass
        del self._known[name]

    # ---- machine to store ------------------------------------------------------------------------------------------

    async def _bring_back(self, moves: Moves) -> None:
        try:
            async with self._syncing:
                there = await _files_of(self.machine)
                for name in [name for name in self._known if name not in there]:
                    with moves.apart(name):
                        await self._delete_back(name, moves)
                for name, info in there.items():
                    known = self._known.get(name)
                    if known is None or known.machine != info.version:
                        with moves.apart(name):
                            await self._write_back(name, info, known, moves)
        finally:
            self._on_sync(moves.report())

    async def _write_back(self, name: str, info: FileInfo, known: _Pair | None, moves: Moves) -> None:
        try:
            written = await self._copy_back(name, name, None if known is None else known.store)
        except (FileChanged, FileExists, IsADirectory, NotADirectory):
            await self._keep(name, moves)  # the next command gets the other's content
            return
        moves.written.append(name)
        self._known[name] = _Pair(written.version, info.version)

    async def _copy_back(self, name: str, target: str, version: str | None) -> FileInfo:
        async with aclosing(_content(self.machine, name)) as chunks:
            return await self.inner.write_file(
                self._in_store(target), chunks, if_absent=version is None, if_version=version
            )

    async def _delete_back(self, name: str, moves: Moves) -> None:
        try:
            info = await self.inner.stat(self._in_store(name))
            if info.kind == "file" and info.version != self._known[name].store:
                moves.conflicts.append(Conflict(path=name, kept_as=None))
            elif info.kind == "file":
                await self.inner.delete_file(self._in_store(name))
                moves.deleted.append(name)
        except (FileMissing, NotADirectory):
            pass
        del self._known[name]

    async def _with_spills(self, result: ExecutionResult) -> ExecutionResult:
        """Brings spilled output to the store, where the paths in the result are read."""
        for path in (result.stdout_path, result.stderr_path):
            if path is None:
                continue
            try:
                await self._copy_back(path, str(PurePosixPath(path).relative_to(self.machine.working_dir)), None)
            except EnvironmentClosed:
                raise
            except (SteadError, Unsettled) as error:
                result = replace(
                    result,
                    stdout_path=None if path == result.stdout_path else result.stdout_path,
                    stderr_path=None if path == result.stderr_path else result.stderr_path,
                    spill_error=f"it was not brought to the store: {error}",
                )
        return result

    # ---- both changed ----------------------------------------------------------------------------------------------

    async def _keep(self, name: str, moves: Moves) -> None:
        """Sees to it that the machine's version of a file can be overwritten: keeps it beside the store's, if it differs."""
        try:
            there = await self.machine.stat(name)
        except FileMissing:
            self._known.pop(name, None)
            moves.conflicts.append(Conflict(path=name, kept_as=None))
            return
        if there.kind == "directory":
            self._known.pop(name, None)
            path = str(self.machine.working_dir / name)
            await self.machine.execute(["sh", "-c", _REMOVE_EMPTY, "sh", path])
        elif (equal := await self._equal_in_store(name, there)) is not None:
            self._known[name] = _Pair(equal.version, there.version)
        else:
            kept = await self._name_beside(name)
            await self._copy_back(name, kept, None)
            moves.conflicts.append(Conflict(path=name, kept_as=kept))
            self._known[name] = _Pair(None, there.version)

    async def _equal_in_store(self, name: str, there: FileInfo) -> FileInfo | None:
        """The file in the store, if its content is that of the machine: as when both sides outlived an environment."""
        source = self._in_store(name)
        try:
            info = await self.inner.stat(source)
        except (FileMissing, NotADirectory):
            return None
        if info.kind != "file" or info.size != there.size:
            return None
        return info if await _digest(self.inner, source) == await _digest(self.machine, name) else None

    async def _name_beside(self, name: str) -> str:
        end = f".conflict-{secrets.token_hex(4)}"
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            try:
                if (await self.inner.stat(self._in_store(str(parent)))).kind == "file":
                    return f"{parent}{end}/{PurePosixPath(name).relative_to(parent)}"
            except FileMissing:
                break
        return f"{name}{end}"

    def _in_store(self, name: str) -> str:
        return str(self.inner.working_dir / name)


async def _content(env: Environment, path: str) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(env.read_file_stream(path)) as chunks:
            async for chunk in chunks:
                yield chunk
    except (FileMissing, FileChanged) as error:
        raise Unsettled from error


async def _digest(env: Environment, path: str) -> bytes:
    digest = hashlib.sha256()
    async with aclosing(_content(env, path)) as chunks:
        async for chunk in chunks:
            digest.update(chunk)
    return digest.digest()


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
