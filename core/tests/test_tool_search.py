"""ListFiles, Glob and Grep: what they find, in which order, and how much of it they show."""

import asyncio
import re
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead import FileInfo
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, StreamInterrupted
from stead.tools import list_files, matching, toolset
from stead.tools.line_search import EXCERPT, LONG_LINE, OVERLAP, LineSearch
from stead.tools.patterns import compile_pattern, matches

TREE = {
    "a.py": b"import os\n",
    "b.txt": b"one\ntwo\n",
    "src/a.py": b"def f():\n    return 1\n",
    "src/deep/x.py": b"x = 1\n",
    "src/deep/x.txt": b"x\n",
    "src/.hidden": b"x\n",
    ".stead/spill/1.out": b"one\n",
}


def call(tool: str, /, files: Any = None, env: MemoryEnvironment | None = None, options: Any = None, **arguments: Any):
    """The answer of one tool in an environment with those files."""

    async def main():
        async with env or MemoryEnvironment() as opened:
            for path, data in (TREE if files is None else files).items():
                await opened.write_file(path, data)
            return await toolset(opened, **(options or {}))[tool](**arguments)

    return asyncio.run(main())


# ---- ListFiles -------------------------------------------------------------------------------------------------------


def test_a_directory_is_listed_with_kinds_and_sizes():
    """Sorted by path, as the model can use it, without stead's own files."""
    answer = call("ListFiles")
    assert answer == {
        "status": "ok",
        "path": ".",
        "entries": [
            {"path": "a.py", "kind": "file", "size": 10},
            {"path": "b.txt", "kind": "file", "size": 8},
            {"path": "src", "kind": "directory"},
        ],
        "count": 3,
        "truncated": False,
    }


def test_a_recursive_list_has_everything_below():
    """Directories too; stead's own files still not."""
    paths = [entry["path"] for entry in call("ListFiles", path="/src/", recursive=True)["entries"]]
    assert paths == ["src/.hidden", "src/a.py", "src/deep", "src/deep/x.py", "src/deep/x.txt"]


@pytest.mark.parametrize("path", [".stead", "/.stead/spill/..", ".stead/spill"])
def test_steads_own_files_are_listed_where_they_are_named(path):
    """Only the tools hide them, and only from those who did not ask."""
    assert call("ListFiles", path=path)["count"] == 1


@pytest.mark.parametrize("pattern", [".stead", ".stead/", "/.stead", ".stead/spill"])
def test_steads_own_directory_is_found_by_its_name(pattern):
    """A pattern that is its name names it; one with a wildcard does not."""
    assert call("Glob", pattern=pattern)["count"] == 1
    assert call("Glob", pattern=pattern.rstrip("/") + "*")["count"] == (1 if "spill" in pattern else 0)


def test_the_state_folder_may_have_another_name():
    """The environment's `state_dir` is what is passed over."""

    class Elsewhere(MemoryEnvironment):
        state_dir = "src/deep"

    found = call("Glob", env=Elsewhere(), pattern="**/*.*")["paths"]
    assert found == [".stead/", ".stead/spill/1.out", "a.py", "b.txt", "src/.hidden", "src/a.py"]


def test_a_long_list_is_cut_and_counted(monkeypatch):
    """The first entries in order, the exact count, and what to do."""
    files = {f"{n:05d}": b"" for n in range(600)}
    answer = call("ListFiles", files, options={"max_output_chars": 10_000})
    assert [entry["path"] for entry in answer["entries"][:2]] == ["00000", "00001"]
    assert answer["count"] == 600
    assert answer["truncated"] is True
    assert len(answer["entries"]) == 222  # of 45 characters each, with what is around them in JSON
    assert "Glob" in answer["hint"]
    monkeypatch.setattr(list_files, "MAX_ENTRIES", 100)
    assert len(call("ListFiles", files)["entries"]) == 100


