"""Other libraries' environments as stead environments, so that the suite can be run on them.

An adapter translates and repairs nothing: what the other side gets wrong, the laws find. Where it has no such argument
(stdin, say), the call raises `Unsupported`. No adapter imports the library it is for.
"""

from stead.conformance.adapters.adk import AdkEnvironment
from stead.conformance.adapters.deepagents import DeepAgentsEnvironment
from stead.conformance.adapters.fsspec import FsspecEnvironment
from stead.conformance.adapters.pydantic_ai import PydanticAIEnvironment

__all__ = ["AdkEnvironment", "DeepAgentsEnvironment", "FsspecEnvironment", "PydanticAIEnvironment"]
