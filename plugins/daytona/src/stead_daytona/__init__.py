"""The Daytona backend of stead: files and commands in a sandbox of Daytona."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead_daytona.environment import DaytonaEnvironment

__all__ = ["DaytonaEnvironment"]


def __getattr__(name: str) -> Any:
    if name == "DaytonaEnvironment":
        from stead_daytona.environment import DaytonaEnvironment

        return DaytonaEnvironment
    raise AttributeError(f"module 'stead_daytona' has no attribute {name!r}")
