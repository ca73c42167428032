"""What the backends `mounts`, `read_only`, `scoped` and `staged` are made by: they own what they are made of."""

from collections.abc import Callable, Mapping, Sequence

from stead.environment import Environment
from stead.wrappers.mounts import MountsEnvironment
from stead.wrappers.read_only import ReadOnlyEnvironment
from stead.wrappers.scoped import ScopedEnvironment
from stead.wrappers.staged import StagedEnvironment

__all__ = ["mounts", "read_only", "scoped", "staged"]


def mounts(main: Environment, mounts: Mapping[str, Environment]) -> MountsEnvironment:
    """Makes a `MountsEnvironment` that owns its parts.

    Raises:
        ConfigError: As the class.
    """
    return MountsEnvironment(main, mounts)


def read_only(environment: Environment) -> ReadOnlyEnvironment:
    """Makes a `ReadOnlyEnvironment` that owns its environment."""
    return ReadOnlyEnvironment(environment)


def scoped(environment: Environment, folder: str) -> ScopedEnvironment:
    """Makes a `ScopedEnvironment` that owns its environment.

    Raises:
        ConfigError: As the class.
        PathOutsideRoot: As the class.
    """
    return ScopedEnvironment(environment, folder, owns=True)


def staged(store: Environment, machine: Environment, wanted: Sequence[str] | None = None) -> StagedEnvironment:
    """Makes a `StagedEnvironment` that owns both parts; conflicts are logged as warnings.

    Args:
        store: As the class.
        machine: As the class.
        wanted: Glob patterns of what is staged; None is all.

    Raises:
        ConfigError: As the class.
    """
    return StagedEnvironment(store, machine, wanted=None if wanted is None else _any_of(wanted))


def _any_of(patterns: Sequence[str]) -> Callable[[str], bool]:
    from stead.tools.patterns import compile_pattern, matches

    compiled = [compile_pattern(pattern) for pattern in patterns]
    return lambda name: any(matches(components, name) for components in compiled)
