"""What a test class of an environment may set."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import ClassVar

from stead.conformance.law import Locked
from stead.environment import Environment

__all__ = ["LawSettings"]


class LawSettings:
    """The settings of the laws. The defaults fit an environment on this machine."""

    waivers: ClassVar[Mapping[str, str]] = {}
    """Law id -> why this environment cannot hold it. Strict: a waived law that holds fails the run."""
    root: ClassVar[str | None] = None
    """The root that paths may not leave. None is `working_dir`, or `"/"` where a container or VM is the boundary."""
    backend: ClassVar[str | None] = None
    """The name under which the environment's plugin registers it."""
    law_seconds: ClassVar[float] = 20.0
    """Seconds that one law may take before it fails."""
    margin: ClassVar[float] = 2.0
    """Seconds by which an answer may be late, such as that to a timeout."""
    large_file: ClassVar[int] = 256 << 20
    """Bytes of the file in laws about memory; at least 64 MiB."""

    def root_below(self, env: Environment) -> PurePosixPath:
        """Returns the root, for a law that needs a path outside it.

        Raises:
            Locked: The root is `/`: nothing lies outside.
        """
        usual = env.working_dir if env.capabilities.isolation == "none" else "/"
        root = PurePosixPath(self.root or usual)
        if root == PurePosixPath("/"):
            raise Locked("the root is /, so no path lies outside; configure a root to try this")
        return root
