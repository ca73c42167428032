"""Real faults of other tools, each with the record it comes from, on files in memory and on this machine."""

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stead import Environment
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, PathOutsideRoot
from stead.reducer import Reducer, ReducerConfig, ToolCall
from stead.tools import Tool, toolset
from stead_local import LocalEnvironment

Use = Callable[[Environment, dict[str, Tool]], Awaitable[Any]]
both = pytest.mark.parametrize("kind", ["memory", "local"])


def run(kind: str, root: Path, use: Use, /, **options: Any) -> Any:
    """Runs `use` with an environment of that kind and its tools."""

    async def main():
        async with MemoryEnvironment() if kind == "memory" else LocalEnvironment(root) as env:
            return await use(env, toolset(env, **options))

    return asyncio.run(main())


def read(kind: str, root: Path, data: bytes, /, *calls: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The answers of ReadFile to these calls, on a file of that content."""

    async def use(env, tools):
        await env.write_file("f", data)
        answers = [await tools["ReadFile"](path="f", **call) for call in calls or ({},)]
        for answer in answers:
            assert json.loads(json.dumps(answer)) == answer
            json.dumps(answer, ensure_ascii=False).encode("utf-8")
        return answers

    return run(kind, root, use, **options)


def edit(kind: str, root: Path, data: bytes, /, old: str, new: str, **more: Any) -> tuple[dict[str, Any], bytes]:
    """The answer of EditFile, and the file afterwards."""

    async def use(env, tools):
        await env.write_file("f", data)
        answer = await tools["EditFile"](path="f", old_text=old, new_text=new, **more)
        return answer, await env.read_file("f")

    return run(kind, root, use)


def text_of(answer: dict[str, Any]) -> str:
    """The content without line numbers."""
    return re.sub(r"(?m)^ *\d+\t", "", answer["content"])


# ---- reading ---------------------------------------------------------------------------------------------------------


@both
def test_b001_only_newlines_end_lines(kind, tmp_path):
    """A form feed, and every other character that str.splitlines splits at, is text."""
    data = b"def a():\n    return 1\n\n\x0c\ndef b():\n    TARGET = 1\n    return 2\n"
    (answer,) = read(kind, tmp_path, data, {"start_line": 6, "end_line": 6})
    assert (answer["status"], text_of(answer), answer["total_lines"]) == ("ok", "    TARGET = 1", 7)
    breaks = "a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\rb"
    (answer,) = read(kind, tmp_path, breaks.encode(), number_lines=False)
    assert (answer["content"], answer["total_lines"]) == (breaks, 1)


@pytest.mark.parametrize("size", [65536, 3, 2, 1])
def test_b003_chunks_do_not_change_the_text(size):
    """A character that lies across chunks is whole, whatever the chunks."""

    class Chunks(MemoryEnvironment):
        async def read_file_stream(self, path, *, offset=0, length=None):
            data = await self.read_file(path)
            for start in range(offset, len(data), size):
                yield data[start : start + size]

    async def main():
        async with Chunks() as env:
            await env.write_file("f", b"x" * 65535 + b"\xe7\x95\x8c" + b"\nlast\n")
            return await toolset(env, max_output_chars=100_000)["ReadFile"](path="f", start_line=1, end_line=1)

    answer = asyncio.run(main())
    assert (text_of(answer), answer["total_lines"]) == ("x" * 65535 + "\u754c", 2)


@both
def test_b004_an_unterminated_last_line_counts(kind, tmp_path):
    """It is a line, and the page that asks for it has it."""
    first, second = read(
        kind, tmp_path, b"x1\nx2\nx3", {"start_line": 1, "end_line": 2}, {"start_line": 3, "end_line": 3}
    )
    assert (text_of(first), first["total_lines"], first["has_more"]) == ("x1\nx2", 3, True)
    assert (second["status"], text_of(second)) == ("ok", "x3")


@both
def test_b005_a_final_newline_starts_no_line(kind, tmp_path):
    """There is no line after it, and asking for one is an error with the total."""
    whole, after = read(kind, tmp_path, b"l1\nl2\n", {}, {"start_line": 3})
    assert whole["total_lines"] == 2
    assert (after["status"], after["total_lines"]) == ("error", 2)


@both
def test_b006_an_empty_file_can_be_read(kind, tmp_path):
    """It is ok, unlike a line that it does not have, and unlike a missing file."""
    empty, first, second = read(kind, tmp_path, b"", {}, {"start_line": 1}, {"start_line": 2})
    for answer in (empty, first):
        assert (answer["status"], answer["content"], answer["total_lines"]) == ("ok", "", 0)
        assert (answer["truncated"], answer["has_more"]) == (False, False)
    assert (second["status"], second["total_lines"]) == ("error", 0)

    async def missing(env, tools):
        return await tools["ReadFile"](path="missing")

    assert run(kind, tmp_path, missing)["error"].startswith("Not found")


@both
def test_b008_the_total_is_that_of_the_file(kind, tmp_path):
    """A page of ten lines of 200,000 says 200,000."""
    data = b"".join(b"line %d\n" % i for i in range(200_000))
    (answer,) = read(kind, tmp_path, data, {"start_line": 1, "end_line": 10})
    assert (len(answer["content"].split("\n")), answer["total_lines"], answer["has_more"]) == (10, 200_000, True)


@both
def test_b010_one_enormous_line(kind, tmp_path):
    """50 MB without a newline: a full page, an exact total, memory bounded by the page."""

    class Pieces(MemoryEnvironment):
        """The line as a stream of 64 KiB pieces that is never held."""

        async def read_file_stream(self, path, *, offset=0, length=None):
            for start in range(offset, 50_000_000, 1 << 16):
                yield b"a" * min(1 << 16, 50_000_000 - start)

    async def main():
        if kind == "local":
            with (tmp_path / "f").open("wb") as file:
                for _ in range(50):
                    file.write(b"a" * 1_000_000)
        async with Pieces() if kind == "memory" else LocalEnvironment(tmp_path) as env:
            if kind == "memory":
                await env.write_file("f", b"")
            tool = toolset(env)["ReadFile"]
            await tool(path="f", end_line=1)
            tracemalloc.start()
            answer = await tool(path="f")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return answer, await tool(path="f", start_line=2), peak

    answer, second, peak = asyncio.run(main())
    (tmp_path / "f").unlink(missing_ok=True)
    assert set(text_of(answer)) == {"a"}
    assert 29_900 <= len(text_of(answer)) <= 30_000
    assert (answer["truncated"], answer["total_lines"]) == (True, 1)
    assert (second["status"], second["total_lines"]) == ("error", 1)
    assert peak < 8 << 20


@both
@pytest.mark.parametrize(
    ("text", "truncated"),
    [("\u754c" * 40_000 + "\n", True), ("\u754c" * 29_900 + "\n", False), ("\U0001f600" * 40_000, True)],
)
def test_b011_the_limit_counts_characters(kind, tmp_path, text, truncated):
    """Multi-byte text gets as many characters as any other, and none is cut in two."""
    (answer,) = read(kind, tmp_path, text.encode())
    shown = text_of(answer)
    assert answer["truncated"] is truncated
    assert 29_900 <= len(shown) <= 30_000
    assert text.startswith(shown)


@both
def test_b013_no_content_is_refused(kind, tmp_path):
    """NUL in a source file is text, and random bytes are lines whose answer can be stored as JSON."""
    data = b"sep = `a\x00b`\nnext\n"
    (answer,) = read(kind, tmp_path, data, {"start_line": 1, "end_line": 1})
    assert (text_of(answer), answer["total_lines"]) == ("sep = `a\x00b`", 2)
    assert edit(kind, tmp_path, data, "next", "done")[1] == b"sep = `a\x00b`\ndone\n"
    noise = os.urandom(4096)
    (answer,) = read(kind, tmp_path, noise)
    assert answer["total_lines"] == noise.count(b"\n") + (not noise.endswith(b"\n"))
    assert len(answer["content"]) <= 30_000


FIFO = """
import asyncio, json, os, sys
from stead_local import LocalEnvironment
from stead.tools import toolset
async def main():
    async with LocalEnvironment(sys.argv[1]) as env:
        tools = toolset(env)
        calls = [("ReadFile", {}), ("EditFile", {"old_text": "a", "new_text": "b"}), ("Grep", {"pattern": "a"})]
        answers = [await asyncio.wait_for(tools[name](path="pipe", **more), 3) for name, more in calls]
        print(json.dumps([answer["status"] for answer in answers]))
asyncio.run(main())
"""


def test_b014_a_fifo_is_refused(tmp_path):
    """No tool waits for a writer that never comes, and the interpreter can exit."""
    os.mkfifo(tmp_path / "pipe")
    done = subprocess.run([sys.executable, "-c", FIFO, str(tmp_path)], capture_output=True, text=True, timeout=20)
    assert (done.stderr, done.stdout.strip()) == ("", '["error", "error", "error"]')


@both
def test_b016_what_may_not_be_read_is_not_missing(kind, tmp_path):
    """Refused, a directory and missing are three answers."""

    class Secret(MemoryEnvironment):
        async def stat(self, path):
            if str(path) == "secret.txt":
                raise AccessDenied("'secret.txt' may not be read")
            return await super().stat(path)

    async def use(env, tools):
        await env.write_file("dir/f", "x")
        return {path: (await tools["ReadFile"](path=path))["error"] for path in ("dir", "none.txt")}

    errors = run(kind, tmp_path, use)
    assert "directory" in errors["dir"]
    assert "Not found" in errors["none.txt"]
    assert "Not found" not in errors["dir"]

    async def refused():
        async with Secret() as env:
            return await toolset(env)["ReadFile"](path="secret.txt")

    assert asyncio.run(refused())["error"].startswith("Permission denied")


# ---- writing ---------------------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    """The permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_b017_permissions_are_kept(tmp_path):
    """An edited script stays executable; a new file has what the umask leaves."""
    (tmp_path / "s.sh").write_text("echo X\n")
    (tmp_path / "s.sh").chmod(0o755)
    (tmp_path / "w").write_text("old")
    (tmp_path / "w").chmod(0o640)

    async def use(env, tools):
        await tools["EditFile"](path="s.sh", old_text="X", new_text="Y")
        await tools["WriteFile"](path="w", content="new")
        await tools["WriteFile"](path="n", content="new")

    before = os.umask(0o022)
    try:
        run("local", tmp_path, use)
    finally:
        os.umask(before)
    assert [oct(mode(tmp_path / name)) for name in ("s.sh", "w", "n")] == ["0o755", "0o640", "0o644"]
    assert (tmp_path / "s.sh").read_text() == "echo Y\n"


def test_b018_links_are_written_through(tmp_path):
    """The link stays a link, and its target has the new text."""
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")

    async def use(env, tools):
        await tools["WriteFile"](path="link.txt", content="new")
        return await tools["EditFile"](path="link.txt", old_text="new", new_text="newer")

    assert run("local", tmp_path, use)["status"] == "ok"
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "newer"


def test_b019_a_failed_write_is_an_error_and_changes_nothing(tmp_path, monkeypatch):
    """A full disk and a cancellation leave the old content and no other file; the tool does not report success."""
    (tmp_path / "k.txt").write_text("old")
    real = os.write

    def full(fd, data):
        if stat.S_ISREG(os.fstat(fd).st_mode):
            real(fd, bytes(data[:10]))
            raise OSError(28, "No space left on device")
        return real(fd, data)

    async def use(env, tools):
        monkeypatch.setattr(os, "write", full)
        answer = await tools["WriteFile"](path="k.txt", content="A" * 1_000_000)
        monkeypatch.undo()
        task = asyncio.create_task(tools["WriteFile"](path="k.txt", content="B" * 1_000_000))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return answer

    answer = run("local", tmp_path, use)
    assert answer["status"] == "error"
    assert (tmp_path / "k.txt").read_text() in ("old", "B" * 1_000_000)
    assert os.listdir(tmp_path) == ["k.txt"]


@both
def test_b021_a_lone_surrogate_is_a_clean_error(kind, tmp_path):
    """The existing file is intact, and the answer can be encoded."""

    async def use(env, tools):
        await env.write_file("s.txt", "old")
        answer = await tools["WriteFile"](path="s.txt", content="A" * 60_000 + "\ud83d" + "\udce9")
        json.dumps(answer, ensure_ascii=False).encode("utf-8")
        return answer, await env.read_file("s.txt")

    answer, data = run(kind, tmp_path, use)
    assert (answer["status"], data) == ("error", b"old")


# ---- editing ---------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_b023_what_was_read_can_be_edited(kind, tmp_path, newline):
    """Both spellings of a line break match a CRLF file, and the file keeps its own."""
    data = b"def m():\r\n    p()\r\n    return 0\r\n"
    old, new = (f"    {a}(){newline}    return {n}{newline}" for a, n in (("p", 0), ("q", 1)))
    answer, after = edit(kind, tmp_path, data, old, new)
    assert (answer["status"], after) == ("ok", b"def m():\r\n    q()\r\n    return 1\r\n")
    mixed = b"keep\n" + data + b"keep\r\nkeep\n"
    assert edit(kind, tmp_path, mixed, old, new)[1] == b"keep\n" + after + b"keep\r\nkeep\n"


@both
def test_b024_an_empty_text_matches_nowhere(kind, tmp_path):
    """On a file, an empty file and a missing one it is an error, and nothing is written."""
    for data in (b"abc", b""):
        answer, after = edit(kind, tmp_path, data, "", "X")
        assert (answer["status"], after) == ("error", data)

    async def use(env, tools):
        answer = await tools["EditFile"](path="missing", old_text="", new_text="X")
        return answer, await tools["ReadFile"](path="missing")

    answer, missing = run(kind, tmp_path, use)
    assert (answer["status"], missing["status"]) == ("error", "error")


@both
def test_b026_both_texts_are_literal(kind, tmp_path):
    """Nothing in them is a pattern or a reference."""
    new = r"\g<0>\1 $& $$100 C:\new"
    assert edit(kind, tmp_path, b"price: PH\n", "PH", new)[1] == b"price: \\g<0>\\1 $& $$100 C:\\new\n"
    assert edit(kind, tmp_path, b"price:\r\nPH\r\n", ":\nPH", new)[1] == b"price\\g<0>\\1 $& $$100 C:\\new\r\n"
    assert edit(kind, tmp_path, b"abc a.c*\n", "a.c*", "X")[1] == b"abc X\n"
    assert edit(kind, tmp_path, b"abc\r\na.c*\r\n", "\na.c*", "\nX")[1] == b"abc\r\nX\r\n"


@both
def test_b027_undecodable_bytes_elsewhere_stay(kind, tmp_path):
    """Only the match changes, and U+FFFD matches no bad byte."""
    assert edit(kind, tmp_path, b"price\x99\nname=old\n", "old", "new")[1] == b"price\x99\nname=new\n"
    assert edit(kind, tmp_path, b"\xd6\xd0\xce\xc4 k=1\n", "k=1", "k=2")[1] == b"\xd6\xd0\xce\xc4 k=2\n"
    answer, after = edit(kind, tmp_path, b"price\x99\n", "price\ufffd", "x")
    assert (answer["status"], after) == ("error", b"price\x99\n")
    assert "not in" in answer["error"]


@pytest.mark.parametrize(
    ("kind", "second"),
    [("memory", "n.txt"), ("memory", "./n.txt"), ("local", "n.txt"), ("local", "./n.txt"), ("local", "link.txt")],
)
def test_b029_parallel_edits_lose_nothing(kind, second, tmp_path):
    """Two edits of one file at once, by any spelling: both are there, or one is an explicit conflict."""
    slow_base = MemoryEnvironment if kind == "memory" else LocalEnvironment

    class SlowWrites(slow_base):
        async def write_file(self, path, content, **conditions):
            if conditions:
                await asyncio.sleep(0.05)
            return await super().write_file(path, content, **conditions)

    async def main():
        async with SlowWrites() if kind == "memory" else SlowWrites(tmp_path) as env:
            await env.write_file("n.txt", "\n".join(map(str, range(1, 101))))
            if kind == "local":
                (tmp_path / "link.txt").symlink_to("n.txt")
            tool = toolset(env)["EditFile"]
            answers = await asyncio.gather(
                tool(path="n.txt", old_text="\n50\n", new_text="\nFIFTY\n"),
                tool(path=second, old_text="\n75\n", new_text="\nSEV\n"),
            )
            return [answer["status"] for answer in answers], (await env.read_file("n.txt")).decode()

    statuses, text = asyncio.run(main())
    assert statuses == ["ok", "ok"]
    assert "\nFIFTY\n" in text
    assert "\nSEV\n" in text


# ---- paths -----------------------------------------------------------------------------------------------------------


@both
def test_b046_nothing_outside_is_reached(kind, tmp_path):
    """Every way out is refused by every tool before it makes anything; `~` is a name like any other."""
    root = tmp_path / "ws"
    (tmp_path / "x").write_text("secret")
    ways = ["../x", "a/../../x"] + ([str(tmp_path / "x"), "/etc/passwd"] if kind == "local" else [])

    async def use(env, tools):
        await env.write_file("a/b", "b")
        for path in ways:
            answers = [
                await tools["ReadFile"](path=path),
                await tools["WriteFile"](path=path, content="changed"),
                await tools["EditFile"](path=path, old_text="secret", new_text="changed"),
                await tools["ListFiles"](path=path),
                await tools["Glob"](pattern="*", path=path),
                await tools["Grep"](pattern="secret", path=path),
            ]
            assert [answer["status"] for answer in answers] == ["error"] * 6, path
            assert "secret" not in json.dumps(answers)
            with pytest.raises(PathOutsideRoot):
                await env.read_file(path)
        home = await tools["WriteFile"](path="~/x", content="home")
        inside = await tools["ReadFile"](path=f"{env.working_dir}/a/b")
        back = await tools["ReadFile"](path="a/../a/b")
        return home["path"], text_of(inside), text_of(back)

    assert run(kind, root, use) == ("~/x", "b", "b")
    assert sorted(os.listdir(tmp_path)) == (["ws", "x"] if kind == "local" else ["x"])
    assert (tmp_path / "x").read_text() == "secret"


def test_b048_links_that_lead_out_are_refused(tmp_path):
    """Reading, editing, writing and searching through them gives no content and makes nothing; inner links work."""
    root, outside = tmp_path / "ws", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "passwd").write_text("root:secret")
    (root / "real.txt").write_text("real")
    (root / "leak").symlink_to(outside / "passwd")
    (root / "d").symlink_to(outside)
    (root / "in").symlink_to(root / "real.txt")

    async def use(env, tools):
        answers = [
            await tools["ReadFile"](path="leak"),
            await tools["ReadFile"](path="d/passwd"),
            await tools["EditFile"](path="leak", old_text="root", new_text="x"),
            await tools["WriteFile"](path="d/new", content="x"),
            await tools["ListFiles"](path="d"),
            await tools["Grep"](pattern="root", path="leak"),
            await tools["Glob"](pattern="d/*"),
        ]
        everywhere = await tools["Grep"](pattern="root|real")
        return answers, everywhere, await tools["ReadFile"](path="in")

    answers, everywhere, inner = run("local", root, use)
    assert [answer["status"] for answer in answers] == ["error"] * 7
    assert "secret" not in json.dumps([answers, everywhere])
    assert sorted(match["path"] for match in everywhere["matches"]) == ["in", "real.txt"]
    assert text_of(inner) == "real"
    assert os.listdir(outside) == ["passwd"]