class Endless(MemoryEnvironment):
    """A listing that never ends."""

    async def list_files(self, path=".", *, recursive=False):
        number = 0
        while True:
            await asyncio.sleep(0.001)
            number += 1
            yield FileInfo(path=f"/{number:06d}", kind="file")


@pytest.mark.parametrize(("tool", "arguments"), [("ListFiles", {}), ("Glob", {"pattern": "**"})])
def test_a_search_ends_in_time(tool, arguments):
    """After default_timeout what was found is the answer, and it says that the count is no total."""
    answer = call(tool, {}, Endless(), options={"default_timeout": 0.2}, **arguments)
    assert answer["status"] == "ok"
    assert answer["count"] > 0
    assert (answer["truncated"], answer["count_is_exact"]) == (True, False)


def test_a_timeout_of_the_environment_is_an_error():
    """A TimeoutError that is not ours is not taken for a partial answer."""

    class Failing(MemoryEnvironment):
        async def list_files(self, path=".", *, recursive=False):
            raise TimeoutError("the service")
            yield

    assert call("ListFiles", {}, Failing())["error"] == "TimeoutError: the service."


# ---- Glob ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ["a.py", "b.txt", "src/"]),
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/a.py", "src/deep/x.py"]),
        ("src/*", ["src/.hidden", "src/a.py", "src/deep/"]),
        ("src/**", ["src/.hidden", "src/a.py", "src/deep/", "src/deep/x.py", "src/deep/x.txt"]),
        ("src/**/x.*", ["src/deep/x.py", "src/deep/x.txt"]),
        ("s*/deep/?.py", ["src/deep/x.py"]),
        ("*/*/[x-z].py", ["src/deep/x.py"]),
        ("[!b].*", ["a.py"]),
        ("**/", ["src/", "src/deep/"]),
        ("**/**/a.py", ["a.py", "src/a.py"]),
        ("/src/*.py", ["src/a.py"]),
        ("./src/../src/a.py", ["src/a.py"]),
        ("src/a.py", ["src/a.py"]),
        ("*.{py,txt}", []),
        (".stead/**/*.out", [".stead/spill/1.out"]),
        (".s*", []),
    ],
)
def test_patterns(pattern, expected):
    """`*`, `?` and `[]` stay in one name, `**` is any directories, nothing else is special."""
    answer = call("Glob", pattern=pattern)
    assert (answer["status"], answer["paths"], answer["count"]) == ("ok", expected, len(expected))


def test_a_pattern_starts_at_the_path():
    """Results are spelled from the working directory all the same."""
    assert call("Glob", pattern="*.py", path="src")["paths"] == ["src/a.py"]


@pytest.mark.parametrize(("pattern", "words"), [("", "empty"), ("/", "empty"), ("*/../x", "'..'"), ("../*", "outside"), ("no/*", "Not found")])  # fmt: skip
def test_patterns_that_cannot_be_meant(pattern, words):
    """An error says why."""
    answer = call("Glob", pattern=pattern)
    assert answer["status"] == "error"
    assert words in answer["error"]


def test_only_what_a_pattern_needs_is_listed():
    """Without `**` no directory is walked that cannot hold a match."""
    listed: list[tuple[str, bool]] = []

    class Listing(MemoryEnvironment):
        async def list_files(self, path=".", *, recursive=False):
            listed.append((str(path), recursive))
            async for info in super().list_files(path, recursive=recursive):
                yield info

    assert call("Glob", env=Listing(), pattern="src/*/x.py")["paths"] == ["src/deep/x.py"]
    assert listed == [("./src", False), ("/src/deep", False)]


@given(st.text("ab*?", max_size=30), st.text("ab", max_size=60))
def test_one_name_matches_as_fnmatch_does(pattern, name):
    """In one component the meaning is that of a plain glob, also for patterns that make others backtrack."""
    expected = re.fullmatch(re.sub(r"\*+", "*", pattern).replace("*", "[ab]*").replace("?", "[ab]"), name[:12])
    components = compile_pattern(pattern)
    if components and pattern != "**" and name[:12]:
        assert matches(components, name[:12]) == (expected is not None)


