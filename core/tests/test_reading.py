"""The line scanner, the window and the index, against a plain model of the same rules."""

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.environments import MemoryEnvironment
from stead.reading import STEP, IndexCache, LineIndex, LineScanner
from stead.reading.newlines import nth_newline
from stead.results import LineRange, LineWindow


def model(data: bytes, window: LineRange) -> LineWindow:
    """What the window must be, by splitting everything: the rules, not the way."""
    lines = [line.decode("utf-8", "replace") for line in data.split(b"\n")]
    terminated = lines[-1] == ""
    if terminated:
        lines.pop()
    total = len(lines)
    if window.start > total:
        return LineWindow(lines="", first_line=window.start, last_line=window.start - 1, total_lines=total)
    length = len(lines[window.start - 1])
    if window.start_column > max(length, 1):
        raise ValueError(f"line {window.start}, which has {length} characters")
    last = total if window.end is None else min(window.end, total)
    text = "\n".join(lines[window.start - 1 : last])[window.start_column - 1 :]
    shown = text[: window.max_chars]
    if shown != text:
        at_end = text[window.max_chars] == "\n" or shown.endswith("\n")
        if text[window.max_chars] != "\n":
            shown = shown.removesuffix("\n")
        last_line = window.start + shown.count("\n")
        column = len(shown) - shown.rfind("\n") if "\n" in shown else window.start_column + len(shown)
        return LineWindow(
            lines=shown,
            first_line=window.start,
            last_line=last_line,
            total_lines=total,
            last_line_complete=at_end,
            truncated=True,
            next_start_line=last_line + at_end,
            next_start_column=1 if at_end else column,
        )
    complete = last < total or terminated
    more = last < total or not complete
    return LineWindow(
        lines=shown,
        first_line=window.start,
        last_line=last,
        total_lines=total,
        last_line_complete=complete,
        next_start_line=last + complete if more else None,
        next_start_column=1 if more else None,
    )


def scan(data: bytes, window: LineRange, chunk: int, index: LineIndex | None = None) -> LineWindow:
    scanner = LineScanner(window, index)
    for i in range(0, len(data), chunk):
        scanner.feed(data[i : i + chunk])
    return scanner.finish(scanner.total_lines())


def outcome(function, *args):
    try:
        return function(*args)
    except ValueError as error:
        return str(error).split(" of ")[-1]


pieces = st.sampled_from(
    [b"\n", b"\n\n", b"a", b"bc", b"\r\n", b"\xe7\x95\x8c", b"\xe7\x95", b"\xf0\x9f\x98\x80", b"\xff", b"\x0c"]
)
files = st.lists(pieces, max_size=30).map(b"".join)
windows = st.builds(
    lambda start, span, column, chars: LineRange(
        start=start, end=None if span is None else start + span, start_column=column, max_chars=chars
    ),
    st.integers(1, 8),
    st.none() | st.integers(0, 5),
    st.integers(1, 6),
    st.integers(1, 12),
)


@settings(max_examples=1500, deadline=None)
@given(files, windows, st.sampled_from([1, 2, 3, 7, 1000]))
def test_window_equals_the_model_for_any_chunks(data, window, chunk):
    """The same bytes give the same window, however they are cut into chunks."""
    assert outcome(scan, data, window, chunk) == outcome(model, data, window)


@settings(max_examples=300, deadline=None)
@given(files, st.integers(1, 12))
def test_pages_joined_give_the_whole_text(data, chars):
    """Following next_start_line and next_start_column loses and repeats nothing."""
    line, column, text = 1, 1, ""
    for _ in range(300):
        page = scan(data, LineRange(start=line, start_column=column, max_chars=chars), 4)
        text += page.lines
        if not page.truncated:
            break
        text += "\n" if page.last_line_complete else ""
        line, column = page.next_start_line, page.next_start_column
    expected = "\n".join(line.decode("utf-8", "replace") for line in data.split(b"\n"))
    assert text == expected.removesuffix("\n")


