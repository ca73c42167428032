"""`stead new-backend` writes a package that installs from its wheel and passes the suite at once."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

MAIN = "from stead.cli import main; main()"
HERE = os.environ.get("PYTHONPATH", "")


def run(*command, cwd, path=""):
    """Runs a command of this interpreter."""
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env={**os.environ, "PYTHONPATH": str(path)}, capture_output=True, text=True,
        timeout=400, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package of a new backend, as it was written."""
    folder = tmp_path_factory.mktemp("new")
    done = run("-c", MAIN, "new-backend", "my-files", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "stead-my-files"


def test_layout(package):
    """The files are those of every backend, and a missing one is a missing capability: it has no commands.py."""
    assert sorted(path.name for path in (package / "src/stead_my_files").iterdir()) == [
        "__init__.py", "config.py", "environment.py", "errors.py", "files.py", "plugin.py", "py.typed",
    ]  # fmt: skip
    assert not [path for path in package.rglob("*") if path.is_file() and re.search("@[A-Z]+@", path.read_text())]


@pytest.mark.parametrize("name", ["My", "a--b", "-a", "a_b", "1a", "", "a/b"])
def test_wrong_names(tmp_path, name):
    """A name that cannot be an entry point and a package is refused, and nothing is written."""
    done = run("-c", MAIN, "new-backend", "--", name, cwd=tmp_path)

    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


@pytest.mark.parametrize("name", ["memory", "local", "s3", "daytona"])
def test_taken_names(tmp_path, name):
    """A name that an installed or a first-party backend has is refused, and nothing is written."""
    done = run("-c", MAIN, "new-backend", name, cwd=tmp_path, path=HERE)

    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "is taken" in done.stderr


def test_a_folder_that_cannot_be_made(tmp_path):
    """It is one line and code 1."""
    (tmp_path / "file").touch()
    done = run("-c", MAIN, "new-backend", "mine", "--folder", "file/x", cwd=tmp_path, path=HERE)

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr


def test_the_next_line_can_be_pasted(tmp_path):
    """The printed commands are quoted for a shell."""
    done = run("-c", MAIN, "new-backend", "mine", "--folder", "a b's", cwd=tmp_path, path=HERE)
    line = next(line for line in done.stdout.splitlines() if "pip install" in line)

    assert shlex.split(line)[-1] == "a b's"


def test_never_overwrites(package):
    """A folder that holds something is left alone."""
    done = run("-c", MAIN, "new-backend", "my-files", cwd=package.parent)

    assert (done.returncode, "not empty" in done.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_passes_from_its_wheel(package, tmp_path):
    """Built, installed from the wheel and found by name, it conforms: no law fails and none is waived."""
    built = run(
        "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path / "dist"), ".", cwd=package
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    site = tmp_path / "site"
    installed = run("-m", "pip", "install", "--no-deps", "--target", str(site), str(wheel), cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr

    option = "database={tmp}/files.db"
    done = run("-c", MAIN, "conformance", "my-files", "--option", option, "--report", "json", cwd=tmp_path, path=site)
    report = json.loads(done.stdout)

    assert (done.returncode, report["counts"]["failed"], report["counts"]["waived"]) == (0, 0, 0), done.stderr
    assert report["counts"]["held"] > 150
    assert {v["law"]: v["outcome"] for v in report["verdicts"]}["declares-backend"] == "held"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_own_tests_pass(package):
    """The tests that come with it try all laws but the one about the installed plugin."""
    done = run(
        "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider", "-k", "not declares_backend", cwd=package,
        path=package / "src",
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout.splitlines()[-1]
