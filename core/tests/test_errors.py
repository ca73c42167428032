"""The error tree: drawn, catchable as builtins, and able to travel."""

import copy
import pickle

import pytest

from stead import errors

LEAVES = [getattr(errors, name) for name in errors.__all__ if name != "SteadError"]
BUILTINS = {
    "FileMissing": FileNotFoundError,
    "IsADirectory": IsADirectoryError,
    "NotADirectory": NotADirectoryError,
    "AccessDenied": PermissionError,
    "FileExists": FileExistsError,
    "PathOutsideRoot": ValueError,
    "InvalidPath": ValueError,
    "Unsupported": NotImplementedError,
    "ConfigError": ValueError,
}


def test_the_drawing_is_the_tree():
    """The tree in the module docstring names exactly the classes that exist, with their builtins."""
    drawn = {}
    for line in errors.__doc__.splitlines():
        if "──" in line:
            name, _, rest = line.split("── ")[1].partition(" ")
            drawn[name] = rest.strip().partition(")")[0].strip("(") if rest.strip().startswith("(") else None

    assert drawn == {
        leaf.__name__: BUILTINS[leaf.__name__].__name__ if leaf.__name__ in BUILTINS else None for leaf in LEAVES
    }


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_leaf_carries_and_keeps_its_facts(leaf):
    """Built, pickled and copied, an error keeps message, backend, operation, path and retryable."""
    error = leaf("what to do", backend="b", operation="read_file", path="p")
    for other in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is leaf
        assert (str(other), other.message, other.backend, other.operation, other.path) == (
            "what to do",
            "what to do",
            "b",
            "read_file",
            "p",
        )
        assert other.retryable is (leaf is errors.Unavailable)
    assert leaf("m", retryable=True).retryable is True
    assert leaf("m", retryable=False).retryable is False


@pytest.mark.parametrize("name, builtin", BUILTINS.items())
def test_leaves_are_caught_as_builtins(name, builtin):
    """`except FileNotFoundError` and its like catch ours, with the number that the system would give."""
    error = getattr(errors, name)("m")

    assert isinstance(error, builtin)
    assert isinstance(error, errors.SteadError)
    if issubclass(builtin, OSError):
        assert (
            error.errno
            == {"FileMissing": 2, "IsADirectory": 21, "NotADirectory": 20, "AccessDenied": 13, "FileExists": 17}[name]
        )


def test_the_root_is_caught_by_no_builtin():
    """`except ValueError` and `except OSError` do not eat errors of the root class."""
    assert errors.SteadError.__mro__[1:] == (Exception, BaseException, object)