@pytest.mark.parametrize("unit", [b"x" * 74 + b"\n", b"\n", b"a", "界".encode(), b"\xff\xe7\x95", "é\n".encode()])
def test_index_finds_every_place_in_files_beyond_its_step(unit):
    """A page read from a checkpoint equals the page read from the start: short lines, giant lines, broken bytes."""
    data = (unit * (3 * STEP // len(unit) + 7))[: 3 * STEP + 5]
    index = LineIndex()
    whole = scan(data, LineRange(max_chars=1), 100_003, index)
    total = whole.total_lines
    assert (index.total_lines, index.covered) == (total, len(data))
    assert index.memory <= 24 * 5
    text = data.decode("utf-8", "replace")
    for line, column in [
        (1, 1),
        (total, 1),
        (max(1, total // 2), 1),
        (1, 2 if total > 1 else len(text) - 3),
        (max(1, total - 1), 1),
    ]:
        window = LineRange(start=line, start_column=column, max_chars=50)
        checkpoint = index.find(line, column)
        scanner = LineScanner(window, start=checkpoint)
        scanner.feed(data[checkpoint.byte :])
        expected = outcome(scan, data, window, 1 << 20)
        assert outcome(scanner.finish, total) == expected


def test_index_extended_after_growth_equals_a_fresh_one():
    """Counting on from the last checkpoint gives the index of the whole file."""
    data = b"line of text\n" * (STEP // 4) + b"tail"
    grown, fresh = LineIndex(), LineIndex()
    scan(data[: STEP + 12345], LineRange(max_chars=1), 4096, grown)
    scanner = LineScanner(None, grown, start=grown.last())
    scanner.feed(data[grown.last().byte :])
    scan(data, LineRange(max_chars=1), 1 << 20, fresh)
    assert [grown.find(n) for n in range(1, 70_000, 997)] == [fresh.find(n) for n in range(1, 70_000, 997)]
    assert (grown.total_lines, grown.covered) == (fresh.total_lines, fresh.covered)


@given(st.binary(max_size=200).map(lambda b: b.replace(b"a", b"\n")), st.data())
def test_nth_newline_is_where_counting_says(data, draw):
    """The n-th newline is found exactly, in small and in large ranges."""
    padded = data + b"\n" * 9000
    n = draw.draw(st.integers(0, padded.count(b"\n")))
    place = nth_newline(padded, n, 0, len(padded))
    assert padded[:place].count(b"\n") == n
    assert n == 0 or padded[place - 1] == 10


def test_cache_is_bounded_by_files_and_bytes():
    """The indexes used longest ago go first."""
    cache: IndexCache[str] = IndexCache(max_files=2, max_bytes=100)
    for name in "abc":
        cache.put(name, LineIndex(), "v")
    assert (cache.get("a"), cache.get("c") is not None) == (None, True)


class _Chunked(MemoryEnvironment):
    """Counts what travels."""

    sent = 0

    async def read_file_stream(self, path, *, offset=0, length=None) -> AsyncGenerator[bytes, None]:
        data = await self.read_file(path)
        for i in range(offset, len(data), 65536):
            part = data[i : i + 65536]
            self.sent += len(part)
            yield part


def test_second_page_over_a_stream_reads_only_its_part():
    """With versions and ranges, a repeated read fetches O(page)."""

    async def main():
        async with _Chunked() as env:
            await env.write_file("log", b"0123456789\n" * 400_000)
            first = await env.read_lines("log", LineRange(start=390_000, end=390_001))
            env.sent = 0
            second = await env.read_lines("log", LineRange(start=200_000, end=200_002))
            return first, second, env.sent

    first, second, sent = asyncio.run(main())
    assert (first.total_lines, second.total_lines, second.lines) == (400_000, 400_000, "\n".join(["0123456789"] * 3))
    assert sent <= STEP + 2 * 65536


def test_a_giant_line_needs_no_giant_memory():
    """50 MB in one line are scanned in bounded memory."""

    async def main():
        scanner = LineScanner(LineRange(start_column=40_000_000, max_chars=100), LineIndex())
        piece = b"a" * 1_000_000
        tracemalloc.start()
        for _ in range(50):
            scanner.feed(piece)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return scanner.finish(scanner.total_lines()), peak

    page, peak = asyncio.run(main())
    assert (page.lines, page.next_start_column, page.total_lines) == ("a" * 100, 40_000_100, 1)
    assert peak < 8 << 20
