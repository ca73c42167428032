"""The fsspec backend: files of any filesystem that fsspec knows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stead.capabilities import Capabilities
from stead.errors import ConfigError
from stead_fsspec.base import StoreEnvironment
from stead_fsspec.files import FsspecStore, Place

__all__ = ["FsspecEnvironment"]

_CAPABILITIES = Capabilities(
    stat=True, list_files=True, delete_file=True, streaming_read=True, range_read=True, streaming_write=True
)
# Where to seek means to unpack everything before.
_UNPACKED = frozenset({"zip", "tar", "libarchive", "gzip"})


class FsspecEnvironment(StoreEnvironment):
    """Files below one directory of a filesystem of fsspec. It runs no commands.

    What fsspec does not promise is not promised here: a reader may see half of a write, a file may change while it is
    read, and links lead where they lead. S3, GCS and files of this machine have backends of their own, which promise all
    of it.
    """

    capabilities = _CAPABILITIES

    def __init__(
        self, protocol: str, path: str = "", *, options: Mapping[str, Any] | None = None, state_dir: str = ".stead"
    ) -> None:
        """Takes the options; connects to nothing.

        Args:
            protocol: The filesystem, by the name that fsspec knows it by.
            path: The directory of it that is the root of this environment; without a protocol.
            options: What the filesystem's class takes, such as `{"host": ..., "username": ...}`.
            state_dir: Where stead keeps files of its own, relative to the root.

        Raises:
            ConfigError: An option cannot be used.
        """
        if not protocol or ":" in protocol:
            raise ConfigError(f"a protocol is a name such as 'sftp', not {protocol!r}")
        super().__init__(FsspecStore(Place(protocol, path, dict(options or {}))), state_dir=state_dir)
        if protocol in _UNPACKED:
            self.capabilities = replace(_CAPABILITIES, range_read=False)
        self._shown = f"{protocol}, {path!r}" if path else protocol

    def __repr__(self) -> str:
        return f"FsspecEnvironment({self._shown})"
