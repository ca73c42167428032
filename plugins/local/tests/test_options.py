"""The options of `local` as a file gives them, against the class that takes them."""

import inspect
from pathlib import Path

import pytest

import stead
from stead.errors import ConfigError, FileMissing, NotADirectory
from stead_local import LocalEnvironment
from stead_local.config import LimitOptions, LocalOptions
from stead_local.limits import Limits


def test_the_options_are_the_parameters_of_the_class():
    """Names and defaults are equal, so that nothing means something else in a file."""
    parameters = {p.name: p.default for p in inspect.signature(LocalEnvironment).parameters.values()}
    options = {name: field.default for name, field in LocalOptions.model_fields.items()}
    assert {**options, "root": str(options["root"])} == parameters
    assert inspect.signature(LimitOptions).parameters.keys() == inspect.signature(Limits).parameters.keys()


def test_a_file_opens_it(tmp_path, monkeypatch):
    """A relative root starts at the folder of the file, limits are a table."""
    (tmp_path / "stead.toml").write_text(
        '[environments.work]\nbackend = "local"\nroot = "sub"\nlimits = { cpu_seconds = 7 }\noutput_limit = 10\n'
    )
    env = stead.load_config(tmp_path / "stead.toml").create_environment()
    assert Path(env.working_dir) == tmp_path / "sub"
    with stead.sync.SyncEnvironment(env) as work:
        assert work.execute("ulimit -t").stdout == "7\n"
        assert work.execute("printf 123456789012345").stdout_path is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"limits": {"cpu": 1}}, "option 'limits' of 'local': key 'cpu' is unknown; there is: cpu_seconds"),
        ({"limits": {"cpu_seconds": 0}}, "cpu_seconds must be at least 1"),
        ({"limits": {"cpu_seconds": 1 << 63}}, "cpu_seconds must be at most 9223372036854775806"),
        ({"state_dir": "../out"}, "option 'state_dir' of 'local': it must be a folder below the working directory"),
        ({"state_dir": "a\0b"}, "option 'state_dir' of 'local': "),
        ({"root": "a\0b"}, "option 'root' of 'local': a path cannot hold NUL"),
        ({"output_limit": -1}, "option 'output_limit' of 'local': input should be greater than or equal to 0"),
        ({"on_close": "leave"}, "option 'on_close' of 'local': input should be 'kill' or 'keep'"),
        ({"shell": ""}, "option 'shell' of 'local': string should have at least 1 character"),
        ({"rot": "."}, "option 'rot' of 'local' is unknown; did you mean 'root'?"),
    ],
)
def test_a_bad_option_is_named(options, told):
    """As a ConfigError, before anything is made."""
    with pytest.raises(ConfigError) as caught:
        stead.create_environment("local", **options)
    assert told in caught.value.message


def test_the_largest_limits_are_no_limits(tmp_path):
    """The system takes every value that is accepted."""
    most = (1 << 63) - 2
    limits = Limits(cpu_seconds=most, memory=most, processes=most, file_size=most)
    with stead.sync.SyncEnvironment(LocalEnvironment(tmp_path, limits=limits)) as env:
        assert env.execute("echo on").stdout == "on\n"


@pytest.mark.parametrize(
    ("root", "error"),
    [("file", NotADirectory), ("file/below", NotADirectory), ("/proc/none", FileMissing)],
)
def test_a_root_that_cannot_be_made_is_told(tmp_path, root, error):
    """As one of our errors, at start."""
    (tmp_path / "file").touch()
    with pytest.raises(error) as caught, stead.sync.SyncEnvironment(LocalEnvironment(tmp_path / root)):
        pass
    assert (caught.value.backend, caught.value.operation) == ("local", "start")
