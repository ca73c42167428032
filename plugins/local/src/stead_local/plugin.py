"""Registers the backend `local`."""

from stead.capabilities import POSIX
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
        capabilities=POSIX,
    )
