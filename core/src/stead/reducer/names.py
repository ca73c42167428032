"""Names and paths of what is stored. An id is the provider's data: hostile, empty, repeated or 1,500 bytes long."""

import hashlib
import re

__all__ = ["OFFLOAD_NAME", "PATH_NAME_CHARS", "digest", "is_offload_name", "offload_name", "session_name"]

_SAFE_ID_CHARS = 40
_HASH_CHARS = 16
PATH_NAME_CHARS = _SAFE_ID_CHARS + 1 + _HASH_CHARS
"""Most characters of a name that `offload_name` makes."""
OFFLOAD_NAME = r"[a-z0-9][a-z0-9_-]{0,39}-[0-9a-f]{16}(?:\.[a-z0-9]+)?"
"""Matches a name that `offload_name` can have made, with or without a suffix."""
_PLAIN_SESSION = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def offload_name(call_id: str | None, content_hash: str) -> str:
    """A file name that is a pure function of id and content: a retry lands on the same file, other content never does.

    Lower case ASCII, so that two ids stay apart in a store that ignores case; at most 57 characters.

    Args:
        call_id: The provider's id, or None.
        content_hash: Hex digest of what is stored.
    """
    return f"{_safe(call_id or 'call')}-{digest(call_id or '', content_hash)[:_HASH_CHARS]}"


def is_offload_name(name: str) -> bool:
    """True for a file name that `offload_name` can have made, with or without a suffix.

    Args:
        name: Last part of a path.
    """
    return re.fullmatch(OFFLOAD_NAME, name) is not None


def session_name(session_id: str) -> str:
    """A folder name for a session: its id if that is plain, else made safe and told apart by a hash."""
    if _PLAIN_SESSION.fullmatch(session_id) and ".." not in session_id:
        return session_id
    return f"{_safe(session_id)}-{digest(session_id)[:_HASH_CHARS]}"


def digest(*parts: str) -> str:
    """SHA-256, in hex, of strings that cannot run into each other."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def _safe(text: str) -> str:
    kept = re.sub(r"[^a-z0-9_-]+", "_", text.lower())[:_SAFE_ID_CHARS]
    # A leading dash would be an option to whatever command reads the file.
    return kept.strip("-_") or "call"
