"""Registers the backend `e2b`."""

from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files and commands in a sandbox of E2B."""
    return BackendSpec(
        name="e2b",
        summary="Files and commands in a cloud sandbox of E2B, a virtual machine of its own",
        contract="1.0",
        factory="stead_e2b.environment:E2BEnvironment",
        options="stead_e2b.config:E2BOptions",
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
            isolation="vm",
        ),
    )
