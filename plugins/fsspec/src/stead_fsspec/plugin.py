"""Registers the backend `fsspec`."""

from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files of any fsspec filesystem."""
    return BackendSpec(
        name="fsspec",
        summary="Files of any filesystem that fsspec knows: sftp, ftp, smb, azure, hdfs, http, zip; no commands",
        contract="1.0",
        factory="stead_fsspec.environment:FsspecEnvironment",
        options="stead_fsspec.config:FsspecOptions",
        capabilities=Capabilities(
            stat=True,
            list_files=True,
            delete_file=True,
            streaming_read=True,
            range_read=True,
            streaming_write=True,
        ),
    )
