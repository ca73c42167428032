"""Which laws take a remote store seconds or minutes, so that they are marked `slow` or `soak`."""

from pathlib import Path

import pytest

__all__ = ["mark_slow_laws"]

_SLOW = frozenset({
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
_THOUSANDS = frozenset({"test_agrees_with_memory", "test_delete_many", "test_list_many", "test_object_printable_names"})
# What a reducer does is the same over each backend: one law shows that it works over this one.
_SLOW_GROUP, _BUT = "test_reducer_", "test_reducer_one_hop"


def mark_slow_laws(
    items: list[pytest.Item], folder: Path, *, quick_of: dict[str, tuple[str, ...]], minutes_of: frozenset[str]
) -> None:
    """Marks the laws that make hundreds of requests or move many megabytes, on any server.

    Args:
        items: What was collected.
        folder: Where the tests to mark are; others are left alone.
        quick_of: By class, how the names of the laws begin that are quick on it; those of other classes all may be.
        minutes_of: The classes on which a thousand requests take minutes: those laws are marked `soak`.
    """
    for item in items:
        kind = getattr(item, "cls", None)
        if kind is None or folder not in item.path.parents:
            continue
        few = quick_of.get(kind.__name__)
        is_slow = item.name in _SLOW or (item.name.startswith(_SLOW_GROUP) and item.name != _BUT)
        if item.name in _THOUSANDS and kind.__name__ in minutes_of:
            item.add_marker(pytest.mark.soak)
        elif is_slow or (few is not None and not item.name.startswith(few)):
            item.add_marker(pytest.mark.slow)