def test_a_hostile_pattern_costs_nothing():
    """Patterns of many stars do not backtrack."""
    started = time.perf_counter()
    assert not matches(compile_pattern("*a" * 60 + "b"), "a" * 250)
    assert not matches(compile_pattern("**/" * 60 + "b"), "/".join("a" * 200))
    assert time.perf_counter() - started < 2


# ---- Grep ------------------------------------------------------------------------------------------------------------


def test_matching_lines_are_shown_with_their_place():
    """Path, line, column and text, in order; the counts are of all."""
    assert call("Grep", pattern=r"\b[xf]\b") == {
        "status": "ok",
        "matches": [
            {"path": "src/.hidden", "line": 1, "column": 1, "text": "x"},
            {"path": "src/a.py", "line": 1, "column": 5, "text": "def f():"},
            {"path": "src/deep/x.py", "line": 1, "column": 1, "text": "x = 1"},
            {"path": "src/deep/x.txt", "line": 1, "column": 1, "text": "x"},
        ],
        "count": 4,
        "files_with_matches": 4,
        "files_searched": 6,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"glob": "*.txt"}, ["b.txt", "src/deep/x.txt"]),
        ({"glob": "src/**/*.txt"}, ["src/deep/x.txt"]),
        ({"path": "src", "glob": "deep/*"}, ["src/deep/x.py", "src/deep/x.txt"]),
        ({"path": "b.txt"}, ["b.txt"]),
        ({"path": "b.txt", "glob": "*.py"}, ["b.txt"]),
        ({"path": ".stead"}, [".stead/spill/1.out"]),
    ],
)
def test_which_files_are_searched(arguments, paths):
    """A glob without a slash is for the name, a path may be a file, and a named file is always searched."""
    answer = call("Grep", pattern="", **arguments)
    assert sorted({match["path"] for match in answer["matches"]}) == paths
    assert answer["files_searched"] == len(paths)


def test_case_can_be_ignored():
    """Off by default."""
    files = {"f": "Straße\nSTRASSE\n".encode()}
    assert call("Grep", files, pattern="stra")["count"] == 0
    assert call("Grep", files, pattern="stra", ignore_case=True)["count"] == 2


def test_text_is_decoded_as_read_file_does_it():
    """The byte order mark is no text but a column, bad bytes are U+FFFD, form feeds end no line, CR is no text."""
    files = {"f": "\ufeffkey: 1\r\n".encode() + b"a\x99b\0\x0cc\r\n" + "\u754c\u754ckey".encode()}
    assert call("Grep", files, pattern="^key")["matches"] == [{"path": "f", "line": 1, "column": 2, "text": "key: 1"}]
    assert call("Grep", files, pattern="1$")["count"] == 1
    assert call("Grep", files, pattern="\ufffdb\\x00\\x0cc$")["matches"][0]["line"] == 2
    assert call("Grep", files, pattern="key$")["matches"] == [
        {"path": "f", "line": 3, "column": 3, "text": "\u754c\u754ckey"}
    ]
    assert call("Grep", files, pattern=r"\r$")["count"] == 2
    assert call("Grep", files, pattern=r"\s$")["count"] == 0


def test_empty_lines_and_files():
    """An empty line is a line, what follows the last newline only if it is not empty, an empty file has none."""
    assert call("Grep", {"f": b"\n\na\n\n", "g": b"", "h": b"\n"}, pattern="^$")["count"] == 4
    assert call("Grep", {"f": b"a"}, pattern="$")["count"] == 1


