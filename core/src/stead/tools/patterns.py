"""Glob patterns, one path component at a time."""

import fnmatch
import re
from collections.abc import Sequence

__all__ = ["Anything", "Component", "compile_pattern", "matches"]


class Anything:
    """The component `**`: any number of directories, also none."""


Component = re.Pattern[str] | Anything


def compile_pattern(pattern: str, *, case_sensitive: bool = True) -> list[Component]:
    """Compiles a relative pattern. In one component `*`, `?`, `[abc]` and `[!abc]` are special; `**` must stand alone.

    `fnmatch` makes patterns that never backtrack far, whatever a model writes; names are at most 255 bytes.
    """
    flags = 0 if case_sensitive else re.IGNORECASE
    components: list[Component] = []
    for part in pattern.split("/"):
        if part == "**":
            if not (components and isinstance(components[-1], Anything)):
                components.append(Anything())
        elif part not in ("", "."):
            components.append(re.compile(fnmatch.translate(part), flags))
    return components


def matches(components: Sequence[Component], path: str) -> bool:
    """Says whether a relative path matches, in time proportional to both lengths."""
    # The places in `components` that may come next, as in a state machine.
    places = _skipping(components, {0})
    for name in path.split("/"):
        following = set()
        for place in places:
            if place == len(components):
                continue
            component = components[place]
            if isinstance(component, Anything):
                following.add(place)
            elif component.match(name):
                following.add(place + 1)
        places = _skipping(components, following)
    return len(components) in places


def _skipping(components: Sequence[Component], places: set[int]) -> set[int]:
    return places | {
        place + 1 for place in places if place < len(components) and isinstance(components[place], Anything)
    }
