"""The command line: what each command prints, where, and with which exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from stead.cli import main

pytest.importorskip("stead_local", reason="most commands are shown on the local backend")


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """An empty working directory, and nothing of the machine's own configuration."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (folder / ".git").mkdir()
    return folder


@pytest.fixture
def stead(capfdbinary) -> Callable[..., Done]:
    """Runs the command line in this process."""

    def run(*arguments: str) -> Done:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        for number, handler in before.items():
            signal.signal(number, handler)
        out, err = capfdbinary.readouterr()
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, out.decode(), err.decode())

    return run


def process(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    """Starts the command line as a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "stead", *arguments], stdout=-1, stderr=-1, **options)


def config(text: str) -> None:
    Path("stead.toml").write_text(text)


# ---- which environment --------------------------------------------------------------------------------------------------


def test_without_configuration_it_is_the_local_backend_here(stead, work):
    """So that a first try needs no file; stderr says what was chosen."""
    done = stead("write", "a.txt", "--text", "hello")
    assert done == Done(0, f"{work}/a.txt: 5 bytes\n", "stead: backend 'local'\n")
    assert Path("a.txt").read_text() == "hello"


def test_a_name_is_an_environment_then_a_backend_then_a_class(stead, work):
    """What was chosen is on stderr, so that stdout is the answer alone."""
    config('[environments.work]\nbackend = "local"\nroot = "sub"')
    (work / "mine.py").write_text("from stead.environments import MemoryEnvironment as Mine")
    chosen = f"environment 'work' of {work}/stead.toml, backend 'local'"
    assert stead("ls") == Done(0, "", f"stead: {chosen}\n")
    assert stead("ls", "--env", "work").err == f"stead: {chosen}\n"
    assert stead("ls", "-e", "memory", "--json") == Done(0, "[]\n", "stead: backend 'memory'\n")
    assert stead("ls", "--env", "mine:Mine") == Done(0, "", "stead: class 'mine:Mine'\n")
    del sys.modules["mine"]


def test_the_file_may_be_named(stead, work):
    """Its relative paths start at its folder."""
    (work / "conf").mkdir()
    (work / "conf/other.toml").write_text('[environments.x]\nbackend = "local"\nroot = "data"')
    assert stead("write", "a", "-t", "x", "--config", "conf/other.toml").code == 0
    assert (work / "conf/data/a").read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ls", "--env", "wrk"), "called 'wrk'; did you mean 'work'?"),
        (("ls", "--env", "s3"), "pip install stead-s3"),
        (("ls", "--env", "two"), "environments.two: the backend 'gcs' is not installed; pip install stead-gcs"),
        (("ls",), "name an environment, or call one `default`; there is: work, two"),
        (("ls", "--env", "no_module:X"), "No module named 'no_module'"),
        (("ls", "--config", "none.toml"), "none.toml': No such file or directory"),
    ],
)
def test_a_wrong_set_up_is_one_line_and_code_2(stead, arguments, told):
    """On stderr, with what to do, and no traceback."""
    config('[environments.work]\nbackend = "local"\n[environments.two]\nbackend = "gcs"')
    done = stead(*arguments)
    assert (done.code, done.out) == (2, "")
    last = done.err.splitlines()[-1]
    assert last.startswith("stead: ")
    assert told in last
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("read", "none.txt"), "none.txt"),
        (("read", "../x"), "leads outside"),
        (("ls", "none"), "none"),
        (("write", ".", "--text", "x"), "directory"),
        (("exec", "--env", "memory", "true"), "does not support execute"),
    ],
)
def test_a_failed_operation_is_one_line_and_code_1(stead, arguments, told):
    """Which path, and why."""
    done = stead(*arguments)
    assert (done.code, done.out) == (1, "")
    assert told in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_an_error_of_the_system_is_one_line_and_code_1(stead, work):
    """Also one that a backend did not make an error of ours."""
    (work / "failing.py").write_text(
        "from stead.environments import MemoryEnvironment\n"
        "class Failing(MemoryEnvironment):\n"
        "    async def read_file(self, path):\n"
        "        raise OSError(5, 'Input/output error', '/dev/x')\n"
    )
    done = stead("read", "--env", "failing:Failing", "a")
    del sys.modules["failing"]
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[1:] == ["stead: read: [Errno 5] Input/output error: '/dev/x'"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
@pytest.mark.parametrize("arguments", [("ls",), ("read", "a"), ("exec", "seq 9"), ("config", "schema")])
def test_output_that_cannot_be_written_is_one_line_and_code_1(work, arguments):
    """It is not tried again when the process exits."""
    (work / "a").write_text("text")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "stead", *arguments], stdout=full, stderr=-1, check=False)
    assert (done.returncode, done.stderr.decode().splitlines()[-1]) == (
        1,
        f"stead: {arguments[0]}: [Errno 28] No space left on device",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("read",),
        ("read", "a", "--lines", "x"),
        ("read", "a", "--what"),
        ("exec", "--timeout", "0", "true"),
    ],
)
def test_wrong_usage_is_code_2(stead, arguments):
    """Also where only the contract knows that it is wrong."""
    assert stead(*arguments).code == 2


def test_without_the_extra_it_says_what_to_install():
    """The core alone has no typer."""
    code = "import sys; sys.modules['typer'] = None; from stead.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "stead: the command line needs typer: pip install 'stead[cli]'\n"


# ---- read ---------------------------------------------------------------------------------------------------------------


def test_read_prints_the_bytes_as_they_are(stead):
    """Nothing is decoded or added."""
    content = b"caf\xc3\xa9\r\n\x00\xff no newline"
    Path("a.bin").write_bytes(content)
    running = process("read", "a.bin")
    assert running.communicate(timeout=60)[0] == content
    assert running.returncode == 0


@pytest.mark.parametrize(
    ("lines", "out"),
    [
        ("2:3", "two\nthree\n"),
        ("3:", "three\nfour"),
        (":2", "one\ntwo\n"),
        ("4", "four"),
        ("2", "two\n"),
        ("3:99", "three\nfour"),
    ],
)
def test_read_lines(stead, lines, out):
    """A to B, inclusive; an unterminated last line gets no newline."""
    Path("a.txt").write_text("one\ntwo\nthree\nfour")
    done = stead("read", "a.txt", "--lines", lines)
    assert (done.code, done.out) == (0, out)


def test_read_lines_of_any_length(stead):
    """What is longer than one page of the contract comes out whole."""
    lines = ["x" * 70_000, "y" * 29_999, "z" * 30_000, "", *(f"line {n}" for n in range(9_000))]
    Path("a.txt").write_text("".join(f"{line}\n" for line in lines))
    assert stead("read", "a.txt", "--lines", "1:").out.splitlines() == lines
    assert stead("read", "a.txt", "--lines", "2:4").out.splitlines() == lines[1:4]
    told = json.loads(stead("read", "a.txt", "--json").out)
    assert told["content"].split("\n") == lines
    assert (told["first_line"], told["last_line"], told["total_lines"]) == (1, len(lines), len(lines))


def test_read_as_json(stead):
    """The lines, where they are, and how many there are."""
    Path("a.txt").write_text("one\ntwo\nthree")
    assert json.loads(stead("read", "a.txt", "--lines", "2:3", "--json").out) == {
        "path": "a.txt",
        "first_line": 2,
        "last_line": 3,
        "total_lines": 3,
        "last_line_complete": False,
        "content": "two\nthree",
    }
    Path("empty").write_text("")
    told = json.loads(stead("read", "empty", "--json").out)
    assert (told["content"], told["last_line"], told["total_lines"]) == ("", 0, 0)


def test_read_past_the_end_is_an_error(stead):
    """An empty answer would look like an empty file."""
    Path("a.txt").write_text("one\n")
    done = stead("read", "a.txt", "--lines", "5:6")
    assert done.code == 1
    assert "'a.txt' has 1 lines; line 5 is past its end" in done.err
    assert stead("read", "a.txt", "--lines", "2").code == 1
    Path("empty").write_text("")
    assert stead("read", "empty", "--lines", "1:").out == ""


def test_a_reader_that_leaves_early_is_no_error():
    """As in `stead read big | head -1`."""
    Path("big.txt").write_text("line\n" * 1_000_000)
    command = f"{sys.executable} -m stead read big.txt | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == "line\n"
    assert done.returncode == 141
    assert done.stderr == "stead: backend 'local'\n"


# ---- write, ls ----------------------------------------------------------------------------------------------------------


def test_write_takes_standard_input():
    """Byte for byte, as much as comes."""
    content = os.urandom(3_000_000)
    running = process("write", "sub/a.bin", "--json", stdin=-1)
    out, _ = running.communicate(content, timeout=60)
    told = json.loads(out)
    assert (running.returncode, told["size"], told["kind"]) == (0, 3_000_000, "file")
    assert Path("sub/a.bin").read_bytes() == content


def test_an_interrupted_write_leaves_the_old_file():
    """Ctrl-C while standard input is still open."""
    Path("a.txt").write_text("old")
    running = process("write", "a.txt", stdin=-1)
    running.stdin.write(b"new" * 100_000)
    running.stdin.flush()
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert Path("a.txt").read_text() == "old"
    assert sorted(os.listdir()) == [".git", "a.txt"]


def test_ls_lists_sorted(stead, work):
    """Directories end in a slash; control characters of a hostile name do not reach the terminal."""
    Path("b").mkdir()
    Path("b/c.txt").write_text("12345")
    Path("a\x1b[31m.txt").write_text("1")
    done = stead("ls")
    assert [line.split(maxsplit=1)[0] for line in done.out.splitlines()] == ["-", "1", "-"]
    assert [line.rpartition(" ")[2] for line in done.out.splitlines()] == [
        f"{work}/.git/",
        f"{work}/a\\x1b[31m.txt",
        f"{work}/b/",
    ]
    assert f"{work}/b/c.txt" in stead("ls", "-r").out


def test_ls_goes_on_where_the_terminal_lacks_a_letter(work):
    """The name is escaped, and JSON stays JSON."""
    (work / ".git").rmdir()
    for name in ("a", "\u00e9\U0001f4c1", "z"):
        (work / name).touch()
    listing = process("ls", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, _ = listing.communicate()
    names = [line.rpartition("/")[2] for line in out.decode("ascii").splitlines()]
    assert (listing.returncode, sorted(names)) == (0, ["\\xe9\\U0001f4c1", "a", "z"])
    out, _ = process("ls", "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"}).communicate()
    assert {info["path"] for info in json.loads(out)} == {f"{work}/{name}" for name in ("a", "\u00e9\U0001f4c1", "z")}


def test_ls_as_json(stead, work):
    """One array of what the contract says about each entry."""
    Path("b.txt").write_text("12345")
    (folder, file) = json.loads(stead("ls", "--json").out)
    assert (folder["path"], folder["kind"]) == (f"{work}/.git", "directory")
    assert (file["path"], file["kind"], file["size"]) == (f"{work}/b.txt", "file", 5)
    assert file["modified"].endswith("+00:00")
    assert file["version"]


# ---- exec ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--", "sh", "-c", "echo out; echo err >&2; exit 3"), (3, "out\n", "err\n")),
        (("sh", "-c", "exit 4"), (4, "", "")),
        (("echo a b | wc -w",), (0, "2\n", "")),
        (("--", "printf", "%s", "a  b"), (0, "a  b", "")),
        (("no-such-program-here",), (127, "", None)),
        (("cat",), (0, "", "")),
    ],
)
def test_exec_passes_output_and_code_on(stead, words, expected):
    """One word is shell text, several are argv; standard input is empty."""
    done = stead("exec", *words)
    code, out, err = expected
    assert (done.code, done.out) == (code, out)
    if err is not None:
        assert done.err == f"stead: backend 'local'\n{err}"


def test_exec_prints_while_the_command_runs():
    """The first line is there long before the command ends."""
    running = process("exec", "--", "sh", "-c", "echo first; sleep 60")
    assert running.stdout.readline() == b"first\n"
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    running.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_whole_tree(number, code):
    """Also a child that the command left in the background and that ignores TERM."""
    running = process("exec", "--", "sh", "-c", "(trap '' TERM INT; echo $$; sleep 61.5) & sleep 61.5")
    running.stdout.readline()
    running.send_signal(number)
    assert running.wait(timeout=30) == code
    running.communicate()
    assert subprocess.run(["pgrep", "-f", "^sleep 61[.]5"], check=False, stdout=-1).stdout == b""


def test_exec_with_a_timeout(stead, work):
    """The code is 124, and stderr says so."""
    done = stead("exec", "--timeout", "0.5", "--", "sleep", "60")
    assert done.code == 124
    assert done.err.endswith("stead: the command was killed after 0.5 seconds\n")
    Path("sub").mkdir()
    assert stead("exec", "--cwd", "sub", "pwd").out == f"{work}/sub\n"


def test_exec_as_json(stead):
    """The result of the contract; the code is passed on all the same."""
    done = stead("exec", "--json", "echo out; echo err >&2; exit 5")
    told = json.loads(done.out)
    assert done.code == told["exit_code"] == 5
    assert (told["stdout"], told["stderr"], told["timed_out"]) == ("out\n", "err\n", False)


def test_exec_without_a_stream_prints_at_the_end(stead, work):
    """An environment that declares only `execute` works too."""
    (work / "only_execute.py").write_text(
        "from stead.results import ExecutionResult\n"
        "class Env:\n"
        "    working_dir = '/'\n"
        "    async def read_file(self, path): return b''\n"
        "    async def write_file(self, path, content): ...\n"
        "    async def execute(self, command, timeout=None):\n"
        "        return ExecutionResult(exit_code=6, stdout=f'ran {command}\\n', stderr='err\\n')\n"
    )
    done = stead("exec", "--env", "only_execute:Env", "--", "a", "b")
    del sys.modules["only_execute"]
    assert (done.code, done.out) == (6, "ran ['a', 'b']\n")
    assert done.err.endswith("err\n")


# ---- backends, config ---------------------------------------------------------------------------------------------------


def test_backends_says_where_each_comes_from(stead, install):
    """One line each, however long; a broken one is in the list, and its error on stderr."""
    install("bad", {"stead.backends": {"bad": "badplug"}}, {"badplug.py": "import module_that_is_missing"})
    done = stead("backends")
    lines = {line.split()[0]: line.split() for line in done.out.splitlines()}
    assert lines["NAME"] == ["NAME", "DISTRIBUTION", "VERSION", "STATE", "MODULE", "PATH"]
    assert lines["memory"][:5] == ["memory", "stead", "0.1.0", "ok", "stead.environments.plugin"]
    assert lines["memory"][5].endswith("stead/environments/plugin.py")
    assert lines["local"][:5] == ["local", "stead-local", "0.1.0", "ok", "stead_local.plugin"]
    assert lines["bad"][:5] == ["bad", "bad", "1.0", "broken", "badplug"]
    assert "module_that_is_missing" in done.err
    assert done.code == 0
    told = {item["name"]: item for item in json.loads(stead("backends", "--json").out)}
    assert told["bad"]["state"] == "broken"
    assert "module_that_is_missing" in told["bad"]["error"]
    assert "execute" in told["local"]["capabilities"]


def test_config_check(stead, work):
    """Errors are code 2, warnings are not; a file that cannot be read is one line."""
    config('[environments.a]\nbackend = "memory"')
    assert stead("config", "check") == Done(0, f"{work}/stead.toml: ok, 1 environments\n", "")
    config('[environments.a]\nbackend = "s3"\nsecret_key = "s3cret"')
    done = stead("config", "check")
    assert done.code == 2
    assert done.out.splitlines() == [
        f'warning: {work}/stead.toml: environments.a.secret_key is written in plain text; use {{ env = "NAME" }} or a file',
        f"error: {work}/stead.toml: environments.a: the backend 's3' is not installed; pip install stead-s3",
    ]
    told = json.loads(stead("config", "check", "--json").out)
    assert (told["ok"], [problem["level"] for problem in told["problems"]]) == (False, ["warning", "error"])
    config("[environment.a]")
    done = stead("config", "check")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'environments'?" in done.err
    Path("stead.toml").unlink()
    assert "no stead.toml was found" in stead("config", "check").err


def test_config_show_masks_secrets(stead, work):
    """As TOML that can be read again, or JSON; references give nothing away and stay."""
    import tomllib

    config(
        '[environments.a]\nbackend = "s3"\nsecret_key = "s3cret"\ntoken = { env = "X" }\nquote = "a\\"b"\n'
        'options = { "odd key" = [1, true, 1.5], password = "s3cret" }\n[reducer]\nskip_clear = true\n'
    )
    done = stead("config", "show")
    assert "s3cret" not in done.out + done.err
    shown = tomllib.loads(done.out)
    told = json.loads(stead("config", "show", "--json").out)
    assert told["environments"] == shown["environments"]
    assert shown == {
        "environments": {
            "a": {
                "backend": "s3",
                "secret_key": "**********",
                "token": {"env": "X"},
                "quote": 'a"b',
                "options": {"odd key": [1, True, 1.5], "password": "**********"},
            }
        },
        "reducer": {"skip_clear": True},
    }
    assert (told["file"], told["default"]) == (f"{work}/stead.toml", "a")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_config_show_prints_what_can_be_read_again(encoding):
    """Whatever letters and numbers are in the file, and whatever the terminal can show."""
    import tomllib

    text = (
        '[environments.a]\nbackend = "nowhere"\nroot = "\U0001f4c1d\u00efr"\n"k\u00e9\\u007f\\u0085" = "\\u007f\\u0085\\u2028"\n'
        "n = inf\nm = [-inf, nan, 1e16, 1e-7]\nd = 2020-01-01T00:00:00Z\n"
    )
    Path("stead.toml").write_text(text, encoding="utf-8")
    variables = {**os.environ, "PYTHONIOENCODING": encoding}
    out, _ = process("config", "show", env=variables).communicate()
    assert str(tomllib.loads(out.decode(encoding))) == str(tomllib.loads(text))
    out, _ = process("config", "show", "--json", env=variables).communicate()
    told = json.loads(out.decode(encoding), parse_constant=pytest.fail)["environments"]["a"]
    assert (told["root"], told["n"], told["m"]) == ("\U0001f4c1d\u00efr", "inf", ["-inf", "nan", 1e16, 1e-7])


def test_config_schema_is_json_schema(stead):
    """With the options of the local backend in it."""
    schema = json.loads(stead("config", "schema").out)
    variants = schema["properties"]["environments"]["additionalProperties"]["anyOf"]
    (local,) = (variant for variant in variants if variant.get("title") == "local")
    assert {"backend", "root", "shell", "inherit_env", "output_limit", "limits", "on_close", "state_dir"} == set(
        local["properties"]
    )


# ---- demo ---------------------------------------------------------------------------------------------------------------


def test_demo_shows_the_main_job(stead):
    """A large result becomes a small notice, and every line that is read back is right."""
    done = stead("demo", "--size", "5MB")
    assert done.code == 0
    assert "Every line read back is the tool's own" in done.out
    assert "Read it with ReadFile" in done.out
    assert "cleared results is where its notice says" in done.out


def test_demo_clears_what_is_old(stead):
    """Two hundred turns stay below the budget, and every result that was cleared is whole where its notice says."""
    told = json.loads(stead("demo", "--size", "1MB", "--json").out)
    turns = told["turns"]
    assert (turns["turns"], turns["exact"], told["exact"]) == (200, True, True)
    assert max(turns["sent_tokens"]) <= 100_000
    assert turns["raw_tokens"][-1] > 500_000
    assert turns["passes"] <= 12
    assert len(turns["cleared"]) > 150


def test_demo_as_json(stead):
    """The figures, and nothing else on stdout."""
    told = json.loads(stead("demo", "--size", "5MB", "--turns", "0", "--json").out)
    assert told["turns"] is None
    assert told["exact"] is True
    assert told["lines"] * 3 < told["decision"]["before_chars"]
    assert 4_000_000 < told["decision"]["before_chars"] < 6_000_000
    assert told["decision"]["after_chars"] <= 50_000
    assert [step["name"].split(",")[0] for step in told["steps"]] == [
        "the tool makes its text",
        "the reducer stores it",
        "ReadFile",
        "ReadFile",
        "ReadFile",
    ]
    assert len(told["pages"]) == 3


@pytest.mark.parametrize(("size", "code"), [("1KB", 1), ("many", 2), ("-5MB", 2)])
def test_demo_refuses_a_size_that_shows_nothing(stead, size, code):
    """Too short to be reduced is a failure, no size is wrong usage."""
    assert stead("demo", "--size", size).code == code


@pytest.mark.parametrize(
    ("words", "redirect", "code"),
    [
        ("exec -- sh -c 'echo hi; exit 3'", ">&-", 3),
        ("exec -- sh -c 'echo hi; exit 3'", "2>&-", 3),
        ("exec --json -- echo hi", ">&-", 0),
        ("exec -- echo hi", ">/dev/full", 1),
        ("exec -- echo hi", "<&-", 0),
    ],
)
def test_closed_and_full_streams(words, redirect, code):
    """A closed stream is as /dev/null, a full one is one line and code 1."""
    shell = ["sh", "-c", f'exec "$0" -m stead {words} {redirect}', sys.executable]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "stead: backend" not in done.stdout


def test_ctrl_c_while_the_commands_are_imported(monkeypatch):
    """It is code 130, as later."""

    def interrupt(_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stead.cli._run", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 130
