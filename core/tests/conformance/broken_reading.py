"""Environments whose reading, paths, listings or declarations are broken, each in one way that real ones were."""

import os
from contextlib import aclosing
from dataclasses import replace
from pathlib import PurePosixPath

from broken_files import MIB, OnLocal, OnMemory

from stead import FileInfo, LineWindow
from stead.errors import FileMissing, IsADirectory, PathOutsideRoot, SteadError

# ---- read ----------------------------------------------------------------------------------------------------------


class DirectoryIsMissing(OnMemory):
    """The wrong error: a directory is reported as missing."""

    async def read_file(self, path):
        try:
            return await super().read_file(path)
        except IsADirectory as error:
            raise FileMissing(error.message, path=error.path) from error


class PlainError(OnMemory):
    """The builtin error instead of ours, for a file in a missing directory."""

    async def read_file(self, path):
        try:
            return await super().read_file(path)
        except FileMissing as error:
            if "no/such" in str(path):
                raise FileNotFoundError(error.message) from error
            raise


class OutageIsMissing(OnMemory):
    """A service that does not answer makes every file look missing."""


# ---- stream --------------------------------------------------------------------------------------------------------


class ShortStream(OnMemory):
    """Drops the last chunk of a long file."""

    async def read_file_stream(self, path, *, offset=0, length=None):
        held = None
        async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
            first = True
            async for chunk in chunks:
                if held is not None:
                    yield held
                    first = False
                held = chunk
        if first and held is not None:
            yield held


class SwallowsMissing(OnMemory):
    """A missing file is an empty stream."""

    async def read_file_stream(self, path, *, offset=0, length=None):
        try:
            async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except FileMissing:
            return


class SwallowsCut(OnMemory):
    """A body that ends early is a short file."""


class WholeFileStream(OnLocal):
    """Declares streamed reads, and reads the file whole."""

    async def read_file_stream(self, path, *, offset=0, length=None):
        async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
            data = b"".join([chunk async for chunk in chunks])
        for start in range(0, len(data), MIB):
            yield data[start : start + MIB]


class LeaksHandle(OnLocal):
    """A stream that is closed early keeps its file open."""

    leaked = []

    async def _close(self):
        await super()._close()
        while self.leaked:
            self.leaked.pop().close()

    async def read_file_stream(self, path, *, offset=0, length=None):
        finished = False
        try:
            async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk
            finished = True
        finally:
            if not finished and self.real(path).is_file():
                self.leaked.append(self.real(path).open("rb"))


class MixedVersions(OnMemory):
    """Declares pinned reads, and asks for each chunk anew."""

    async def read_file_stream(self, path, *, offset=0, length=None):
        if length is not None or offset:
            async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        await self._ready()
        while part := (await self.inner.read_file(path))[offset : offset + MIB]:
            yield part
            self._lifecycle.check_usable()
            offset += len(part)


