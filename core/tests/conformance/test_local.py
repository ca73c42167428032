"""The local environment holds every law, as root and as a plain user."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stead.conformance import DirectoryDoor, EnvironmentLaws
from stead_local import LocalEnvironment


class TestLocal(EnvironmentLaws):
    """The local environment under all laws."""

    backend = "local"

    @pytest.fixture
    def environment(self, tmp_path):
        return LocalEnvironment(root=tmp_path)

    @pytest.fixture
    def second_environment(self, tmp_path):
        return LocalEnvironment(root=tmp_path)

    @pytest.fixture
    def raw(self, tmp_path):
        return DirectoryDoor(tmp_path)


PERMISSIONS = ("read-no-permission", "write-read-only-file", "write-read-only-folder", "write-keeps-mode")

AS_NOBODY = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["HOME"] = sys.argv.pop(1)
from stead.cli import main
main()
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="a plain user: the class above tried these laws")
def test_permissions_as_a_plain_user(tmp_path):
    """As root the system refuses nothing, so a child process without its rights tries the laws about permissions."""
    readable = all(_readable(Path(folder)) for folder in (sys.prefix, __file__, json.__file__))
    if not readable:
        pytest.skip("a plain user cannot read this interpreter")
    home = tmp_path / "home"
    home.mkdir()
    for folder in (home, *tmp_path.parents[:2], tmp_path):
        folder.chmod(0o777)
    laws = [part for law in PERMISSIONS for part in ("--law", law)]
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(home), "conformance", "local", "--option", f"root={home}/work", *laws,
         "--report", "json"],
        cwd=home, env={**os.environ, "TMPDIR": str(home)}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert {v["law"]: v["outcome"] for v in json.loads(done.stdout)["verdicts"]} == dict.fromkeys(
        sorted(PERMISSIONS), "held"
    ), done.stderr


def _readable(path):
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in path.resolve().parents)