def test_many_matches_are_cut_and_counted():
    """The first 200 in order of path and line; the count is that of all."""
    answer = call("Grep", {"a": b"x\n" * 150, "b": b"x\n" * 100_000}, pattern="x")
    assert (len(answer["matches"]), answer["count"], answer["truncated"]) == (200, 100_150, True)
    assert answer["matches"][199] == {"path": "b", "line": 50, "column": 1, "text": "x"}
    assert answer["files_with_matches"] == 2
    few = call("Grep", {"a": b"x" * 300 + b"\n" * 150}, pattern="x|^$", options={"max_output_chars": 1000})
    assert (len(few["matches"]), few["count"], few["truncated"]) == (17, 150, True)


def test_a_long_line_is_shown_around_the_match():
    """An excerpt, and the columns with which ReadFile shows the rest."""
    match = call("Grep", {"f": b"a" * 5000 + b"needle" + b"b" * 5000}, pattern="needle")["matches"][0]
    assert (match["line"], match["column"], match["text_column"]) == (1, 5001, 4901)
    assert match["text"] == "a" * 100 + "needle" + "b" * (EXCERPT - 106)


@pytest.mark.parametrize("pattern", ["(", "(?P<a", "x{99999999999}", "(" * 5000, "[z-a]", "*"])
def test_a_bad_pattern_is_an_error(pattern):
    """It says what is wrong with it."""
    answer = call("Grep", pattern=pattern)
    assert answer["status"] == "error"
    assert answer["error"].startswith("Not a valid pattern of Python's re: ")


def test_a_catastrophic_pattern_does_not_stop_the_loop():
    """Its file is given up after some seconds and named, the others are searched, the event loop runs all the while."""
    gaps = []

    async def ticker():
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.02)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    async def main():
        async with MemoryEnvironment() as env:
            for path, data in {"a": b"aaa\n", "evil": b"aa\n" + b"a" * 60 + b"b\naaa\n", "z": b"a\n"}.items():
                await env.write_file(path, data)
            ticking = asyncio.create_task(ticker())
            answer = await toolset(env)["Grep"](pattern="^(a+)+$")
            ticking.cancel()
            return answer

    answer = asyncio.run(main())
    assert [(match["path"], match["line"]) for match in answer["matches"]] == [("a", 1), ("evil", 1), ("z", 1)]
    assert (answer["count"], answer["files_skipped"], answer["skipped"][0]["path"]) == (3, 1, "evil")
    assert "more than 2 s" in answer["skipped"][0]["error"]
    assert "without repeats inside of repeats" in answer["hint"]
    assert max(gaps) < 1


def test_a_file_that_is_searched_alone_and_given_up_is_an_error():
    """There is nothing to show, and the model is told how to do better."""
    answer = call("Grep", {"f": b"a" * 60 + b"b"}, pattern="(a+)+$")
    assert answer["status"] == "error"
    assert re.search(r"'f': given up.*without repeats inside of repeats", answer["error"])


def test_a_slow_pattern_ends_with_the_timeout_and_leaves_no_process():
    """What was found until then is the answer, if the search can still give one; nothing is left either way."""

    async def main():
        async with MemoryEnvironment() as env:
            await env.write_file("f", "a" * 60 + "b\n")
            task = asyncio.create_task(toolset(env)["Grep"](pattern="(a+)+$"))
            await asyncio.sleep(0.5)
            task.cancel()
            started = time.perf_counter()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.perf_counter() - started < 2
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


class Broken(MemoryEnvironment):
    """One file fails in the middle, another may not be read."""

    async def read_file_stream(self, path, *, offset=0, length=None):
        if str(path) == "/b.txt":
            yield b"one\n"
            raise StreamInterrupted("'b.txt' ended early")
        if str(path) == "/a.py":
            raise AccessDenied("'a.py' may not be read")
        async for chunk in super().read_file_stream(path, offset=offset, length=length):
            yield chunk


