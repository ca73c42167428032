"""The options of `local` as a file gives them, against the class that takes them."""

import inspect
from pathlib import Path

import pytest

import stead
from stead.errors import ConfigError
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
