"""Registers the backend `daytona`."""

from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files and commands in a sandbox of Daytona."""
    return BackendSpec(
        name="daytona",
        summary="Files and commands in a cloud sandbox of Daytona, a container of its own",
        contract="1.0",
        factory="stead_daytona.environment:DaytonaEnvironment",
        options="stead_daytona.config:DaytonaOptions",
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
            isolation="container",
        ),
    )
