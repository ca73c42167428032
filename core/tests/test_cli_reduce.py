"""`stead reduce` and `stead offloads`: a saved conversation made small, looked at, and its offloads kept in order."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stead.cli.app import app
from stead.reducer.messages.detect import FORMATS, codec_named

HISTORIES: dict[str, list[Any]] = json.loads((Path(__file__).parent / "histories.json").read_text())
Run = Callable[..., Result]


@pytest.fixture
def stead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in an empty folder, and expects exit code 0 unless told otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (tmp_path / ".git").mkdir()

    def run(*arguments: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        assert result.exit_code == code, result.output
        return result

    return run


def conversation(rounds: int = 12, size: int = 6_000) -> list[dict[str, Any]]:
    """Some rounds with one result each, the texts of which look like a page and are not."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "fix <script>alert(1)</script> & go"}]
    for i in range(rounds):
        function = {"name": "Search", "arguments": json.dumps({"query": f"word {i}"})}
        call = {"id": f"c{i}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": f"c{i}", "content": f"<b>{i}</b> begin " + "é word " * (size // 7)}
        )
    return [*messages, {"role": "assistant", "content": "done"}]


def save(data: Any, name: str = "talk.json") -> str:
    """Writes a transcript."""
    Path(name).write_text(json.dumps(data))
    return name


def test_a_conversation_is_reduced_and_read_back(stead: Run) -> None:
    """The reduced conversation keeps its pairs and its envelope; each notice's path holds the full text."""
    messages = conversation()
    name = save({"model": "m", "messages": messages, "tools": [{"name": "Search"}]})
    done = stead(
        "reduce", name, "--format", "openai-chat", "--max-tokens", "9000", "--session", "s", "-o", "small.json"
    )
    assert "openai-chat: 26 messages, 14 calls of the model\n" in done.stdout
    small = json.loads(Path("small.json").read_text())
    assert (small["model"], small["tools"], len(small["messages"])) == ("m", [{"name": "Search"}], 26)
    cleared = [i for i, message in enumerate(small["messages"]) if message != messages[i]]
    assert len(cleared) >= 8
    for index in cleared:
        assert small["messages"][index]["tool_call_id"] == messages[index]["tool_call_id"]
        path = re.search(r"\.stead/offloads/\S+", small["messages"][index]["content"])
        assert path is not None
        assert Path(path[0]).read_text() == messages[index]["content"]
        assert stead("offloads", "show", path[0]).stdout_bytes.decode() == messages[index]["content"]


def test_the_numbers_are_given_as_json(stead: Run) -> None:
    """`--json` has every call of the model with its tokens before and after, and every decision."""
    found = json.loads(stead("reduce", save(conversation()), "--max-tokens", "9000", "--json").stdout)
    assert (found["format"], found["messages"], len(found["turns"])) == ("openai-chat", 26, 14)
    assert found["turns"][0]["before"] == found["turns"][0]["after"] > 0
    assert max(turn["after"] for turn in found["turns"]) <= 9_000 < found["turns"][-1]["before"]
    assert {decision["action"] for decision in found["decisions"]} == {"reduced"}


def test_long_results_are_truncated_when_they_came(stead: Run) -> None:
    """A result above `--max-length` becomes a notice before the history is too large."""
    found = json.loads(stead("reduce", save(conversation(2)), "--max-length", "4000", "--json").stdout)
    assert [(decision["phase"], decision["tool"]) for decision in found["decisions"]] == [("truncate", "Search")] * 2
    assert found["turns"][-1]["after"] < found["turns"][-1]["before"]


class Page(HTMLParser):
    """What a page holds: its elements, what they point at, and the texts of its full contents."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.targets: list[str] = []
        self.open: list[str] = []
        self.full: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Counts."""
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.targets += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "polyline", "line", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Every element ends where it should."""
        if tag not in {"polyline", "line"}:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Takes the texts inside `details`."""
        if self.open[-2:] == ["details", "pre"]:
            self.full.append(data)


def test_the_page_is_complete_and_works_offline(stead: Run) -> None:
    """It has a plot of two lines, every full text behind a click, no script, and nothing to load."""
    messages = conversation()
    done = stead("reduce", save(messages), "--max-tokens", "9000", "--report", "page.html", "--json")
    reduced = [decision["call_id"] for decision in json.loads(done.stdout)["decisions"]]
    text = Path("page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert (page.tags["polyline"], page.tags["article"], page.tags["details"]) == (2, 26, len(reduced))
    assert "script" not in page.tags
    assert page.targets == []
    assert "fix &lt;script&gt;alert(1)&lt;/script&gt; &amp; go" in text
    contents = {message.get("tool_call_id"): message["content"] for message in messages}
    assert page.full == [contents[call] for call in reduced]


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_can_be_reduced_and_shown(stead: Run, name: str) -> None:
    """The histories of all formats go through, with the arguments of the large call cleared."""
    found = json.loads(
        stead(
            "reduce",
            save(HISTORIES[name]),
            "--max-tokens",
            "100",
            "--keep-rounds",
            "0",
            "-o",
            "o.json",
            "--report",
            "p.html",
            "--json",
        ).stdout
    )
    assert found["format"] == name
    reduced = json.loads(Path("o.json").read_text())
    codec = codec_named(name)
    assert [codec.view(message).role for message in reduced] == [
        codec.view(message).role for message in HISTORIES[name]
    ]
    assert "y" * 2_000 not in Path("o.json").read_text()
    assert "y" * 2_000 in Path("p.html").read_text()
    assert Page(Path("p.html").read_text()).open == []


def test_json_lines_and_standard_input(stead: Run) -> None:
    """One message a line is read too, and `-` is standard input."""
    lines = "\n".join(json.dumps(message) for message in conversation(1))
    Path("talk.jsonl").write_text(lines + "\n")
    assert json.loads(stead("reduce", "talk.jsonl", "--json").stdout)["messages"] == 4
    assert json.loads(stead("reduce", "-", "--json", stdin=lines).stdout)["messages"] == 4


def test_only_a_newline_ends_a_line_and_a_mark_may_begin_the_file(stead: Run) -> None:
    """U+2028, NEL and a form feed stand raw in strings; CRLF and a byte order mark do no harm."""
    messages = conversation(1)
    messages[0]["content"] = "a\u2028b\u0085c\u2029d"
    lines = "\r\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
    Path("talk.jsonl").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    stead("reduce", "talk.jsonl", "-o", "same.json")
    assert json.loads(Path("same.json").read_text()) == messages
    assert json.loads(stead("reduce", "-", "--json", stdin="\ufeff" + lines).stdout)["messages"] == 4


@pytest.mark.parametrize("levels", [200, 900])
def test_deep_and_broken_values_are_shown(stead: Run, levels: int) -> None:
    """Half a surrogate pair in an id, a name and arguments, and deep nesting, keep neither page nor JSON from coming."""
    half, deep = "\ud83d", "[" * levels + "]" * levels
    call = {"type": "tool_use", "id": half, "name": half, "input": {half: half}}
    result = {"type": "tool_result", "tool_use_id": half, "content": half + "x " * 30_000}
    text = json.dumps(
        [
            {"role": "user", "content": half},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "ok"},
        ]
    )
    Path("talk.json").write_text(text.replace('"input": {', '"input": {"deep": ' + deep + ", "))
    done = stead("reduce", "talk.json", "--json", "--report", "page.html", "-o", "small.json")
    decisions = json.loads(done.stdout)["decisions"]
    assert [(decision["call_id"], decision["action"]) for decision in decisions] == [(half, "reduced")]
    assert json.loads(stead("offloads", "list", "--json").stdout)[0]["call_id"] == half
    assert json.loads(Path("small.json").read_text())[1] == json.loads(Path("talk.json").read_text())[1]
    assert Page(Path("page.html").read_text()).open == []


def test_the_table_and_the_warning_agree(stead: Run) -> None:
    """A request that cannot be made smaller has the same number of tokens wherever it is told."""
    for size in range(100, 104):
        name = save([{"role": "user", "content": "word" + "x" * size}, *conversation(1)[1:]])
        done = stead("reduce", name, "--max-tokens", "10").stdout
        (warned,) = re.findall(r"the request has (\d+) tokens, more than 10, and nothing", done.splitlines()[-5])
        assert f"next request: {int(warned):,} -> {int(warned):,} tokens" in done


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * 200_000, "neither JSON nor JSON lines: nested too deeply"),
        ("[" * 200_000 + "\n{}", "neither JSON nor JSON lines: nested too deeply"),
        ("{", "neither JSON nor JSON lines"),
        ("{}", "no list of messages, neither alone nor under messages, input"),
        ('[{"what": 1}]', "the message format cannot be told"),
        ("[]", None),
    ],
)
def test_what_is_no_conversation_is_refused(stead: Run, text: str, complaint: str | None) -> None:
    """The exit code is 2 and the reason is one line; an empty conversation is none of that."""
    Path("talk.json").write_text(text)
    done = stead("reduce", "talk.json", code=0 if complaint is None else 2)
    assert complaint is None or complaint in done.stderr