def test_b049_dangling_links_make_nothing_outside(tmp_path):
    """Neither a file nor a directory; a loop is an error and no hang."""
    root, outside = tmp_path / "ws", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "dang").symlink_to(outside / "new.txt")
    (root / "ln").symlink_to(outside)
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")

    async def use(env, tools):
        paths = ["dang", "ln/sub/n.txt", "a", "a/x"]
        return [(await tools["WriteFile"](path=path, content="x"))["status"] for path in paths]

    assert run("local", root, use) == ["error"] * 4
    assert os.listdir(outside) == []


@both
def test_b051_two_dots_in_a_name_are_a_name(kind, tmp_path):
    """Only a whole component `..` is the parent, in paths and in patterns."""
    names = ["[...slug]/page.tsx", "report..final.md", "..hidden", "a..b/c"]

    async def use(env, tools):
        for name in names:
            assert (await tools["WriteFile"](path=name, content=name))["path"] == name
            assert text_of(await tools["ReadFile"](path=name)) == name
        globbed = await tools["Glob"](pattern="*..*/**")
        found = await tools["Grep"](pattern=".", glob="*..*")
        return globbed["paths"], [match["path"] for match in found["matches"]]

    globbed, found = run(kind, tmp_path, use)
    assert globbed == ["[...slug]/page.tsx", "a..b/c"]
    assert found == ["..hidden", "report..final.md"]


