"""Registers the backend `local`."""

from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files of one folder, commands as processes of this machine."""
    return BackendSpec(
        name="local",
        summary="Files below one folder of this machine, commands as its own processes",
        contract="1.0",
        factory="stead_local.environment:LocalEnvironment",
        options="stead_local.config:LocalOptions",
        capabilities=Capabilities(
            execute=True,
            execute_stream=True,
            stat=True,
            list_files=True,
            delete_file=True,
            create_only=True,
            conditional_write=True,
            streaming_read=True,
            pinned_read=True,
            range_read=True,
            lines_at_source=True,
            streaming_write=True,
            atomic_write=True,
            symlinks=True,
            modes=True,
        ),
    )
