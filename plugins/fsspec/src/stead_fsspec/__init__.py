"""The fsspec backend of stead, and the base of its object store backends.

A backend over another store implements `stead_fsspec.store.ObjectStore` and derives its environment from
`stead_fsspec.base.StoreEnvironment`, which is the whole contract.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead_fsspec.environment import FsspecEnvironment

__all__ = ["FsspecEnvironment"]


def __getattr__(name: str) -> Any:
    # Late, so that listing the backends does not pay for this one.
    if name == "FsspecEnvironment":
        from stead_fsspec.environment import FsspecEnvironment

        return FsspecEnvironment
    raise AttributeError(f"module 'stead_fsspec' has no attribute {name!r}")
