"""`stead conformance`, and the same inside pytest: a target by name, without a line of code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stead.conformance.target import Target, parse_options, parse_waivers
from stead.errors import ConfigError


def stead(*arguments, cwd):
    """Runs `stead conformance`."""
    return subprocess.run(
        [sys.executable, "-c", "from stead.cli import main; main()", "conformance", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


QUICK = ("--law", "write-text", "--law", "write-atomic", "--law", "execute-timeout")


def test_backend(tmp_path):
    """A backend's name is enough; the table goes to stdout, what was chosen to stderr."""
    done = stead("memory", *QUICK, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stderr == "stead: backend 'memory'\n"
    assert done.stdout.splitlines()[-1] == ("backend 'memory': 2 held, 1 unsupported (contract 1.0, suite 1.0)")


def test_class_beside_the_caller(tmp_path):
    """`module:Class` is found in the current directory, and its options are keywords of the class."""
    (tmp_path / "mine.py").write_text(
        "from stead.environments import MemoryEnvironment\n"
        "class Mine(MemoryEnvironment):\n"
        "    def __init__(self, size: int):\n"
        "        assert size == 3\n"
        "        super().__init__()\n"
    )
    done = stead("mine:Mine", "--option", "size=3", *QUICK, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "class 'mine:Mine'" in done.stderr


def test_environment_of_the_configuration(tmp_path):
    """A name of stead.toml goes before a backend's."""
    (tmp_path / "stead.toml").write_text('[environments.memory]\nbackend = "local"\nroot = "work"\n')
    done = stead("memory", "--law", "execute-exit-codes", "--report", "json", cwd=tmp_path)

    assert json.loads(done.stdout)["counts"]["held"] == 1, done.stderr
    assert "backend 'local'" in done.stderr


def test_reports_to_files(tmp_path):
    """`--report` writes each format, told by the suffix."""
    files = ["r.json", "sub/r.xml", "r.md", "r.svg"]
    done = stead("memory", *QUICK, *[part for file in files for part in ("--report", file)], cwd=tmp_path)

    assert done.returncode == 0
    assert all((tmp_path / file).stat().st_size > 100 for file in files)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("nowhere",), 2, "nowhere"),
        (("memory", "--option", "root=x"), 2, "root"),
        (("memory", "--option", "root"), 2, "KEY=VALUE"),
        (("memory", "--law", "no-such-law"), 2, "no-such-law"),
        (("memory", "--waive", "no-such-law=x"), 2, "no-such-law"),
        (("memory", "--waive", "write-text="), 2, "LAW=REASON"),
        (("memory", "--report", "r.txt"), 2, ".json"),
        (("memory", "--law", "execute-timeout"), 3, "1 unsupported"),
        (("memory", "--law", "write-text", "--waive", "write-text=outdated"), 1, "outdated"),
        (("memory", "--law", "write-text", "--law", "write-seen-behind", "--strict"), 1, "needs the fixture raw"),
        ((), 2, "name what to try"),
    ],
)
def test_exit_codes(tmp_path, arguments, code, says):
    """Wrong usage is 2, a failed law 1, and a run that shows nothing 3; the message says what it was."""
    done = stead(*arguments, cwd=tmp_path)

    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done.stderr


def test_without_pytest(tmp_path):
    """Where pytest is missing, it says how to install it."""
    code = "import sys; sys.modules['pytest'] = None; from stead.cli import main; main(['conformance', 'memory'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, "pip install 'stead[conformance]'" in done.stderr) == (2, True)


def test_cleans_up(tmp_path):
    """A plain value is used as it is, what was there stays, and nothing is left behind."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/mine.txt").write_text("mine")
    laws = [part for law in ("write-text", "execute-10-mib", "list-many", "path-odd-names") for part in ("--law", law)]
    done = stead("local", "--option", "root=work", *laws, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine.txt", "work"]


def test_fresh_folder_for_each_law(tmp_path):
    """`{tmp}` is a new folder for each law, removed after it."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "from stead.cli import main; main()", "conformance", "local",
         "--option", "root={tmp}/r", *QUICK[:4]],
        env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_inside_pytest(tmp_path):
    """`pytest --pyargs stead.conformance --stead-env TARGET` does the same."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--pyargs", "stead.conformance", "-p", "stead.conformance.plugin",
         "-p", "no:cacheprovider", "--stead-env", "local", "--stead-option", f"root={tmp_path}/r", "-k", "write_text",
         "--stead-waive", "write-text=for a test"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "stead conformance of backend 'local'" in done.stdout
    assert "failed  write-text: the law holds, so its waiver must go: for a test" in done.stdout


def test_inside_pytest_without_target(tmp_path):
    """Without a target it says which option is missing."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--pyargs", "stead.conformance", "-p", "stead.conformance.plugin"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert done.returncode == 4
    assert "--stead-env TARGET" in done.stderr


