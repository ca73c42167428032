"""What a plugin can implement. A plugin is a module whose functions carry `@hookimpl`.

A backend's plugin, named by an entry point of the group `stead.backends`, implements `stead_backend`, imports no SDK,
and has one entry point a backend. An observer, named by one of the group `stead.plugins`, implements any of the other
hooks; an error in it is logged and never reaches the caller. No hook runs where bytes are read, written or printed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pluggy

from stead.capabilities import Capabilities

if TYPE_CHECKING:
    from stead.environment import Environment
    from stead.posix.sandbox import Recreated
    from stead.reducer import Report

__all__ = [
    "BackendSpec",
    "hookimpl",
    "hookspec",
    "stead_backend",
    "stead_environment_created",
    "stead_reduced",
    "stead_sandbox_recreated",
]

PROJECT = "stead"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """What a backend says about itself: plain data, so that listing backends imports no SDK."""

    name: str
    """As users write it, equal to the name of the entry point."""
    summary: str
    """One line for `stead backends`."""
    contract: str
    """Version of the contract it was written for, such as `"1.0"`: a literal, not `stead.environment.CONTRACT`."""
    factory: str
    """Import string of the environment's class, `"package.module:Class"`. Its parameters are the options."""
    capabilities: Capabilities
    """What its environments can do unless an option takes something away."""
    options: str | None = None
    """Import string of a pydantic model of the options; None takes them from the signature of the factory."""
    distribution: str = ""
    """The distribution that ships it and its version, `"stead-s3 0.1.0"`; filled in by the registry."""


@hookspec
def stead_backend() -> BackendSpec:  # type: ignore[empty-body]
    """Says what the backend of this plugin is."""


@hookspec
def stead_environment_created(environment: "Environment", backend: str) -> None:
    """Called when an environment was made by name; it is not started yet.

    Args:
        environment: The environment.
        backend: The backend's name, or `"package.module:Class"`.
    """


@hookspec
def stead_reduced(report: "Report") -> None:
    """Called after a reducer that was made from a configuration has decided about a result or a history.

    Args:
        report: What was decided and why.
    """


@hookspec
def stead_sandbox_recreated(environment: "Environment", event: "Recreated") -> None:
    """Called after a lost sandbox was replaced by a new one, as its options asked for: the files in it are gone.

    Args:
        environment: The environment.
        event: Which sandbox was lost, and which one replaces it.
    """