def test_other_encodings_are_one_line(stead: Run) -> None:
    """A file that is not UTF-8 is refused with the place."""
    Path("talk.json").write_bytes('[{"role": "user", "content": "é"}]'.encode("latin-1"))
    assert "talk.json: not UTF-8: invalid continuation byte at byte 30" in stead("reduce", "talk.json", code=2).stderr


def test_wrong_names_are_one_line(stead: Run) -> None:
    """An unknown format is refused with the list; files that cannot be read or written are named."""
    talk = save(conversation(1))
    assert "no message format is called 'x'" in stead("reduce", talk, "--format", "x", code=2).stderr
    assert stead("reduce", "none.json", code=1).stderr == "stead: none.json: No such file or directory\n"
    failed = stead("reduce", talk, "--report", "no/such/page.html", code=1)
    assert failed.stderr.endswith("stead: no/such/page.html: No such file or directory\n")


def test_settings_come_from_the_configuration(stead: Run) -> None:
    """`[reducer]` names the environment and the settings; options go before them."""
    Path("stead.toml").write_text(
        '[environments.a]\nbackend = "local"\nroot = "a"\n[environments.b]\nbackend = "local"\nroot = "b"\n'
        '[reducer]\nenvironment = "b"\nmax_tokens_for_clear = 9000\nroot_dir = "kept"\nsession_id = "t"\n'
    )
    stead("reduce", save(conversation()))
    assert len(list(Path("b/kept/t/records").iterdir())) >= 8
    assert not Path("a").exists()
    assert len(json.loads(stead("offloads", "list", "--json").stdout)) >= 8
    stead("reduce", "talk.json", "--env", "a", "--session", "u")
    assert len(list(Path("a/kept/u/records").iterdir())) >= 8


