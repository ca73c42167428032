"""The E2B backend of stead: files and commands in a sandbox of E2B."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead_e2b.environment import E2BEnvironment

__all__ = ["E2BEnvironment"]


def __getattr__(name: str) -> Any:
    if name == "E2BEnvironment":
        from stead_e2b.environment import E2BEnvironment

        return E2BEnvironment
    raise AttributeError(f"module 'stead_e2b' has no attribute {name!r}")
