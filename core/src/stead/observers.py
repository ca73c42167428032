"""Observers: plugins that are told what happened, and cannot change it."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

import pluggy

from stead import hookspecs
from stead.hookspecs import PROJECT

__all__ = ["GROUP", "notify"]

GROUP = "stead.plugins"
_log = logging.getLogger(__name__)


def notify(hook: str, values: Mapping[str, object]) -> None:
    """Calls one hook of every observer. An error in one is logged and stops neither the others nor the caller.

    Args:
        hook: Its name in `stead.hookspecs`.
        values: Its arguments.
    """
    for implementation in getattr(_manager().hook, hook).get_hookimpls():
        try:
            implementation.function(*(values[name] for name in implementation.argnames))
        except Exception:  # noqa: BLE001 - an observer must not break what it observes
            _log.exception("the observer %s failed in %s", implementation.plugin_name, hook)


@cache
def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    for point in entry_points(group=GROUP):
        try:
            manager.register(point.load())
        except Exception:  # noqa: BLE001 - nor may one that is broken
            _log.exception("the plugin %s cannot be loaded", point.value)
    return manager