@both
def test_b052_a_path_is_data(kind, tmp_path):
    """No part of it is run, and odd names can be written, read, edited, found and searched."""
    names = ["a'; touch pwned; '", "$(touch pwned)", "`touch pwned`", "-n", "a b\nc", "*", "'\"\\", "a\\b"]

    async def use(env, tools):
        for name in names:
            assert (await tools["ReadFile"](path=name, start_line=1, end_line=1))["error"].startswith("Not found")
            assert (await tools["WriteFile"](path=name, content="one\n"))["status"] == "ok"
            assert (await tools["EditFile"](path=name, old_text="one", new_text="two"))["status"] == "ok"
            assert text_of(await tools["ReadFile"](path=name, start_line=1, end_line=1)) == "two"
            assert (await tools["Grep"](pattern="two", path=name))["count"] == 1
        listed = await tools["ListFiles"]()
        found = await tools["Grep"](pattern="two")
        return [entry["path"] for entry in listed["entries"]], [match["path"] for match in found["matches"]]

    assert run(kind, tmp_path, use) == (sorted(names), sorted(names))
    assert not (tmp_path / "pwned").exists()


# ---- notices and commands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [None, "fs_read", ""])
def test_b090_a_notice_can_be_followed(reader):
    """The tool that it names is there and reads the path, also from the environment of one tool alone."""

    async def main():
        async with MemoryEnvironment() as env, MemoryEnvironment() as store, MemoryEnvironment() as special:
            settings = {"tool_config": {"Special": {"environment": special}}, "session_id": "s"}
            if reader is not None:
                settings["read_file_tool_name"] = reader
            reducer = Reducer(store, ReducerConfig(**settings))
            names = {"ReadFile": reader} if reader else {}
            tools = toolset(env, offloads=reducer, names=names)
            for tool in ("Other", "Special"):
                notice = await reducer.truncate(ToolCall("c", tool), "word " * 20_000)
                named = {name for name in [*tools, "ReadFile", "read_file", "fs_read"] if name in notice}
                assert named == (set() if reader == "" else {reader or "ReadFile"})
                path = next(line for line in notice.splitlines() if line.startswith(".stead/"))
                page = await tools[reader or "ReadFile"](path=path)
                assert page["status"] == "ok"
                assert text_of(page).startswith("word word ")

    asyncio.run(main())


