"""How an environment runs its commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stead.command_input import output_limit
from stead_local.limits import Limits

__all__ = ["CommandOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """How an environment runs commands.

    Raises:
        TypeError: A value is of the wrong type.
        ValueError: A value is out of its range.
    """

    shell: str = "/bin/sh"
    """Runs a command that is a `str`, as `shell -c text`. A POSIX shell; no login shell."""
    inherit_env: bool = False
    """Hand all of the host's variables to commands, not only those of `stead_local.variables`."""
    output_limit: int = 1 << 20
    """Bytes of each stream that a result holds."""
    spill_limit: int = 8 << 30
    """Bytes of each spill file."""
    limits: Limits | Mapping[str, int] | None = None
    """Resource limits; a mapping has the field names of `Limits`."""
    on_close: Literal["kill", "keep"] = "kill"
    """What `close()` does with what commands left in the background."""

    def __post_init__(self) -> None:
        output_limit(self.output_limit, 0)
        output_limit(self.spill_limit, 0)
        if not self.shell or "\0" in self.shell:
            raise ValueError(f"{self.shell!r} cannot be a shell")
        if self.on_close not in ("kill", "keep"):
            raise ValueError(f"on_close must be 'kill' or 'keep', not {self.on_close!r}")
        if isinstance(self.limits, Mapping):
            object.__setattr__(self, "limits", Limits(**self.limits))

    def given_limits(self) -> dict[str, int]:
        """Returns the limits that are set, by name."""
        return self.limits.given() if isinstance(self.limits, Limits) else {}
