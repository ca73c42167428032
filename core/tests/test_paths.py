"""The one path rule, as text."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.errors import InvalidPath, PathOutsideRoot
from stead.paths import check_state_dir, resolve_path, split_path

ROOT = PurePosixPath("/srv/work")


def resolve(path, working_dir=ROOT):
    return str(resolve_path(path, working_dir=PurePosixPath(working_dir), root=ROOT))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", "/srv/work/a"), (".", "/srv/work"), ("./a//b/.", "/srv/work/a/b"), ("a/../b", "/srv/work/b"),
        ("/srv/work/x", "/srv/work/x"), ("/srv/../srv/work", "/srv/work"), ("../work/a", "/srv/work/a"),
        ("..hidden", "/srv/work/..hidden"), ("a..b/c", "/srv/work/a..b/c"), ("...", "/srv/work/..."),
        ("[...slug]/page", "/srv/work/[...slug]/page"), ("~/x", "/srv/work/~/x"), ("C:\\x", "/srv/work/C:\\x"),
        (PurePosixPath("p/q"), "/srv/work/p/q"), ("a\nb", "/srv/work/a\nb"), (" ", "/srv/work/ "),
    ],
)  # fmt: skip
def test_resolves_by_text(path, expected):
    """Dots are resolved, everything else is a name."""
    assert resolve(path) == expected


@pytest.mark.parametrize(
    "path", ["..", "../x", "/etc", "/srv/workshop/x", "/srv/work/../x", "a/../../x", "/../../..", "../../../../x"]
)
def test_refuses_to_leave_the_root(path):
    """Siblings that share the prefix are outside too."""
    with pytest.raises(PathOutsideRoot, match="leads outside '/srv/work'"):
        resolve(path)


@pytest.mark.parametrize(
    "path, error",
    [
        ("", InvalidPath),
        ("a\0", InvalidPath),
        ("é" * 128, InvalidPath),
        ("\udc80", InvalidPath),
        (b"a", TypeError),
        (None, TypeError),
        (3, TypeError),
    ],
)
def test_refuses_what_no_file_can_be_called(path, error):
    """Empty, NUL, over 255 bytes a name, lone surrogates, and other types."""
    with pytest.raises(error):
        split_path(path)


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "work", "srv", "..."]), max_size=12), st.booleans())
def test_whatever_resolves_lies_inside(parts, absolute):
    """No combination of components gets out."""
    text = ("/" if absolute else "") + "/".join(parts)
    try:
        resolved = resolve(text or ".")
    except PathOutsideRoot:
        return
    assert PurePosixPath(resolved).is_relative_to(ROOT)
    assert ".." not in PurePosixPath(resolved).parts


@pytest.mark.parametrize("text", ["", ".", "./", "..", "../out", "a/../..", "/abs", "a\0b"])
def test_a_state_dir_lies_below_the_working_directory(text):
    """Anything else is refused with the configuration, not at the first use."""
    with pytest.raises(ValueError):
        check_state_dir(text)
    assert check_state_dir("var/state") == "var/state"