def test_offloads_are_listed_and_expired(stead: Run) -> None:
    """`list` has a line for each, `gc` removes the oldest beyond a quota and nothing else."""
    stead("reduce", save(conversation()), "--max-tokens", "9000", "--session", "one")
    Path(".stead/offloads/mine.txt").write_text("not stead's")
    lines = stead("offloads", "list").stdout.splitlines()
    assert len(lines) >= 8
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +[\d,]+  one  Search  cleared  \.stead/offloads/one/clear/c\d+-\w+", lines[0]
    )
    assert stead("offloads", "list", "--session", "two").stdout == ""
    assert stead("offloads", "gc", "--age", "1h").stdout == "0 removed\n"
    removed = json.loads(stead("offloads", "gc", "--quota", "20KB", "--json").stdout)["removed"]
    assert removed == [line.split("  ")[-1] for line in lines[: len(removed)]]
    left = stead("offloads", "list").stdout.splitlines()
    assert left == lines[len(removed) :]
    assert 1 <= len(left) <= 3
    assert stead("offloads", "gc", "--age", "0s").stdout.endswith(f"{len(left)} removed\n")
    assert Path(".stead/offloads/mine.txt").read_text() == "not stead's"


@pytest.mark.parametrize("option", [("--age", "soon"), ("--age", "5y"), ("--quota", "big"), ("--quota", "-1")])
def test_ages_and_sizes_are_checked(stead: Run, option: tuple[str, str]) -> None:
    """A value without a known unit is refused."""
    assert "is not valid; write" in stead("offloads", "gc", *option, code=2).stderr


def test_a_missing_offload_is_one_line(stead: Run) -> None:
    """`show` of a path that holds nothing exits with 1."""
    assert stead("offloads", "show", ".stead/offloads/x", code=1).stderr.startswith("stead: ")
