"""Registers the backends that are made of other environments: `mounts`, `read_only`, `scoped` and `staged`."""

from dataclasses import dataclass, replace

from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["MOUNTS", "READ_ONLY", "SCOPED", "STAGED"]

# At most: what an environment can do depends on those that it is made of.
_READING = Capabilities(
    stat=True, list_files=True, streaming_read=True, pinned_read=True, range_read=True, lines_at_source=True
)
_STORE = replace(
    _READING,
    delete_file=True,
    create_only=True,
    conditional_write=True,
    streaming_write=True,
    atomic_write=True,
    modes=True,
)
_VIEW = replace(_READING, symlinks=True, modes=True)
_MACHINE = replace(_STORE, execute=True, execute_stream=True, symlinks=True)


@dataclass(frozen=True)
class _Backend:
    """A plugin in an object, since a module can register one backend only."""

    name: str
    summary: str
    capabilities: Capabilities
    options: str

    @hookimpl
    def stead_backend(self) -> BackendSpec:
        return BackendSpec(
            name=self.name,
            summary=self.summary,
            contract="1.0",
            factory=f"stead.wrappers.composed:{self.name}",
            capabilities=self.capabilities,
            options=f"stead.config.composing:{self.options}",
        )


MOUNTS = _Backend(
    "mounts", "Several environments in one namespace, each below a path of the main one", _MACHINE, "MountsOptions"
)
READ_ONLY = _Backend("read_only", "An environment whose files cannot be changed", _VIEW, "ReadOnlyOptions")
SCOPED = _Backend("scoped", "One folder of a store as an environment of its own", _STORE, "ScopedOptions")
STAGED = _Backend(
    "staged", "Files in a store, commands on a machine, and changes carried between them", _MACHINE, "StagedOptions"
)
