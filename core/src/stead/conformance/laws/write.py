"""Laws about writing a file: what is written is what is read, or nothing has changed."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator

import pytest

from stead.conformance.folder import Folder
from stead.conformance.law import law
from stead.conformance.peak import Peak
from stead.conformance.settings import LawSettings
from stead.conformance.streams import pieces
from stead.environment import Content, Environment
from stead.errors import IsADirectory, NotADirectory

__all__ = ["WriteLaws"]

_MIB = 1 << 20


class WriteLaws(LawSettings):
    """Group B: write, then read."""

    @law("B1")
    async def test_write_text(self, env: Environment, here: Folder) -> None:
        """Text that was written is read back as its UTF-8 bytes."""
        await _same(env, here, "plain text\n", b"plain text\n")

    @law("B2")
    async def test_write_all_bytes(self, env: Environment, here: Folder) -> None:
        """All 256 byte values come back."""
        await _same(env, here, bytes(range(256)) * 3, bytes(range(256)) * 3)

    @law("B3")
    async def test_write_nul(self, env: Environment, here: Folder) -> None:
        """NUL bytes come back, also at both ends."""
        await _same(env, here, b"\0a\0\0b\0", b"\0a\0\0b\0")

    @law("B4")
    async def test_write_empty(self, env: Environment, here: Folder) -> None:
        """An empty file exists and has no bytes."""
        await _same(env, here, b"", b"")

    @law("B5")
    async def test_write_newlines_untouched(self, env: Environment, here: Folder) -> None:
        """CRLF, a lone CR and mixed newlines come back unchanged."""
        await _same(env, here, "a\r\nb\rc\nd\n\r", b"a\r\nb\rc\nd\n\r")

    @law("B6")
    async def test_write_no_final_newline(self, env: Environment, here: Folder) -> None:
        """No newline is added at the end."""
        await _same(env, here, "a\nb", b"a\nb")

    @law("B7")
    async def test_write_only_newlines(self, env: Environment, here: Folder) -> None:
        """A file of newlines alone comes back."""
        await _same(env, here, "\n\n\n", b"\n\n\n")

    @law("B8")
    async def test_write_multibyte_text(self, env: Environment, here: Folder) -> None:
        """Emoji, CJK and combining marks come back, in the form in which they were written."""
        text = "h\u00e9 he\u0301 \u754c \U0001f600 \U0001f468\u200d\U0001f469"
        await _same(env, here, text, text.encode())

    @law("B9")
    async def test_write_bom_kept(self, env: Environment, here: Folder) -> None:
        """A byte order mark is content: it is neither dropped nor added."""
        await _same(env, here, "\ufeffa", b"\xef\xbb\xbfa")

    @law("B10")
    async def test_write_surrogate_refused(self, env: Environment, here: Folder) -> None:
        """A lone surrogate is refused with UnicodeEncodeError, and the old file is intact."""
        await _refused(env, here, "new \ud83d", UnicodeEncodeError)

    @law("B11")
    async def test_write_8_mib(self, env: Environment, here: Folder) -> None:
        """1 MiB and 8 MiB of noise come back."""
        for size in (_MIB, 8 * _MIB):
            data = os.urandom(size)
            await _same(env, here, data, data)

    @law("B11")
    async def test_write_100_mib(self, env: Environment, here: Folder) -> None:
        """100 MiB come back, by checksum."""
        data = os.urandom(_MIB) * 100
        await env.write_file(here / "a", data)
        digest = hashlib.sha256(data).digest()
        del data
        assert hashlib.sha256(await env.read_file(here / "a")).digest() == digest

    @law("B12")
    async def test_write_long_line(self, env: Environment, here: Folder) -> None:
        """One line of 5 MiB comes back."""
        data = b"x" * (5 * _MIB) + b"\n"
        await _same(env, here, data, data)

    @law("B13")
    async def test_write_shorter(self, env: Environment, here: Folder) -> None:
        """Overwriting by something shorter leaves no tail."""
        await env.write_file(here / "a", "long " * 1000)
        await _same(env, here, "short", b"short")

    @law("B14")
    async def test_write_text_and_bytes(self, env: Environment, here: Folder) -> None:
        """Text can replace bytes, and bytes text."""
        for content, expected in (("text", b"text"), (b"\xff\xfe", b"\xff\xfe"), ("back", b"back")):
            await _same(env, here, content, expected)

    @law("B15")
    async def test_write_makes_parents(self, env: Environment, here: Folder) -> None:
        """Missing parents are made, five levels deep."""
        await env.write_file(here / "1/2/3/4/5/a.txt", "deep")
        assert await env.read_file(here / "1/2/3/4/5/a.txt") == b"deep"

    @law("B16")
    async def test_write_parent_is_file(self, env: Environment, here: Folder) -> None:
        """Writing below a file fails with NotADirectory, and the file is intact."""
        await env.write_file(here / "a", "file")
        with pytest.raises(NotADirectory):
            await env.write_file(here / "a/b", "x")
        assert await env.read_file(here / "a") == b"file"

    @law("B17")
    async def test_write_onto_directory(self, env: Environment, here: Folder) -> None:
        """Writing onto a directory fails with IsADirectory, and what is in it stays."""
        await env.write_file(here / "d/a", "inside")
        with pytest.raises(IsADirectory):
            await env.write_file(here / "d", "x")
        assert await env.read_file(here / "d/a") == b"inside"

    @law("B18")
    async def test_write_trailing_slash(self, env: Environment, here: Folder) -> None:
        """A path that ends in a slash names a directory: IsADirectory."""
        with pytest.raises(IsADirectory):
            await env.write_file(here / "new/", "x")

    @law("B19")
    async def test_write_buffers_copied(self, env: Environment, here: Folder) -> None:
        """A bytearray or memoryview is accepted, and copied before the caller can change it."""
        for view in (bytearray, memoryview):
            buffer = bytearray(b"before" * 1000)
            task = asyncio.create_task(env.write_file(here / "a", view(buffer)))
            await asyncio.sleep(0)
            buffer[:] = b"after!" * 1000
            await task
            assert await env.read_file(here / "a") == b"before" * 1000

    @law("B20")
    async def test_write_wrong_type(self, env: Environment, here: Folder) -> None:
        """Content of another type is a TypeError, and the old file is intact."""
        for wrong in (1, None, ["a"], object()):
            await _refused(env, here, wrong, TypeError)  # type: ignore[arg-type]

    @law("B24")
    async def test_write_many_at_once(self, env: Environment, here: Folder) -> None:
        """Fifty concurrent writes of different files all arrive."""
        names = [here / f"d{n % 5}/{n}.txt" for n in range(50)]
        await asyncio.gather(*(env.write_file(name, name * 100) for name in names))
        assert [await env.read_file(name) for name in names] == [(name * 100).encode() for name in names]

    @law("B26")
    async def test_write_seen_at_once(self, env: Environment, here: Folder) -> None:
        """What was written is visible to the next read, each time."""
        for turn in range(20):
            await _same(env, here, f"turn {turn}", f"turn {turn}".encode())

    @law("D21")
    async def test_write_stream(self, env: Environment, here: Folder) -> None:
        """An async iterator of bytes-like pieces is written in order."""
        await _same(env, here, pieces(b"one ", bytearray(b"two "), b"", memoryview(b"three")), b"one two three")

    @law("D21")
    async def test_write_stream_empty(self, env: Environment, here: Folder) -> None:
        """An async iterator without pieces writes an empty file."""
        await env.write_file(here / "a", "old")
        await _same(env, here, pieces(), b"")

    @law("D21")
    async def test_write_stream_wrong_piece(self, env: Environment, here: Folder) -> None:
        """A piece that is not bytes-like is a TypeError, and the old file is intact."""
        await _refused(env, here, pieces(b"new", "text"), TypeError)

    @law("D21", needs="streaming_write")
    async def test_write_stream_bounded_memory(self, env: Environment, here: Folder, peak: Peak) -> None:
        """Writing a large file from an iterator needs less than 32 MiB."""
        block = os.urandom(_MIB)

        async def source() -> AsyncIterator[bytes]:
            for _ in range(self.large_file // _MIB):
                yield block

        async with peak() as growth:
            info = await env.write_file(here / "large", source())
        assert info.size == self.large_file // _MIB * _MIB
        assert growth.bytes < 32 * _MIB


async def _same(env: Environment, here: Folder, content: Content, expected: bytes) -> None:
    info = await env.write_file(here / "a", content)
    found = await env.read_file(here / "a")
    assert (len(found), info.size) == (len(expected), len(expected))
    assert found == expected


async def _refused(env: Environment, here: Folder, content: Content, error: type[Exception]) -> None:
    await env.write_file(here / "kept", "old content")
    with pytest.raises(error):
        await env.write_file(here / "kept", content)
    assert await env.read_file(here / "kept") == b"old content"