class SlowRange(OnLocal):
    """Declares range reads, and reads from the start."""

    async def read_file_stream(self, path, *, offset=0, length=None):
        if offset <= 0 or length is not None:
            async with aclosing(super().read_file_stream(path, offset=offset, length=length)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        async with aclosing(super().read_file_stream(path)) as chunks:
            async for chunk in chunks:
                part, offset = chunk[offset:], max(0, offset - len(chunk))
                if part:
                    yield part


# ---- lines ---------------------------------------------------------------------------------------------------------


class SplitLines(OnMemory):
    """Lines end wherever `str.splitlines` says."""

    async def read_lines(self, path, window):
        page = await super().read_lines(path, window)
        text = (await self.read_file(path)).decode(errors="replace")
        odd = len(text.splitlines()) - text.count("\n")
        return replace(page, total_lines=len(text.splitlines())) if odd > 1 and page.total_lines else page


class StopsCounting(OnMemory):
    """The total is what it has seen so far."""

    async def read_lines(self, path, window):
        page = await super().read_lines(path, window)
        if window.end is None or page.total_lines is None:
            return page
        return replace(page, total_lines=min(page.total_lines, window.end + 100))


class CutsCharacters(OnMemory):
    """The budget counts bytes."""

    async def read_lines(self, path, window) -> LineWindow:
        page = await super().read_lines(path, window)
        if len(page.lines.encode()) <= window.max_chars:
            return page
        return replace(page, lines=page.lines.encode()[: window.max_chars].decode(errors="replace"))


# ---- paths ---------------------------------------------------------------------------------------------------------


class EscapesByDots(OnLocal):
    """`..` is joined and followed."""

    async def read_file(self, path):
        try:
            return await super().read_file(path)
        except PathOutsideRoot:
            if ".." not in str(path):
                raise
            return b"escaped"


class EscapesByLink(OnLocal):
    """A link is followed wherever it leads."""

    async def read_file(self, path):
        try:
            return await super().read_file(path)
        except PathOutsideRoot:
            if ".." in str(path) or str(path).startswith("/"):
                raise
            return self.real(path).read_bytes()


class PrefixIsInside(OnLocal):
    """Compares the root as text, so a sibling that shares its prefix is inside."""

    async def write_file(self, path, content, **options):
        try:
            return await super().write_file(path, content, **options)
        except PathOutsideRoot:
            if not str(path).startswith(str(self.working_dir)) or ".." in str(path):
                raise
            return FileInfo(path=str(path), kind="file")


class FoldsCase(OnMemory):
    """Declares case-sensitive names, and folds them."""

    def _fold(self, path):
        head, _, name = str(path).rpartition("/")
        return f"{head}/{name.lower()}" if isinstance(path, str) and name in ("a", "A") else path

    async def read_file(self, path):
        return await super().read_file(self._fold(path))

    async def write_file(self, path, content, **options):
        return await super().write_file(self._fold(path), content, **options)


class ExpandsGlobs(OnMemory):
    """A star in a name finds another file."""

    async def read_file(self, path):
        try:
            return await super().read_file(path)
        except FileMissing:
            if not str(path).endswith("*.txt"):
                raise
            return await super().read_file(PurePosixPath(path).parent / "a.txt")


class DecodesPercent(OnMemory):
    """A percent sign in a name is decoded."""

    def _decoded(self, path):
        return path.replace("%41", "A") if isinstance(path, str) else path

    async def read_file(self, path):
        return await super().read_file(self._decoded(path))

    async def write_file(self, path, content, **options):
        return await super().write_file(self._decoded(path), content, **options)


# ---- listing -------------------------------------------------------------------------------------------------------


class ListsSiblings(OnMemory):
    """Lists by the prefix of the name."""

    async def list_files(self, path=".", *, recursive=False):
        async with aclosing(super().list_files(path, recursive=recursive)) as entries:
            async for entry in entries:
                yield entry
        sibling = str(path).rstrip("/") + "-2"
        try:
            async with aclosing(self.inner.list_files(sibling, recursive=True)) as entries:
                async for entry in entries:
                    yield entry
        except SteadError:
            return


class Unsorted(OnMemory):
    """Lists in any order."""

    async def list_files(self, path=".", *, recursive=False):
        async with aclosing(super().list_files(path, recursive=recursive)) as entries:
            found = [entry async for entry in entries]
        for entry in reversed(found):
            yield entry


class DeletesNothing(OnMemory):
    """Deleting what is missing succeeds without a word."""

    async def delete_file(self, path):
        try:
            await super().delete_file(path)
        except FileMissing:
            return


# ---- declarations --------------------------------------------------------------------------------------------------


class HidesStat(OnMemory):
    """Does not declare `stat`, and answers it."""

    @property
    def capabilities(self):
        return replace(self.inner.capabilities, stat=False)


class HidesDelete(OnMemory):
    """Does not declare `delete_file`, and answers without doing anything."""

    @property
    def capabilities(self):
        return replace(self.inner.capabilities, delete_file=False)

    async def delete_file(self, path):
        """Does nothing, and says nothing."""


class LeavesDescriptor(OnMemory):
    """Keeps a descriptor open after close."""

    kept = []

    async def _start(self):
        await super()._start()
        self.kept.append(os.dup(0))
