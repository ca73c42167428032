"""The S3 backend of stead: files in a bucket of S3, or of a store that speaks its protocol."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead_s3.environment import S3Environment

__all__ = ["S3Environment"]


def __getattr__(name: str) -> Any:
    # Late, so that listing the backends does not pay for this one.
    if name == "S3Environment":
        from stead_s3.environment import S3Environment

        return S3Environment
    raise AttributeError(f"module 'stead_s3' has no attribute {name!r}")
