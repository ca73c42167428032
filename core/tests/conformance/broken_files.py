"""Environments whose life or writing is broken, each in one way that real ones were."""

import asyncio
import os
from collections.abc import AsyncIterable
from pathlib import Path

from delegate import Delegate

from stead.adapt import collect_content
from stead.environments import MemoryEnvironment
from stead.errors import (
    FileExists,
    FileMissing,
)
from stead_local import LocalEnvironment

MIB = 1 << 20


class OnMemory(Delegate):
    """Broken on top of the in-memory environment."""

    def __init__(self, folder):
        super().__init__(MemoryEnvironment())
        self.folder = folder


class OnLocal(Delegate):
    """Broken on top of the local environment."""

    def __init__(self, folder):
        super().__init__(LocalEnvironment(root=folder))
        self.folder = folder

    def real(self, path):
        """Where a path of the caller lies on this machine."""
        return Path(self.working_dir, path)


# ---- life ----------------------------------------------------------------------------------------------------------


class ReadsAfterClose(OnMemory):
    """`read_file` answers from what it remembers, closed or not."""

    def __init__(self, folder):
        super().__init__(folder)
        self.seen = {}

    async def write_file(self, path, content, **options):
        info = await super().write_file(path, content, **options)
        self.seen[str(path)] = await self.inner.read_file(path)
        return info

    async def read_file(self, path):
        if self._lifecycle.state.value == "closed" and str(path) in self.seen:
            return self.seen[str(path)]
        return await super().read_file(path)


class StartsTwice(OnMemory):
    """Two callers who come first at once get a place each."""

    async def write_file(self, path, content, **options):
        if not self._lifecycle.is_open_here():
            self.inner = place = MemoryEnvironment()
            await self._ready()
            return await place.write_file(path, content, **options)
        return await super().write_file(path, content, **options)


class ConstructorReads(OnMemory):
    """Building it looks at the file system."""

    def __init__(self, folder):
        super().__init__(folder)
        self.names = os.listdir(folder)


class ShowsSecret(OnMemory):
    """Its repr holds its key."""

    def __init__(self, folder):
        super().__init__(folder)
        self.api_key = "sk-very-secret"

    def __repr__(self):
        return f"ShowsSecret(api_key={self.api_key!r})"


class ClosesTwiceBadly(OnMemory):
    """A second close fails."""

    async def close(self):
        if self._lifecycle.state.value == "closed":
            raise RuntimeError("already closed")
        await super().close()


# ---- write ---------------------------------------------------------------------------------------------------------


class TranslatesNewlines(OnMemory):
    """Text mode: CRLF becomes LF."""

    async def write_file(self, path, content, **options):
        if isinstance(content, str):
            content = content.replace("\r\n", "\n")
        return await super().write_file(path, content, **options)


class TornWrite(OnLocal):
    """Declares atomic writes, and writes in place piece by piece."""

    async def write_file(self, path, content, **options):
        if isinstance(content, bytes) and len(content) > MIB and self.real(path).is_file():
            with self.real(path).open("wb") as file:
                for start in range(0, len(content), MIB):
                    file.write(content[start : start + MIB])
                    file.flush()
                    await asyncio.sleep(0)
            return await self.inner.stat(path)
        return await super().write_file(path, content, **options)


class LosesOldOnFailure(OnMemory):
    """Empties the file before it knows that the new content will come."""

    async def write_file(self, path, content, **options):
        if isinstance(content, AsyncIterable):
            await super().write_file(path, b"")
        return await super().write_file(path, content, **options)


class LeavesTemporaries(OnLocal):
    """A failed write leaves its temporary file."""

    async def write_file(self, path, content, **options):
        try:
            return await super().write_file(path, content, **options)
        except ZeroDivisionError:
            self.real(path).with_name(".tmp-1234").write_bytes(b"")
            raise


class IgnoresIfAbsent(OnMemory):
    """Declares `create_only`, and replaces what is there."""

    async def write_file(self, path, content, *, if_absent=False, **options):
        return await super().write_file(path, content, **options)


class IgnoresIfVersion(OnMemory):
    """Declares `conditional_write`, and replaces any version."""

    async def write_file(self, path, content, *, if_version=None, **options):
        return await super().write_file(path, content, **options)


class RacesIfAbsent(OnMemory):
    """Looks first and writes later: ten writers all win."""

    async def write_file(self, path, content, *, if_absent=False, if_version=None):
        if if_absent:
            try:
                await self.inner.stat(path)
            except FileMissing:
                await asyncio.sleep(0.001)
            else:
                raise FileExists(f"{path} exists", path=str(path))
        return await super().write_file(path, content, if_version=if_version)


class LosesMode(OnLocal):
    """A replaced script is no longer executable."""

    async def write_file(self, path, content, **options):
        info = await super().write_file(path, content, **options)
        self.real(path).chmod(0o644)
        return info


class CollectsStream(OnLocal):
    """Declares streamed writes, and collects them first."""

    async def write_file(self, path, content, **options):
        return await super().write_file(path, await collect_content(content), **options)


class ReplacesLinks(OnLocal):
    """Writes where the link is, not where it leads."""

    async def write_file(self, path, content, **options):
        if isinstance(path, str) and path.endswith("/link") and self.real(path).is_symlink():
            inside = self.real(path).resolve().is_relative_to(self.working_dir)
            if inside and self.real(path).exists():
                self.real(path).unlink()
        return await super().write_file(path, content, **options)