def test_a_file_that_cannot_be_read_is_named_and_skipped():
    """One bad file of many does not end the search; one that was asked for is an error."""
    answer = call("Grep", env=Broken(), pattern="return")
    assert (answer["count"], answer["files_searched"], answer["files_skipped"]) == (1, 4, 2)
    assert answer["skipped"] == [
        {"path": "a.py", "error": "'a.py' may not be read"},
        {"path": "b.txt", "error": "'b.txt' ended early"},
    ]
    alone = call("Grep", env=Broken(), pattern="return", path="/b.txt")
    assert alone["error"].startswith("The file could not be read to its end: ")


def test_without_a_second_python_the_search_runs_in_a_thread(monkeypatch):
    """A frozen program gets the same answers."""
    inside = call("Grep", pattern=r"\bx\b")
    monkeypatch.setattr(matching, "_SCRIPT", "")
    assert call("Grep", pattern=r"\bx\b") == inside
    assert call("Grep", pattern="(")["status"] == "error"


def test_an_interpreter_that_is_none_is_replaced_by_a_thread(monkeypatch, tmp_path):
    """`sys.executable` may be a web server: what does not answer as a search is not used."""
    monkeypatch.setattr(matching.sys, "executable", "/bin/false")
    assert call("Grep", pattern=r"\bx\b")["count"] == 3
    monkeypatch.setattr(matching.sys, "executable", str(tmp_path / "none"))
    assert call("Grep", pattern=r"\bx\b")["count"] == 3


def test_memory_is_bounded_for_a_giant_line():
    """A line of 60 MB is searched in this process's flat memory, to its end."""

    class Giant(MemoryEnvironment):
        async def read_file_stream(self, path, *, offset=0, length=None):
            for _ in range(60):
                yield b"x" * 1_000_000
            yield b"needle\n"

    tracemalloc.start()
    answer = call("Grep", {"f": b""}, Giant(), pattern="needle$")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(m["line"], m["column"]) for m in answer["matches"]] == [(1, 60_000_001)]
    assert peak < 12 << 20


class Closed(MemoryEnvironment):
    """A machine on which one directory may not be listed, so that a recursive list leaves out what is below it."""

    capabilities = replace(MemoryEnvironment.capabilities, modes=True)

    async def list_files(self, path=".", *, recursive=False):
        if str(path) == "/src/deep":
            raise AccessDenied("'src/deep' may not be listed")
        async for info in super().list_files(path, recursive=recursive):
            if not info.path.startswith("/src/deep/"):
                yield info


def test_a_directory_that_may_not_be_listed_is_named():
    """It looks empty in a recursive list, and what is below it was not searched."""
    answer = call("Grep", env=Closed(), pattern="x")
    assert [match["path"] for match in answer["matches"]] == ["src/.hidden"]
    assert answer["files_skipped"] == 1
    assert answer["skipped"] == [{"path": "src/deep", "error": "'src/deep' may not be listed"}]
    assert call("Glob", env=Closed(), pattern="*/*/x.py")["paths"] == []


def test_a_search_that_ended_by_itself_is_not_killed(monkeypatch):
    """A signal would take the exit code from asyncio, which reports that on stderr."""
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda process: pytest.fail("killed"))
    assert call("Grep", pattern="two")["count"] == 1
    assert "Not a valid pattern" in call("Grep", pattern="[")["error"]


# ---- the search itself -----------------------------------------------------------------------------------------------


