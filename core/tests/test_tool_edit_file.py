"""EditFile and WriteFile: exact, unique, byte for byte, and never one edit over another."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead import Capabilities
from stead.environments import MemoryEnvironment
from stead.tools import edit_file, toolset
from stead.tools.replacing import TextNotFoundError, TooManyMatchesError, replace_text


def edit(data: bytes, /, env: MemoryEnvironment | None = None, **arguments: Any) -> tuple[dict[str, Any], bytes]:
    """The answer of EditFile on a file of that content, and the content afterwards."""

    async def main():
        async with env or MemoryEnvironment() as opened:
            await opened.write_file("f", data)
            answer = await toolset(opened)["EditFile"](path="f", **arguments)
            return answer, await opened.read_file("f")

    return asyncio.run(main())


def test_one_replacement():
    """The answer says where, how often, and what version is there now."""
    answer, after = edit(b"a\nb\nc\n", old_text="b", new_text="BB")
    assert after == b"a\nBB\nc\n"
    assert answer == {
        "status": "ok",
        "path": "f",
        "replacements": 1,
        "line": 2,
        "size": 7,
        "version": "2",
        "conditional": True,
    }


def test_several_matches_name_their_lines():
    """Ambiguity is an error that says how many and where, and writes nothing."""
    answer, after = edit(b"x\n" * 12, old_text="x", new_text="y")
    assert after == b"x\n" * 12
    assert (answer["status"], answer["matches"], answer["lines"]) == ("error", 12, list(range(1, 11)))
    assert "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..." in answer["error"]


def test_overlapping_matches_are_several():
    """`aa` is in `aaa` twice, so it names no single place; replace_all goes from the left."""
    answer, after = edit(b"aaa", old_text="aa", new_text="b")
    assert (answer["matches"], after) == (2, b"aaa")
    answer, after = edit(b"aaa", old_text="aa", new_text="b", replace_all=True)
    assert (answer["replacements"], after) == (1, b"ba")


@pytest.mark.parametrize(
    ("data", "old", "words"),
    [
        (b"abc\n", "abd", "old_text is not in 'f'"),
        (b"abc\n", "     1\tabc", "Leave out the line numbers"),
        (b"a\x99c\n", "a\ufffdc", "U\\+FFFD"),
        (b"abc\n", "abc\ud83d", "lone surrogate"),
        (b"abc\n", "", "old_text is empty.*WriteFile"),
        (b"abc\n", "x", "Read the place again with ReadFile"),
    ],
)
def test_what_is_not_there_is_explained(data, old, words):
    """Not found comes with the most likely reason, and the file stays."""
    answer, after = edit(data, old_text=old, new_text="new")
    assert (answer["status"], after) == ("error", data)
    assert re.search(words, answer["error"])


def test_nothing_to_change():
    """Equal texts are a mistake."""
    answer, _ = edit(b"abc", old_text="b", new_text="b")
    assert "nothing to change" in answer["error"]


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        # The whole match takes the line breaks that it had.
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "A\nB\n", b"A\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb\r\n", "A\r\nB\r\n", b"A\r\nB\r\nc\r\n"),
        # More lines than before, and none.
        (b"a\r\nb\r\nc\r\n", "b\n", "1\n2\n3\n", b"a\r\n1\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b\n", "", b"a\r\nc\r\n"),
        # A needle that starts with a break takes the carriage return with it.
        (b"a\r\nb\r\n", "\nb", "\nx\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\n", "a", b"ab\r\n"),
        # A file with both: what is not matched stays, the n-th break follows the n-th.
        (b"a\r\nb\nc\r\nd\n", "b\nc\n", "B\nC\n", b"a\r\nB\nC\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "d\n", "D\nE\n", b"a\r\nb\nc\r\nD\nE\n"),
        # No guessing: a needle without a break, or spelled with \r\n, is replaced literally.
        (b"a\r\nb\r\n", "a", "x\ny", b"x\ny\r\nb\r\n"),
        (b"a\r\n", "a\r\n", "a\n", b"a\n"),
        (b"a\nb\n", "a\n", "a\r\n", b"a\r\nb\n"),
    ],
)
def test_line_breaks(data, old, new, expected):
    r"""`\n` matches `\r\n`, and the new text follows it."""
    assert edit(data, old_text=old, new_text=new)[1] == expected


def test_line_breaks_with_replace_all():
    """Each match keeps its own kind of line break."""
    answer, after = edit(b"x\r\ny\nx\ny\n", old_text="x\ny", new_text="p\nq", replace_all=True)
    assert (answer["replacements"], after) == (2, b"p\r\nq\np\nq\n")


def test_matches_that_differ_in_line_breaks_are_several():
    r"""What looks the same to a model is ambiguous, even if one spelling is literally the file's."""
    answer, after = edit(b"x\r\ny\nx\ny\n", old_text="x\ny", new_text="p")
    assert (answer["matches"], answer["lines"], after) == (2, [1, 3], b"x\r\ny\nx\ny\n")


