"""Laws about reading lines: numbered from 1, ended by newline alone, counted exactly, in bounded memory."""

import pytest

from stead.conformance.folder import Folder
from stead.conformance.large import large_file
from stead.conformance.law import law
from stead.conformance.peak import Peak
from stead.conformance.settings import LawSettings
from stead.environment import Environment
from stead.errors import FileMissing, IsADirectory
from stead.results import LineRange, LineWindow

__all__ = ["LineLaws"]

_MIB = 1 << 20


class LineLaws(LawSettings):
    """Group E: lines."""

    @law("E1")
    async def test_lines_first_middle_last(self, env: Environment, here: Folder) -> None:
        """The first, a middle and the last line come with their own numbers."""
        await env.write_file(here / "a", "".join(f"line {n}\n" for n in range(1, 101)))
        for number in (1, 50, 100):
            page = await env.read_lines(here / "a", LineRange(start=number, end=number))
            assert (page.lines, page.first_line, page.last_line) == (f"line {number}", number, number)

    @law("E2")
    async def test_lines_total(self, env: Environment, here: Folder) -> None:
        """`total_lines` is exact although only a small window is kept."""
        await env.write_file(here / "a", "x\n" * 200_000 + "tail")
        page = await env.read_lines(here / "a", LineRange(start=3, end=4))
        assert (page.lines, page.total_lines) == ("x\nx", 200_001)

    @law("E3")
    async def test_lines_window_to_the_end(self, env: Environment, here: Folder) -> None:
        """Without an end, and with an end past the file's, the window goes to the last line."""
        await env.write_file(here / "a", "1\n2\n3\n")
        for end in (None, 3, 99):
            page = await env.read_lines(here / "a", LineRange(start=2, end=end))
            assert (page.lines, page.last_line, page.next_start_line) == ("2\n3", 3, None)

    @law("E4")
    async def test_lines_past_the_end(self, env: Environment, here: Folder) -> None:
        """A window that starts at the last line has it; one that starts after it is empty and has the total."""
        await env.write_file(here / "a", "1\n2\n3\n")
        assert (await env.read_lines(here / "a", LineRange(start=3))).lines == "3"
        page = await env.read_lines(here / "a", LineRange(start=4))
        assert (page.lines, page.last_line, page.total_lines) == ("", 3, 3)

    @law("E5")
    async def test_lines_one_character(self, env: Environment, here: Folder) -> None:
        """A budget of one character gives one, and says where to go on."""
        await env.write_file(here / "a", "abc\nd\n")
        page = await env.read_lines(here / "a", LineRange(max_chars=1))
        assert (page.lines, page.truncated) == ("a", True)
        assert (page.next_start_line, page.next_start_column) == (1, 2)

    @law("E6")
    async def test_lines_empty_file(self, env: Environment, here: Folder) -> None:
        """An empty file has no lines and is no error."""
        await env.write_file(here / "a", "")
        page = await env.read_lines(here / "a", LineRange())
        assert (page.lines, page.total_lines, page.truncated) == ("", 0, False)

    @law("E7")
    async def test_lines_no_final_newline(self, env: Environment, here: Folder) -> None:
        """An unterminated last line is a line, marked as incomplete and named again as the next."""
        await env.write_file(here / "a", "1\n2")
        page = await env.read_lines(here / "a", LineRange())
        assert (page.lines, page.total_lines, page.last_line_complete) == ("1\n2", 2, False)
        assert page.next_start_line == 2

    @law("E8")
    async def test_lines_across_chunks(self, env: Environment, here: Folder) -> None:
        """A window in the middle of many megabytes has exactly its lines."""
        await env.write_file(here / "a", "".join(f"{n:>40}\n" for n in range(1, 200_001)))
        for start in (25_570, 51_140, 102_300, 199_998):
            page = await env.read_lines(here / "a", LineRange(start=start, end=start + 2))
            assert page.lines == "\n".join(f"{n:>40}" for n in range(start, start + 3))

    @law("E9")
    async def test_lines_budget_in_characters(self, env: Environment, here: Folder) -> None:
        """The budget counts characters, and a cut never falls inside one."""
        await env.write_file(here / "a", "\u754c" * 1000 + "\n")
        page = await env.read_lines(here / "a", LineRange(max_chars=333))
        assert page.lines == "\u754c" * 333

    @law("E10")
    async def test_lines_giant_line_paged(self, env: Environment, here: Folder) -> None:
        """One giant line can be read page by page, without a gap or an overlap."""
        text = "".join(f"{n:06d}\u754c" for n in range(20_000))
        await env.write_file(here / "a", text)
        column: int | None = 1
        found: list[str] = []
        while column is not None and len(found) < 20:
            page = await env.read_lines(here / "a", LineRange(start_column=column, max_chars=30_000))
            found.append(page.lines)
            column = page.next_start_column if page.truncated else None
        assert "".join(found) == text

    @law("E10")
    async def test_lines_column_past_the_end(self, env: Environment, here: Folder) -> None:
        """A column past the end of its line is a ValueError that has the line's length."""
        await env.write_file(here / "a", "abcde\nf\n")
        with pytest.raises(ValueError, match="5"):
            await env.read_lines(here / "a", LineRange(start_column=9))

    @law("E11")
    async def test_lines_end_at_newline_only(self, env: Environment, here: Folder) -> None:
        """Form feed, CR, NEL and U+2028 do not end a line."""
        odd = "a\x0bb\x0cc\rd\x85e\u2028f\u2029g\x1ch"
        await env.write_file(here / "a", f"{odd}\n2\n")
        page = await env.read_lines(here / "a", LineRange(end=1))
        assert (page.lines, page.total_lines) == (odd, 2)

    @law("E11")
    async def test_lines_undecodable(self, env: Environment, here: Folder) -> None:
        """Bytes that are no UTF-8 become U+FFFD and shift no line."""
        await env.write_file(here / "a", b"\xff\xfe\n\xe7\x95\nok\n")
        page = await env.read_lines(here / "a", LineRange())
        assert page.lines == "\ufffd\ufffd\n\ufffd\nok"

    @law("E2", needs="streaming_read")
    async def test_lines_bounded_memory(self, env: Environment, here: Folder, peak: Peak) -> None:
        """Counting the lines of a large file needs less than 32 MiB."""
        await large_file(env, here / "large", self.large_file)
        async with peak() as growth:
            page = await env.read_lines(here / "large", LineRange(start=1000, end=1001))
        assert page.total_lines is not None
        assert page.total_lines > self.large_file // 60
        assert growth.bytes < 32 * _MIB

    @law("E1", needs="lines_at_source")
    async def test_lines_at_source_agree(self, env: Environment, here: Folder) -> None:
        """Lines that are read where the file is are those that a scan of the stream finds."""
        from stead.reading import read_lines_of_stream

        await env.write_file(here / "a", b"1\n\n\xe7\x95\x8c three\r\n\xff4\nlast")
        for window in (LineRange(), LineRange(start=2, end=3), LineRange(start=9), LineRange(start=3, max_chars=3)):
            found: list[LineWindow] = [
                await env.read_lines(here / "a", window),
                await read_lines_of_stream(env, here / "a", window),
            ]
            assert found[0] == found[1]

    @law("E1")
    async def test_lines_errors(self, env: Environment, here: Folder) -> None:
        """A missing file is FileMissing and a directory IsADirectory, not an empty window."""
        await here.make(env)
        with pytest.raises(FileMissing):
            await env.read_lines(here / "no-such-file", LineRange())
        with pytest.raises(IsADirectory):
            await env.read_lines(here.path, LineRange())
