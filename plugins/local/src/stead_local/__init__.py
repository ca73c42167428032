"""The local backend of stead: files below one folder of this machine, commands as its own processes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead_local.environment import LocalEnvironment

__all__ = ["LocalEnvironment"]


def __getattr__(name: str) -> Any:
    # Late, so that listing the backends does not pay for this one.
    if name == "LocalEnvironment":
        from stead_local.environment import LocalEnvironment

        return LocalEnvironment
    raise AttributeError(f"module 'stead_local' has no attribute {name!r}")