def test_b044_cut_output_is_told_from_whole_output(tmp_path):
    """Exactly at the limit it is whole and unflagged, one more and it is cut, flagged, and complete in a file."""

    async def use(env, tools):
        answers = {}
        for size in (9_999, 10_000, 10_001, 16_384):
            command = f"{sys.executable} -c 'import sys; sys.stdout.write(\"x\" * {size})'"
            answer = answers[size] = await tools["Execute"](command=command)
            if "stdout_path" in answer:
                assert await env.read_file(answer["stdout_path"]) == b"x" * size
        return answers

    answers = run("local", tmp_path, use, max_output_chars=10_000)
    assert {answer["exit_code"] for answer in answers.values()} == {0}
    assert {size: answer["truncated"] for size, answer in answers.items()} == {
        9_999: False,
        10_000: False,
        10_001: True,
        16_384: True,
    }
    assert answers[10_000]["stdout"] == "x" * 10_000
    assert len(answers[16_384]["stdout"]) == 10_000


def test_b045_an_exit_code_is_a_result(tmp_path):
    """The answer is ok and has the code and what was printed."""

    async def use(env, tools):
        return await tools["Execute"](command="printf report; exit 1")

    answer = run("local", tmp_path, use)
    assert (answer["status"], answer["exit_code"], answer["stdout"]) == ("ok", 1, "report")


def test_a_command_can_leave_the_root(tmp_path):
    """Only file tools are confined: a local command reads and writes what its user may."""
    (tmp_path / "outside.txt").write_text("outside")

    async def use(env, tools):
        return await tools["Execute"](command="cat ../outside.txt && touch ../made")

    assert run("local", tmp_path / "ws", use)["stdout"] == "outside"
    assert (tmp_path / "made").exists()


@both
def test_every_error_of_an_environment_is_an_answer(kind, tmp_path):
    """After close, each tool answers with an error that says so."""

    async def main():
        env = MemoryEnvironment() if kind == "memory" else LocalEnvironment(tmp_path)
        async with env:
            tools = toolset(env)
        arguments = {
            "Execute": {"command": "true"},
            "ReadFile": {"path": "f"},
            "WriteFile": {"path": "f", "content": ""},
            "EditFile": {"path": "f", "old_text": "a", "new_text": "b"},
            "ListFiles": {},
            "Glob": {"pattern": "*"},
            "Grep": {"pattern": "a"},
        }
        return [(await tool(**arguments[name]))["error"] for name, tool in tools.items()]

    for error in asyncio.run(main()):
        assert error.startswith("The environment was closed: ")
