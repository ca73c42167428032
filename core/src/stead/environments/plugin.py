"""Registers the backend `memory`."""

from stead.environments.memory import MemoryEnvironment
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files in a dict."""
    return BackendSpec(
        name="memory",
        summary="Files in a dict of this process, gone when it closes; no commands",
        contract="1.0",
        factory="stead.environments.memory:MemoryEnvironment",
        capabilities=MemoryEnvironment.capabilities,
    )
