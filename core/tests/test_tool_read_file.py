"""ReadFile: pages that join to the file, limits, and every way to ask wrongly."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead import Capabilities, LineRange, LineWindow
from stead.environments import MemoryEnvironment
from stead.errors import FileChanged, StreamInterrupted
from stead.tools import toolset
from stead.tools.read_file import cut_page


class Chunked(MemoryEnvironment):
    """Streams come in small chunks, and may fail after some of them."""

    def __init__(self, size: int = 1 << 20, fail_after: int | None = None, error: Exception | None = None) -> None:
        super().__init__()
        self.size, self.fail_after, self.error = size, fail_after, error
        self.open_streams = 0

    async def read_file_stream(self, path, *, offset=0, length=None):
        data = (await self.read_file(path))[offset : None if length is None else offset + length]
        self.open_streams += 1
        try:
            for number, start in enumerate(range(0, len(data), self.size)):
                if number == self.fail_after and self.error is not None:
                    raise self.error
                yield data[start : start + self.size]
        finally:
            self.open_streams -= 1


def read(content: bytes, env: MemoryEnvironment | None = None, /, options: Any = None, **arguments: Any) -> Any:
    """The answer of ReadFile on a file of that content."""

    async def main():
        async with env or MemoryEnvironment() as opened:
            await opened.write_file("f", content)
            return await toolset(opened, **(options or {}))["ReadFile"](path="f", **arguments)

    return asyncio.run(main())


def lines_of(answer: dict[str, Any], *, numbered: bool) -> list[str]:
    """The lines of a page without their numbers, which are checked."""
    lines = answer["content"].split("\n") if answer["end_line"] >= answer["start_line"] else []
    if not numbered:
        return lines
    parts = [line.split("\t", 1) for line in lines]
    assert [int(number) for number, _ in parts] == list(range(answer["start_line"], answer["end_line"] + 1))
    return [text for _, text in parts]


async def joined(tool: Any, *, numbered: bool, most: int) -> str:
    """The text of all pages from the first to the last."""
    text, place = "", {}
    for _ in range(most):
        page = await tool(path="f", **place)
        assert page["status"] == "ok", page
        lines = lines_of(page, numbered=numbered)
        text += "\n".join(lines) + ("\n" if lines and page["last_line_complete"] else "")
        if not page["has_more"]:
            return text
        place = {"start_line": page["next_start_line"], "start_column": page["next_start_column"]}
    raise AssertionError(f"no end after {most} pages")


FILES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"some words ", "\u754c".encode(), "\U0001f600".encode(), b"\xff", b"\xe7", b"\t", b"\0", b"\x0c", b"\xef\xbb\xbf"]),
    max_size=60,
).map(b"".join)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(FILES, st.integers(1, 60), st.booleans(), st.integers(1, 9), st.booleans())
def test_pages_joined_are_the_file(data, limit, numbered, chunk, count_total):
    """Whatever the bytes, the limit and the chunks: the pages in order give the decoded text, and fit the limit."""

    async def main():
        async with Chunked(chunk) as env:
            await env.write_file("f", data)
            options = {"max_output_chars": limit, "number_lines": numbered, "count_total": count_total}
            tool = toolset(env, **options)["ReadFile"]
            expected = data.decode("utf-8", "replace").removeprefix("\ufeff")
            assert await joined(tool, numbered=numbered, most=len(data) + 2) == expected
            page = await tool(path="f")
            assert len(page["content"]) <= max(limit, 8 if numbered else 1)
            if count_total:
                assert page["total_lines"] == data.count(b"\n") + (data != b"" and not data.endswith(b"\n"))

    asyncio.run(main())


def test_a_page_says_where_it_starts_and_ends():
    """Without a cut: the whole range, its numbers, and the next line as the place to go on."""
    answer = read(b"a\nb\nc\nd\n", start_line=2, end_line=3)
    assert answer == {
        "status": "ok",
        "path": "f",
        "content": "     2\tb\n     3\tc",
        "total_lines": 4,
        "start_line": 2,
        "end_line": 3,
        "has_more": True,
        "truncated": False,
        "last_line_complete": True,
        "next_start_line": 4,
        "next_start_column": 1,
    }


def test_the_last_page_names_no_next_place():
    """Nothing is left and the last line is complete: no next_start_line, has_more false."""
    answer = read(b"a\nb\n")
    assert answer["has_more"] is False
    assert "next_start_line" not in answer
    assert "next_start_column" not in answer


def test_an_unterminated_last_line_is_named_again():
    """A log that grows gives each terminated line once: the unfinished one is asked for again."""
    answer = read(b"a\nb")
    assert (answer["last_line_complete"], answer["next_start_line"], answer["next_start_column"]) == (False, 2, 1)
    assert (answer["has_more"], answer["total_lines"]) == (False, 2)


def test_a_cut_inside_a_line_names_line_and_column():
    """The hint and the fields agree, and the next page starts with the next character."""
    first = read(b"0123456789" * 10 + b"\nend\n", options={"max_output_chars": 27})
    assert first["content"] == "     1\t01234567890123456789"
    assert (first["truncated"], first["last_line_complete"], first["has_more"]) == (True, False, True)
    assert (first["next_start_line"], first["next_start_column"]) == (1, 21)
    assert first["hint"] == "Cut at 27 characters, inside line 1; go on with start_line=1, start_column=21."


def test_a_cut_between_lines_names_the_next_line():
    """Where not even one character of the next line fits, the page ends with a whole line."""
    answer = read(b"abc\ndef\n", options={"max_output_chars": 15})
    assert answer["content"] == "     1\tabc"
    assert (answer["truncated"], answer["last_line_complete"], answer["next_start_line"]) == (True, True, 2)
    assert answer["hint"] == "Cut at 15 characters, after line 1; go on with start_line=2."


def test_a_page_that_starts_in_a_line_goes_on_with_the_next_lines():
    """start_column counts for the first line only."""
    answer = read(b"abcdef\nghi\n", start_column=4)
    assert answer["content"] == "     1\tdef\n     2\tghi"


@pytest.mark.parametrize("start", [None, 0, -5, 1, "1"])
@pytest.mark.parametrize("end", [None, 0, 2, 99])
def test_forgiving_numbers(start, end):
    """No start, zero, a negative one and a string of digits mean line 1; no end and zero the end of the file."""
    answer = read(b"a\nb\n", start_line=start, end_line=end)
    assert answer["content"] == "     1\ta\n     2\tb"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start_line": 3, "end_line": 2}, "start_line 3 is after end_line 2"),
        ({"end_line": -1}, "end_line is -1"),
        ({"start_line": True}, "start_line: must be a whole number, not True"),
        ({"start_line": 1.5}, "start_line: must be a whole number, not 1.5"),
        ({"end_line": 2.0}, "end_line: must be a whole number, not 2.0"),
        ({"start_line": "x"}, "start_line"),
        ({"start_column": 3}, "start_column 3 is past the end of line 1, which has 1 character"),
        ({"start_line": 10**30}, "after the end of the file, which has 2 lines"),
    ],
)
def test_wrong_ranges_are_answered(arguments, words):
    """A range that cannot be meant is an error that says what is wrong."""
    answer = read(b"a\nb\n", **arguments)
    assert answer["status"] == "error"
    assert words in answer["error"]


def test_the_byte_order_mark_is_dropped_on_the_first_line_only():
    """It is not text at the start of a file, and is text anywhere else; columns count it."""
    mark = "\ufeff"
    data = f"{mark}key: 1\n{mark}x\n".encode()
    assert read(data, options={"number_lines": False})["content"] == f"key: 1\n{mark}x"
    assert read(data, options={"number_lines": False}, start_line=2)["content"] == f"{mark}x"
    assert read(data, options={"number_lines": False}, start_column=2)["content"] == f"key: 1\n{mark}x"
    assert read(mark.encode(), options={"number_lines": False})["content"] == ""


def test_without_line_numbers_the_limit_is_the_texts():
    """max_output_chars of text fit, one more is cut."""
    options = {"number_lines": False, "max_output_chars": 10}
    assert read(b"x" * 10 + b"\n", options=options)["truncated"] is False
    assert read(b"x" * 11 + b"\n", options=options)["content"] == "x" * 10


def test_numbers_wider_than_six_digits_count_too():
    """At line ten million the number is wider, and the page still fits the limit."""
    window = LineWindow(lines="abcdef\ng", first_line=10_000_000, last_line=10_000_001, total_lines=None)
    page = cut_page(window, 1, 14, numbered=True)
    assert (page.content, page.next) == ("10000000\tabcde", (10_000_000, 6))


@pytest.mark.parametrize("count_total", [True, False])
def test_reading_stops_after_the_page_if_the_total_is_not_wanted(count_total):
    """Without a total, `total_lines` is null and `has_more` still told."""
    answer = read(b"x\n" * 1000, options={"count_total": count_total}, end_line=3)
    assert answer["total_lines"] == (1000 if count_total else None)
    assert answer["has_more"] is True


def test_a_start_after_the_end_is_an_error_also_without_a_total():
    """The scan met the end of the file, so the total is known after all."""
    answer = read(b"a\n", options={"count_total": False}, start_line=5)
    assert (answer["status"], answer["total_lines"]) == ("error", 1)


def test_lines_of_a_large_remote_file_are_not_counted():
    """Above scan_limit the total is null, unless the environment reads lines where the file is."""
    answer = read(b"a\n" * 50, options={"scan_limit": 99}, end_line=1)
    assert (answer["content"], answer["total_lines"], answer["has_more"]) == ("     1\ta", None, True)
    assert read(b"a\n" * 50, options={"scan_limit": 100}, end_line=1)["total_lines"] == 50

    class AtSource(MemoryEnvironment):
        capabilities = Capabilities(stat=True, lines_at_source=True)

    assert read(b"a\n" * 50, AtSource(), options={"scan_limit": 99}, end_line=1)["total_lines"] == 50


def test_a_stream_that_fails_in_the_middle_is_a_tool_error():
    """The answer is an error and the generator is closed."""
    for error in (StreamInterrupted("the body ended after 3 bytes"), OSError("connection reset"), RuntimeError("boom")):
        env = Chunked(3, fail_after=2, error=error)
        answer = read(b"abcdefghijk\n", env)
        assert answer["status"] == "error"
        assert str(error) in answer["error"]
        assert env.open_streams == 0


class Changing(MemoryEnvironment):
    """`read_lines` meets a changed file for the first few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def read_lines(self, path, window: LineRange) -> LineWindow:
        self.times -= 1
        if self.times >= 0:
            raise FileChanged("'f' changed while it was read", path="f")
        return await super().read_lines(path, window)


