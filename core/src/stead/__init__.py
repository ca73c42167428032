"""One contract for where an agent's files live and its commands run; one reducer; one conformance suite.

`import stead` loads no SDK and no pydantic; what needs them is loaded when it is first touched.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stead import errors
from stead.adapt import adapt
from stead.capabilities import Capabilities
from stead.environment import Environment
from stead.results import ExecutionResult, FileInfo, LineRange, LineWindow, OutputChunk

if TYPE_CHECKING:
    from stead import reading, reducer, sync, tools
    from stead.config import Config, load_config
    from stead.registry import create_environment

__all__ = [
    "Capabilities",
    "Config",
    "Environment",
    "ExecutionResult",
    "FileInfo",
    "LineRange",
    "LineWindow",
    "OutputChunk",
    "adapt",
    "create_environment",
    "errors",
    "load_config",
    "reading",
    "reducer",
    "sync",
    "tools",
]

_LATE = {"Config": "stead.config", "load_config": "stead.config", "create_environment": "stead.registry"}
_LATE_MODULES = frozenset({"reading", "reducer", "sync", "tools"})


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    if name in _LATE_MODULES:
        return import_module(f"stead.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("stead")
    raise AttributeError(f"module 'stead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE, *_LATE_MODULES])