def found(data: bytes, pattern: str, sizes: list[int] | None = None) -> list[tuple[int, int]]:
    """Line and column of each match, with the data cut into pieces of those sizes, again and again."""
    search = LineSearch(pattern, keep=10**6)
    search.begin("f")
    start, sizes = 0, sizes or [len(data) or 1]
    for number in range(len(data) + 1):
        size = sizes[number % len(sizes)]
        search.feed(data[start : start + size])
        start += size
        if start >= len(data):
            break
    search.end()
    assert search.count == len(search.matches)
    return [(match["line"], match["column"]) for match in search.matches]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"b", b"\xff", "\u754c".encode(), b"\xef\xbb\xbf"]), max_size=40),
    st.sampled_from(["a", "^a", "b$", "ab", "^$", "\u754ca", "[^a]b", "(?<=a)b", r"\r", "\ufffd"]),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
)
def test_the_search_is_that_of_each_line(parts, pattern, sizes):
    """Whatever the pieces: as Python's own search on each decoded line."""
    data = b"".join(parts)
    text = data.decode("utf-8", "replace")
    offset = 1 + text.startswith("\ufeff")
    lines = text.removeprefix("\ufeff").split("\n")
    lines = lines[:-1] if lines[-1] == "" and not (data and not data.endswith(b"\n")) else lines
    expected = []
    for number, line in enumerate(lines, 1):
        match = re.search(pattern, line if "\\r" in pattern else line.removesuffix("\r"))
        if match is not None:
            expected.append((number, match.start() + (offset if number == 1 else 1)))
    assert found(data, pattern, sizes) == expected


@pytest.mark.parametrize(
    ("pattern", "count"),
    [(r"C:\\root$", 1), (r"t\r$", 1), (r"\\root\r", 1), ("t\r$", 1), ("t$", 1), (r"t$|\r\n", 0)],
)
def test_a_return_is_named_by_an_escape_of_its_own(pattern, count):
    r"""`\\root` names a backslash and the letters after it, no return."""
    assert len(found(b"C:\\root\r\n", pattern)) == count


@pytest.mark.parametrize("at", [0, 5, LONG_LINE - 3, LONG_LINE, LONG_LINE + 1, 2 * LONG_LINE - 2, 3 * LONG_LINE])
def test_a_match_is_found_anywhere_in_a_giant_line(at):
    """Also across the border of two pieces, once, with its column; the next line is counted right."""
    data = b"x" * at + b"needle" + b"x" * (3 * LONG_LINE - at) + b"\nneedle\n"
    assert found(data, "needle", [100_000]) == [(1, at + 1), (2, 1)]


def test_anchors_of_a_giant_line():
    """`^` and `$` are its start and end, not those of a piece."""
    data = b"b" + b"a" * (2 * LONG_LINE) + b"c\r\n"
    assert found(data, "^a") == []
    assert found(data, "^b") == [(1, 1)]
    assert found(data, "a$") == []
    assert found(data, "ac$") == [(1, 2 * LONG_LINE + 1)]
    assert found(data, "(?<=b)a") == [(1, 2)]


@pytest.mark.parametrize("pattern", ["a[^b]", r"a(?!b)", "abc$", "a.$", r"a\b", "(?<!xx)ab", f"(?<!{'x' * 9})ab"])
@pytest.mark.parametrize("border", [LONG_LINE, LONG_LINE - OVERLAP, LONG_LINE - 2 * OVERLAP])
@pytest.mark.parametrize("shift", [-2, -1, 0, 1])
def test_what_lies_beside_a_match_is_that_of_the_line(pattern, border, shift):
    """Neither the end of a piece nor its start is taken for what follows or precedes a match."""
    data = b"x" * (border + shift) + b"abc" + b"y" * (3 * LONG_LINE - border)
    assert found(data, pattern) == []


@pytest.mark.parametrize(("pattern", "column"), [("^b.*", 1), ("x.*$", 2), ("c.*y$", 2 * LONG_LINE + 2)])
def test_a_match_may_reach_over_pieces(pattern, column):
    """A repeat that goes on beyond its piece is a match that starts where it starts."""
    assert found(b"b" + b"x" * (2 * LONG_LINE) + b"cy", pattern) == [(1, column)]


def test_characters_at_the_border_of_pieces_stay_whole():
    """A character of several bytes that lies across two pieces is one character."""
    data = "\u754c".encode() * (LONG_LINE // 3 + 2000)
    assert found(data, "[^\u754c]") == []
    assert found(data + b"!", "!") == [(1, LONG_LINE // 3 + 2001)]
