"""The options of the backend `fsspec`, for configuration files and their JSON Schema."""

from typing import Annotated, Any

from pydantic import Field

from stead.config import BackendOptions, StateDir

__all__ = ["FsspecOptions"]


class FsspecOptions(BackendOptions):
    """The options of `fsspec`, as `FsspecEnvironment` takes them."""

    protocol: Annotated[str, Field(min_length=1)]
    """The filesystem, by the name that fsspec knows it by: sftp, ftp, smb, abfs, hdfs, http, zip, memory..."""
    path: str = ""
    """The directory of it that is the root of the environment; without a protocol."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What the filesystem's class takes. Values may be secrets by reference."""
    state_dir: StateDir = ".stead"
    """Where stead keeps files of its own, relative to the root."""
