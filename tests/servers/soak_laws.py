"""Which laws take a remote store seconds or minutes, so that they are marked `soak`."""

from pathlib import Path

import pytest

__all__ = ["mark_soak_laws"]

_LONG = frozenset({
    "test_agrees_with_memory",
    "test_delete_many",
    "test_life_ten_first_uses",
    "test_lines_bounded_memory",
    "test_list_many",
    "test_object_printable_names",
    "test_stream_bounded_memory",
    "test_stream_first_chunk_early",
    "test_stream_many_chunks",
    "test_stream_order",
    "test_stream_range_cost",
    "test_stream_slow_reader",
    "test_write_100_mib",
    "test_write_many_at_once",
    "test_write_stream_bounded_memory",
})  # fmt: skip
# What a reducer does is the same over each backend: one law shows that it works over this one.
_LONG_GROUP, _BUT = "test_reducer_", "test_reducer_one_hop"


def mark_soak_laws(items: list[pytest.Item], folder: Path, *, quick_of: dict[str, tuple[str, ...]]) -> None:
    """Marks the laws that make hundreds of requests or move many megabytes, on any server.

    Args:
        items: What was collected.
        folder: Where the tests to mark are; others are left alone.
        quick_of: By class, how the names of the laws begin that are quick on it; those of other classes all may be.
    """
    for item in items:
        kind = getattr(item, "cls", None)
        if kind is None or folder not in item.path.parents:
            continue
        few = quick_of.get(kind.__name__)
        is_long = item.name in _LONG or (item.name.startswith(_LONG_GROUP) and item.name != _BUT)
        if is_long or (few is not None and not item.name.startswith(few)):
            item.add_marker(pytest.mark.soak)