def test_one_crlf_is_one_match():
    """A lone line break in a file of CRLF lines is one place for each line."""
    with pytest.raises(TooManyMatchesError) as caught:
        replace_text(b"a\r\nb\r\n", b"\n", b"")
    assert (caught.value.count, caught.value.lines) == (2, [1, 2])
    assert replace_text(b"a\r\nb", b"\n", b"\n\n").data == b"a\r\n\r\nb"


BYTES = st.lists(st.sampled_from([b"a", b"b", b"\r\n", b"\n", b"\xff", "é".encode()]), max_size=12).map(b"".join)
NEEDLES = st.lists(st.sampled_from(["a", "b", "\r\n", "\n", "é"]), min_size=1, max_size=4).map("".join)


@given(BYTES, NEEDLES, NEEDLES)
def test_an_edit_touches_only_the_match(data, old, new):
    """Bytes before and after the one match stay; with several or none nothing is changed."""
    breaks = re.compile(rb"\r?\n".join(map(re.escape, re.split(rb"(?<!\r)\n", old.encode()))))
    starts = [n for n in range(len(data)) if breaks.match(data, n)]
    # A match that could start at either byte of a CRLF is one.
    places = [n for n in starts if not (data[n - 1 : n + 1] == b"\r\n" and n - 1 in starts)]
    try:
        replaced = replace_text(data, old.encode(), new.encode())
    except TextNotFoundError:
        assert not places
    except TooManyMatchesError as error:
        assert error.count >= 2
        assert len(places) >= 2
    else:
        assert len(places) == 1
        start, end = breaks.match(data, places[0]).span()
        assert replaced.data.startswith(data[:start])
        assert replaced.data.endswith(data[end:])
        assert replaced.data[start : len(replaced.data) - (len(data) - end)].replace(b"\r\n", b"\n") == (
            new.encode().replace(b"\r\n", b"\n")
        )


class Slow(MemoryEnvironment):
    """Writes take a while, so that two edits can meet."""

    async def write_file(self, path, content, **conditions):
        await asyncio.sleep(0.02)
        return await super().write_file(path, content, **conditions)


class Unconditional(Slow):
    """The same without conditions or versions, as a class for the older contract."""

    capabilities = Capabilities(list_files=True)


@pytest.mark.parametrize("kind", [Slow, Unconditional])
def test_edits_of_one_file_take_turns(kind):
    """Ten edits at once, by two sets of tools and several spellings: all are there."""

    async def main():
        async with kind() as env:
            await env.write_file("d/f", "".join(f"<{n}>\n" for n in range(10)))
            tools = [toolset(env)["EditFile"], toolset(env)["EditFile"]]
            paths = ["d/f", "./d/f", "/d/f", "d/../d/f"]
            answers = await asyncio.gather(
                *(tools[n % 2](path=paths[n % 4], old_text=f"<{n}>", new_text=f"[{n}]") for n in range(10))
            )
            assert {answer["status"] for answer in answers} == {"ok"}
            assert {answer["conditional"] for answer in answers} == {kind is Slow}
            return await env.read_file("d/f")

    assert asyncio.run(main()) == b"".join(b"[%d]\n" % n for n in range(10))


def test_edits_of_different_files_run_together():
    """Twenty slow edits of as many files take about as long as one."""

    async def main():
        async with Slow() as env:
            for n in range(20):
                await MemoryEnvironment.write_file(env, f"f{n}", "old")
            tool = toolset(env)["EditFile"]
            started = asyncio.get_running_loop().time()
            await asyncio.gather(*(tool(path=f"f{n}", old_text="old", new_text="new") for n in range(20)))
            assert asyncio.get_running_loop().time() - started < 0.3
            assert len(env.__dict__["_stead_edit_locks"]) == 0

    asyncio.run(main())


