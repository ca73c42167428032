"""Where the first full text is, of a result that was shortened already before it is cleared."""

import json
import re
from collections.abc import Iterator, Sequence

from stead.reducer.names import OFFLOAD_NAME

__all__ = ["named_texts", "whole_notices"]

_MOST = 4
"""A result that names more truncated ones is a list of them, not their notice."""
_SPILLED = re.compile(r"""["'](?:stdout|stderr)_path["']: ?["']([^"'\\]+)["']""")


def named_texts(folder: str, texts: Sequence[str | None]) -> tuple[str, ...]:
    """Paths of full texts that a result names: of a command's spilled output, and of truncated results.

    Args:
        folder: The session's folder.
        texts: Text of each block of the result.
    """
    spilled: list[str] = []
    truncated: list[str] = []
    for text in texts:
        if text and ('_path"' in text or "_path'" in text):
            spilled += _SPILLED.findall(text)
        if text and f"{folder}/trunc/" in text:
            truncated += re.findall(rf"{re.escape(folder)}/trunc/{OFFLOAD_NAME}", text)
    named = dict.fromkeys(truncated)
    return tuple(dict.fromkeys([*spilled[:_MOST], *(named if len(named) <= _MOST else ())]))


def whole_notices(texts: Sequence[str | None]) -> Iterator[str]:
    """What the notice may be that a result is nothing else than: in several blocks, between spaces, or alone in JSON.

    Args:
        texts: Text of each block of the result.
    """
    joined = "".join([text for text in texts if text])
    yield joined
    yield joined.strip()
    try:
        value = json.loads(joined)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if isinstance(value, str):
        yield value
