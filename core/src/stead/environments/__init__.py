"""Environments that ship with the core."""

from stead.environments.memory import MemoryEnvironment

__all__ = ["MemoryEnvironment"]
