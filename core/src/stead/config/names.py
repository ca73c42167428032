"""Names that were mistyped."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["hint"]


def hint(name: str, known: Iterable[str]) -> str:
    """Says which known name was probably meant, or lists them all.

    Returns:
        `"did you mean 'root'?"`, `"there is: a, b."` or `"there is none."`
    """
    by_lower = {item.lower(): item for item in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    if close:
        return f"did you mean {by_lower[close[0]]!r}?"
    return f"there is: {', '.join(sorted(by_lower.values()))}." if by_lower else "there is none."
