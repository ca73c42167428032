"""Names that were mistyped."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["hint", "nearest"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Finds the known name that was probably meant, upper or lower case; None if none is near."""
    by_lower = {item.lower(): item for item in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def hint(name: str, known: Iterable[str]) -> str:
    """Says which known name was probably meant, or lists them all.

    Returns:
        `"did you mean 'root'?"`, `"there is: a, b."` or `"there is none."`
    """
    names = sorted(known)
    close = nearest(name, names)
    if close is not None:
        return f"did you mean {close!r}?"
    return f"there is: {', '.join(names)}." if names else "there is none."
