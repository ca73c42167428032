"""The example of the fsspec page runs."""

from servers.examples import said_by_examples


def test_example_runs(tmp_path):
    """It needs no more than the plugin."""
    assert said_by_examples("docs/reference/fsspec.md", {}, tmp_path) == [(0, "/a.txt 6 b'hello\\n'\n", "")]
