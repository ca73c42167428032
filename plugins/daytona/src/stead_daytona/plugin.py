"""Registers the backend `daytona`."""

from dataclasses import replace

from stead.capabilities import POSIX
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
        capabilities=replace(POSIX, isolation="container"),
    )