def test_a_changed_file_is_read_once_more():
    """One change is passed over in silence; a second one is an error that says so."""
    assert read(b"a\n", Changing(1))["content"] == "     1\ta"
    answer = read(b"a\n", Changing(2))
    assert answer["error"].startswith("The file is being changed by something else")


def test_faults_of_the_code_are_not_hidden():
    """A TypeError in an environment is no answer for a model, nor is a cancellation."""
    for error in (TypeError("a bug"), asyncio.CancelledError()):
        env = MemoryEnvironment()

        async def broken(path, window, error=error):
            raise error

        env.read_lines = broken
        with pytest.raises(type(error)):
            read(b"a\n", env)


def test_offloads_of_another_environment_are_opened():
    """ReadFile asks the locator first, and reads the rest in its own environment."""

    class Locator:
        def __init__(self, store):
            self.store = store

        def environment_of(self, path):
            return self.store if path == ".stead/offloads/s/trunc/x" else None

    async def main():
        async with MemoryEnvironment() as env, MemoryEnvironment() as store:
            await store.write_file(".stead/offloads/s/trunc/x", "stored\n")
            await env.write_file("own", "mine\n")
            tools = toolset(env, offloads=Locator(store))
            stored = await tools["ReadFile"](path=".stead/offloads/s/trunc/x")
            own = await tools["ReadFile"](path="own")
            found = await tools["Grep"](pattern="o", path=".stead/offloads/s/trunc/x")
            return stored["content"], own["content"], found["count"]

    assert asyncio.run(main()) == ("     1\tstored", "     1\tmine", 1)
