"""One folder of an environment as an environment of its own."""

from pathlib import PurePosixPath

from stead.environment import Environment, PathLike
from stead.errors import ConfigError
from stead.paths import resolve_path
from stead.wrappers.mapped import Mapped

__all__ = ["ScopedEnvironment"]


class ScopedEnvironment(Mapped):
    """Sees `folder` of the inner environment as its root `/`, and nothing beside it.

    For several agents that share one store and one connection. Only for environments without links and commands: a
    command sees the whole machine and a link can lead anywhere in it, so there the backend's own `root` option is the
    way, which holds both.
    """

    def __init__(self, inner: Environment, folder: PathLike, *, owns: bool = False) -> None:
        """Takes the environment and the folder; touches nothing.

        Args:
            inner: Usually shared, so it stays open unless `owns`.
            folder: Below the inner working directory.
            owns: Whether `close()` closes `inner` too.

        Raises:
            ConfigError: The inner environment has links or commands.
            PathOutsideRoot: `folder` is not below its working directory.
        """
        if inner.capabilities.symlinks or inner.capabilities.execute:
            raise ConfigError(
                f"{inner!r} has links or commands, which a scope cannot hold; open that backend with its own option "
                "`root` instead"
            )
        base = resolve_path(folder, working_dir=inner.working_dir, root=inner.working_dir)
        super().__init__(inner, base=base, root=PurePosixPath("/"), owns=owns)
