"""The pytest plugin (entry point `pytest11`). Imports only pytest and the standard library."""

import pytest

__all__ = ["rewrite_asserts"]


def rewrite_asserts() -> None:
    """Lets pytest explain the asserts of the laws."""
    pytest.register_assert_rewrite("stead.conformance.laws")


rewrite_asserts()
