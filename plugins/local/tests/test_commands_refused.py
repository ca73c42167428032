"""What `execute` refuses before anything starts."""

import math

import pytest
from commands_support import execute, run

from stead.errors import ConfigError
from stead_local import LocalEnvironment


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("", ValueError),
        (" \n\t", ValueError),
        ([], ValueError),
        ([""], ValueError),
        (["", "x"], ValueError),
        ("a\0b", ValueError),
        (["echo", "a\0b"], ValueError),
        ("\ud800", ValueError),
        (b"true", TypeError),
        ([b"true"], TypeError),
        (["true", 1], TypeError),
        (["true", None], TypeError),
        ({"true"}, TypeError),
        (None, TypeError),
        (7, TypeError),
        (iter(["true"]), TypeError),
    ],
)
def test_commands(tmp_path, command, error):
    """An empty command or NUL in it is a ValueError, another type a TypeError."""
    with pytest.raises(error):
        execute(tmp_path, command)


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (math.nan, ValueError),
        (-math.inf, ValueError),
        ("5", TypeError),
        (True, TypeError),
        ([1], TypeError),
    ],
)
def test_timeouts(tmp_path, timeout, error):
    """A timeout is a number greater than zero."""
    with pytest.raises(error, match="timeout"):
        execute(tmp_path, "true", timeout=timeout)


@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("10", TypeError)])
def test_output_limits(tmp_path, limit, error):
    """An output limit is an int, zero or more."""
    with pytest.raises(error, match="output_limit"):
        execute(tmp_path, "true", output_limit=limit)
    with pytest.raises(error, match="output_limit"):
        LocalEnvironment(tmp_path, output_limit=limit)


@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"A=B": "x"}, ValueError),
        ({"": "x"}, ValueError),
        ({"A\0": "x"}, ValueError),
        ({"A": "x\0"}, ValueError),
        ({"A": 1}, TypeError),
        ({1: "A"}, TypeError),
        ({"A": None}, TypeError),
        ([("A", "B")], TypeError),
    ],
)
def test_variables(tmp_path, env, error):
    """Names of variables hold no `=`, nothing holds NUL, everything is text. Values are never repeated in the error."""
    with pytest.raises(error):
        execute(tmp_path, "true", env=env)
    with pytest.raises((ValueError, TypeError)) as caught:
        execute(tmp_path, "true", env={"TOKEN": "canary\0"})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("stdin", "error"), [(5, TypeError), (["x"], TypeError), ("\ud800", UnicodeEncodeError)])
def test_stdin(tmp_path, stdin, error):
    """stdin is text or bytes."""
    with pytest.raises(error):
        execute(tmp_path, "cat", stdin=stdin)


def test_a_refused_stream(tmp_path):
    """`execute_stream` refuses the same, at its first step."""

    async def use(env):
        with pytest.raises(ValueError, match="timeout"):
            await anext(env.execute_stream("true", timeout=-1))
        with pytest.raises(ValueError, match="empty"):
            await anext(env.execute_stream(""))

    run(tmp_path, use)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"limits": {"cpu_seconds": 0}}, ValueError),
        ({"limits": {"memory": 1.5}}, TypeError),
        ({"limits": {"disk": 1}}, TypeError),
        ({"on_close": "maybe"}, ValueError),
        ({"shell": ""}, ValueError),
        ({"state_dir": ".."}, ConfigError),
        ({"state_dir": "/elsewhere"}, ConfigError),
        ({"state_dir": "."}, ConfigError),
    ],
)
def test_options(tmp_path, options, error):
    """Options are checked when the environment is made, without touching anything."""
    with pytest.raises(error):
        LocalEnvironment(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
