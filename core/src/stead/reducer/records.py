"""The record beside each offload: who made it, what it holds, and the exact text that stands in its place.

Each record is one small JSON file, written once after its content and never changed. Its name holds what must be known
of all records at once, so that one listing is enough: `{phase}-{key}-{content}-{replacement}.json`, hashes of 16 digits.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from stead.reducer.calls import Phase
from stead.reducer.names import digest

__all__ = ["OffloadRecord", "RecordName", "hash_text", "parse_record_name", "record_key"]

_HASH_CHARS = 16
_NAME = re.compile(r"([tc])-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})\.json")
_PHASES: dict[str, Phase] = {"t": "truncate", "c": "clear"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadRecord:
    """One offload. Sizes and hash are those of the text as it is read back (after redaction, before compression)."""

    session: str
    phase: Phase
    tool: str
    call_id: str | None
    ordinal: int
    """Which of several results of the session with this id and content it is, from 0."""
    path: str
    """Where the content is, as the notice names it."""
    size: int
    """Bytes."""
    characters: int
    sha256: str
    source_sha256: str
    """Hash of the result as the tool returned it: how the same result is known again."""
    time: str
    """When it was stored, ISO 8601, UTC."""
    replacement: Any = None
    """What stands in its place: text, or a list with the text of each block. `replacement.py` says how it is stored."""
    replacement_sha256: str = ""
    complete: bool = True
    """False if the stream it came from failed or was closed before its end."""
    encoding: str = "none"
    arguments: Any = None
    """Clear phase: what stands in place of the call's arguments."""

    @property
    def stored_at(self) -> datetime:
        """`time` as an aware datetime."""
        return datetime.fromisoformat(self.time).astimezone(UTC)

    def file_name(self) -> str:
        """Name of the record's file."""
        key = record_key(self.phase, self.call_id, self.source_sha256, self.ordinal)
        parts = (key, self.sha256, self.replacement_sha256 or "0" * _HASH_CHARS)
        return "-".join([self.phase[0], *(part[:_HASH_CHARS] for part in parts)]) + ".json"

    def to_json(self) -> str:
        """The record's file content."""
        return json.dumps({"version": 1, **asdict(self)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, data: bytes) -> "OffloadRecord | None":
        """Reads a record back; None if the bytes are no record (a foreign file, a newer version).

        Args:
            data: The file's content.
        """
        try:
            values = json.loads(data)
            known = {item.name for item in fields(cls)}
            return cls(**{name: value for name, value in values.items() if name in known})
        except (ValueError, TypeError, AttributeError):
            return None


@dataclass(frozen=True, slots=True)
class RecordName:
    """What a record's file name says."""

    file_name: str
    phase: Phase
    key: str
    content: str
    replacement: str


def parse_record_name(file_name: str) -> RecordName | None:
    """Takes the name of a record's file apart; None if it is none.

    Args:
        file_name: Last part of a path.
    """
    match = _NAME.fullmatch(file_name)
    return None if match is None else RecordName(file_name, _PHASES[match[1]], match[2], match[3], match[4])


def record_key(phase: Phase, call_id: str | None, source_sha256: str, ordinal: int = 0) -> str:
    """How a result is known again, in this process and a later one: 16 hex digits.

    Args:
        phase: Which phase stored it.
        call_id: The provider's id.
        source_sha256: Hash of the result as the tool returned it.
        ordinal: As `OffloadRecord.ordinal`.
    """
    return digest(phase, call_id or "", source_sha256, str(ordinal))[:_HASH_CHARS]


def hash_text(text: str) -> str:
    """SHA-256 of a text, in hex; lone surrogates count as what they are."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
