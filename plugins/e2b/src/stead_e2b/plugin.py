"""Registers the backend `e2b`."""

from dataclasses import replace

from stead.capabilities import POSIX
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
        capabilities=replace(POSIX, isolation="vm"),
    )