def test_option_values():
    """A value is TOML where it can be, else text."""
    words = ["n=3", "flag=true", 'quoted="3"', "path=/srv/x", "list=[1, 2]", "equals=a=b", 'table={ env = "X" }']

    assert parse_options(words) == {
        "n": 3, "flag": True, "quoted": "3", "path": "/srv/x", "list": [1, 2], "equals": "a=b", "table": {"env": "X"},
    }  # fmt: skip


def test_waivers_have_reasons():
    """A waiver without a reason is refused."""
    assert parse_waivers(["write-atomic=no rename"]) == {"write-atomic": "no rename"}
    with pytest.raises(ConfigError):
        parse_waivers(["write-atomic"])


def test_target_says_whether_it_is_fresh():
    """`{tmp}` in any option makes each law's place new."""
    assert Target("local", {"root": "{tmp}/x"}).fresh
    assert not Target("local", {"root": "/srv", "n": 3}).fresh
    assert Path(str(Target("local", {"root": "{tmp}"}).open("/nowhere").working_dir)) == Path("/nowhere")


BROKEN = """
import asyncio, os, signal
from stead.conformance.settings import LawSettings
from stead.environments import MemoryEnvironment
LawSettings.law_seconds = 1

class Swallows(MemoryEnvironment):
    async def read_file(self, path):
        while True:
            try:
                await asyncio.sleep(0.1)
                raise ConnectionError
            except BaseException:
                continue

class Terminated(Swallows):
    async def read_file(self, path):
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
        return await super().read_file(path)

class Surrogate(MemoryEnvironment):
    async def read_file(self, path):
        raise Exception("bad \\udcff name")

class Unmade(MemoryEnvironment):
    def __init__(self):
        raise RuntimeError("no such thing")

class Unstarted(MemoryEnvironment):
    async def _start(self):
        raise RuntimeError("does not start")

class Incapable(MemoryEnvironment):
    capabilities = None

class Unlistable(MemoryEnvironment):
    async def list_files(self, path=".", *, recursive=False):
        raise RuntimeError("cannot be listed")
        yield
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Swallows", "LawHung"),
        ("Surrogate", r"bad \udcff name"),
        ("Unstarted", "does not start"),
        ("Incapable", "NoneType"),
    ],
)
def test_broken_targets_still_get_their_report(tmp_path, name, says):
    """However an environment fails, hangs, or what its error says: the run ends and the law is reported as failed."""
    (tmp_path / "broken.py").write_text(BROKEN)
    done = stead(f"broken:{name}", "--law", "read-missing", "--report", "r.json", cwd=tmp_path)
    [verdict] = json.loads((tmp_path / "r.json").read_text())["verdicts"]

    assert (done.returncode, verdict["outcome"], says in verdict["reason"]) == (1, "failed", True), verdict
    assert "Traceback" not in done.stderr


def test_a_target_that_cannot_be_listed_is_still_tried(tmp_path):
    """What the listing around a run raises is no end of the run."""
    (tmp_path / "broken.py").write_text(BROKEN)
    done = stead("broken:Unlistable", "--law", "write-text", cwd=tmp_path)

    assert done.returncode == 0, done.stderr


def test_a_target_that_cannot_be_made_is_one_line(tmp_path):
    """A constructor that raises is a wrong set-up."""
    (tmp_path / "broken.py").write_text(BROKEN)
    done = stead("broken:Unmade", cwd=tmp_path)

    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2), done.stderr
    assert "RuntimeError: no such thing" in done.stderr


def test_term_ends_the_run(tmp_path):
    """TERM ends a run with its code, also where the environment swallows every exception."""
    (tmp_path / "broken.py").write_text(BROKEN)
    done = stead("broken:Terminated", "--law", "read-missing", "--law", "write-text", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (143, ""), done.stderr


def test_a_report_that_cannot_be_written_costs_no_other(tmp_path):
    """A file that cannot be written is one line and code 1; the table and the other files are there."""
    (tmp_path / "file").touch()
    done = stead("memory", *QUICK, "--report", "file/r.json", "--report", "r.json", cwd=tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (1, 2), done.stderr
    assert "2 held" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["counts"]["held"] == 2