class Racing(MemoryEnvironment):
    """Another writer gets in between the reading and the writing of an edit, a few times."""

    def __init__(self, *contents: bytes) -> None:
        super().__init__()
        self.contents = list(contents)

    async def write_file(self, path, content, **conditions):
        if conditions and self.contents:
            await super().write_file(path, self.contents.pop(0))
        return await super().write_file(path, content, **conditions)


def test_a_foreign_write_is_kept():
    """The edit is made again on what the other writer left."""
    answer, after = edit(b"a b", Racing(b"c b"), old_text="b", new_text="B")
    assert (answer["status"], after) == ("ok", b"c B")


@pytest.mark.parametrize("content", [b"nothing", b"b b"])
def test_a_foreign_write_that_takes_the_match_is_a_conflict(content):
    """If the text is gone, or in two places by now, the answer says that the file was changed."""
    answer, after = edit(b"a b", Racing(content), old_text="b", new_text="B")
    assert (answer["status"], after) == ("error", content)
    assert answer["error"].startswith("Conflict: the file was changed by something else meanwhile.")


def test_a_file_that_never_rests_is_a_conflict():
    """After three tries the answer is an error, and nothing was overwritten."""
    answer, after = edit(b"a b", Racing(b"1 b", b"2 b", b"3 b", b"4 b"), old_text="b", new_text="B")
    assert (answer["status"], after) == ("error", b"3 b")
    assert answer["error"].startswith("Conflict: the file is being changed")


def test_without_conditions_the_file_is_compared_before_the_write():
    """A change that is seen in time is not overwritten, and the answer says that there was no condition."""

    class Touched(Unconditional):
        reads = 0

        async def read_file(self, path):
            self.reads += 1
            if self.reads == 2:
                await MemoryEnvironment.write_file(self, path, b"c b")
            return await super().read_file(path)

    answer, after = edit(b"a b", Touched(), old_text="b", new_text="B")
    assert (answer["status"], answer["conditional"], after) == ("ok", False, b"c B")


def test_large_files_are_refused_before_they_are_held(monkeypatch):
    """Above the limit, before or after the edit, nothing is written and a command is suggested if there is one."""
    monkeypatch.setattr(edit_file, "MAX_EDIT_BYTES", 1 << 20)
    data = b"x" * (1 << 20) + b"end"
    answer, after = edit(data, old_text="end", new_text="")
    assert "larger than 1 MiB" in answer["error"]
    assert after == data
    answer, after = edit(b"ab" * 1000, old_text="a", new_text="y" * 2000, replace_all=True)
    assert "larger than 1 MiB" in answer["error"]
    assert after == b"ab" * 1000


@pytest.mark.parametrize("old", ["a\nb", "b"])
def test_the_limit_holds_for_any_line_breaks(monkeypatch, old):
    r"""What matches only with `\r\n`, or grows by it, counts as it is written."""
    monkeypatch.setattr(edit_file, "MAX_EDIT_BYTES", 1 << 20)
    data = b"a\r\nb\r\n" * 1000
    for new in ("a\nb" + "x" * 2000, "\n" * 1100):
        answer, after = edit(data, old_text=old, new_text=new, replace_all=True)
        assert "larger than 1 MiB" in answer["error"]
        assert after == data
    answer, after = edit(b"a\r\nb", old_text="a\nb", new_text="\n" * 600_000)
    assert "larger than 1 MiB" in answer["error"]


def test_a_file_of_megabytes_is_edited():
    """Larger ones are searched in a thread, with the same result."""
    data = b"line\r\n" * 500_000 + b"one\r\ntwo\r\n"
    answer, after = edit(data, old_text="one\ntwo\n", new_text="three\n")
    assert (answer["line"], after) == (500_001, b"line\r\n" * 500_000 + b"three\r\n")


def test_write_file_says_what_is_there():
    """Path, size in bytes and version; an edit of the same moment waits for it."""

    async def main():
        async with MemoryEnvironment() as env:
            answer = await toolset(env)["WriteFile"](path="/new/d/f", content="é\r\n")
            return answer, await env.read_file("new/d/f")

    answer, data = asyncio.run(main())
    assert answer == {"status": "ok", "path": "new/d/f", "size": 4, "version": "1"}
    assert data == "é\r\n".encode()
