"""The GCS backend of stead: files in a bucket of Google Cloud Storage."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead_gcs.environment import GcsEnvironment

__all__ = ["GcsEnvironment"]


def __getattr__(name: str) -> Any:
    # Late, so that listing the backends does not pay for this one.
    if name == "GcsEnvironment":
        from stead_gcs.environment import GcsEnvironment

        return GcsEnvironment
    raise AttributeError(f"module 'stead_gcs' has no attribute {name!r}")
