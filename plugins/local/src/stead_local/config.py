"""The options of the backend `local`, for configuration files and their JSON Schema."""

from pathlib import Path
from typing import Annotated, Literal

import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict, Field

from stead.config import BackendOptions, StateDir
from stead_local.limits import Limits

__all__ = ["LimitOptions", "LocalOptions"]


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class LimitOptions(Limits):
    """What one process of a command may use."""


def _without_nul(root: Path) -> Path:
    if "\0" in str(root):
        raise ValueError("a path cannot hold NUL")
    return root


class LocalOptions(BackendOptions):
    """The options of `local`, as `LocalEnvironment` takes them."""

    root: Annotated[Path, AfterValidator(_without_nul)] = Path()
    """The folder, made at start. No file method leaves it."""
    state_dir: StateDir = ".stead"
    """Where spilled output and offloads go, relative to `root`."""
    shell: Annotated[str, Field(min_length=1)] = "/bin/sh"
    """What runs a command that is a text."""
    inherit_env: bool = False
    """Whether commands get all variables of this process, its secrets included."""
    output_limit: Annotated[int, Field(ge=0)] = 1 << 20
    """Bytes of each stream of a command that a result holds; the rest is spilled to a file."""
    limits: LimitOptions | None = None
    """What one process of a command may use: cpu_seconds, memory, processes, file_size."""
    on_close: Literal["kill", "keep"] = "kill"
    """Whether closing kills what commands left in the background."""
