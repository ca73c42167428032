"""The record beside each offload: who made it, what it holds, and the exact text that stands in its place.

Each record is one small JSON file, written once after its content and never changed. Its name holds what must be known
of all records at once, so that one listing is enough:
`{kind}-{call}-{ordinal}-{source}-{content}-{replacement}.json`, where the last three and the call are parts of hashes.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from stead.reducer.calls import Phase, ToolCall
from stead.reducer.messages.blocks import json_text
from stead.reducer.pieces import encoded

__all__ = ["Kind", "OffloadRecord", "RecordIndex", "RecordName", "Stored", "hash_text", "parse_record_name"]

Kind = Literal["truncated", "cleared", "arguments", "rewritten"]
_LETTERS: Mapping[Kind, str] = {"truncated": "t", "cleared": "c", "arguments": "a", "rewritten": "r"}
_KINDS: Mapping[str, Kind] = {letter: kind for kind, letter in _LETTERS.items()}
_CALL_CHARS = 8
_HASH_CHARS = 16
_NAME = re.compile(r"([tcar])-([0-9a-f]{8})-([0-9]+)-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})\.json")


class Stored(NamedTuple):
    """Content that an environment has confirmed. Sizes and hash are those of the text as it is read back."""

    path: str
    size: int
    """Bytes."""
    characters: int
    sha256: str
    encoding: str = "none"
    frames: Sequence[int] = ()
    """Compressed size of each frame of 1 MiB, where `encoding` is `"zstd"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadRecord:
    """One offload. Sizes and hash are those of the text as it is read back (after redaction, before compression)."""

    session: str
    kind: Kind
    """A truncated result, a cleared one, the arguments of a cleared call, or a round that a rewriter replaced."""
    tool: str
    call_id: str | None
    ordinal: int = 0
    """Which of several results of the history with this call id it is, from 0."""
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
    """What stands in its place; `stead.reducer.replacement` says how it is kept."""
    replacement_sha256: str = ""
    complete: bool = True
    """False if the stream it came from failed or was closed before its end."""
    encoding: str = "none"
    frames: Sequence[int] = ()
    handler_arguments: Any = None
    """What stands in place of the call's arguments, where a handler said so together with the result."""
    media: Sequence[Mapping[str, Any]] = ()
    """What was stored beside the text: `path`, `mime_type`, `size`, and the `block` it came from without its data."""

    @property
    def phase(self) -> Phase:
        """Which phase stored it."""
        return "truncate" if self.kind == "truncated" else "clear"

    @property
    def stored_at(self) -> datetime:
        """`time` as an aware datetime."""
        return datetime.fromisoformat(self.time).astimezone(UTC)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all its content files."""
        return (self.path, *(item["path"] for item in self.media if item.get("path")))

    @property
    def stored_size(self) -> int:
        """Bytes of all its content files, as they are stored."""
        media: int = sum(item.get("size", 0) for item in self.media)
        return (sum(self.frames) if self.frames else self.size) + media

    def name(self) -> "RecordName":
        """Name of the record's file, taken apart."""
        call = _call_hash(self.call_id)
        hashes = (self.source_sha256, self.sha256, self.replacement_sha256 or "0" * _HASH_CHARS)
        source, content, replacement = (text[:_HASH_CHARS] for text in hashes)
        return RecordName(self.kind, call, self.ordinal, source, content, replacement)

    def to_json(self) -> str:
        """The record's file content."""
        # Not dataclasses.asdict: it copies every value, which takes longer than all the rest.
        return json_text({"version": 1} | {name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, data: bytes) -> "OffloadRecord | None":
        """Reads a record back; None if the bytes are no record (a foreign file, another version).

        Args:
            data: The file's content.
        """
        try:
            values = json.loads(data)
            known = {item.name for item in fields(cls)}
            return cls(**{name: value for name, value in values.items() if name in known})
        except (ValueError, TypeError, AttributeError):
            return None

    @classmethod
    def of(cls, kind: Kind, call: ToolCall, stored: Stored, *, source_hash: str, ordinal: int = 0) -> "OffloadRecord":
        """A record of now.

        Args:
            kind: What was stored.
            call: Whose it is.
            stored: Where and how it was stored.
            source_hash: Hash of it as the tool returned it.
            ordinal: As the field.
        """
        return cls(
            session=call.session_id,
            kind=kind,
            tool=call.name,
            call_id=call.id,
            source_sha256=source_hash,
            time=datetime.now(UTC).isoformat(),
            **stored._asdict(),
            ordinal=ordinal,
        )


class RecordName(NamedTuple):
    """What the name of a record's file says."""

    kind: Kind
    call: str
    ordinal: int
    source: str
    content: str
    replacement: str

    def __str__(self) -> str:
        rest = "-".join([self.call, str(self.ordinal), self.source, self.content, self.replacement])
        return f"{_LETTERS[self.kind]}-{rest}.json"


def parse_record_name(file_name: str) -> RecordName | None:
    """Takes the name of a record's file apart; None if it is none.

    Args:
        file_name: Last part of a path.
    """
    match = _NAME.fullmatch(file_name)
    return (
        None if match is None else RecordName(_KINDS[match[1]], match[2], int(match[3]), match[4], match[5], match[6])
    )


class RecordIndex:
    """The names of a session's records, found by call, by content and by replacement."""

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[Kind, str], set[RecordName]] = defaultdict(set)
        self._contents: dict[str, RecordName] = {}
        self._replacements: dict[str, RecordName] = {}

    def add(self, name: RecordName) -> None:
        """Takes a name in."""
        self._calls[name.kind, name.call].add(name)
        self._contents.setdefault(name.content, name)
        self._replacements.setdefault(name.replacement, name)

    def remove(self, name: RecordName) -> None:
        """Forgets a name."""
        self._calls[name.kind, name.call].discard(name)
        for known, key in ((self._contents, name.content), (self._replacements, name.replacement)):
            if known.get(key) == name:
                del known[key]

    def names(self) -> list[RecordName]:
        """All names."""
        return [name for names in self._calls.values() for name in names]

    def has_call(self, kind: Kind, call_id: str | None) -> bool:
        """True if anything of that kind may be recorded for a call id: cheap, before hashing a result."""
        return (kind, _call_hash(call_id)) in self._calls

    def of_source(self, kind: Kind, call_id: str | None, ordinal: int, source_hash: str) -> RecordName | None:
        """The record of a result as the tool returned it."""
        found = self._calls.get((kind, _call_hash(call_id)), ())
        fitting = [name for name in found if name.ordinal == ordinal and name.source == source_hash[:_HASH_CHARS]]
        # Two processes with different texts can have recorded the same result; every later one takes the same.
        return min(fitting, default=None)

    def of_content(self, content_hash: str) -> RecordName | None:
        """A record of that content."""
        return self._contents.get(content_hash[:_HASH_CHARS])

    def of_replacement(self, replacement_hash: str) -> RecordName | None:
        """The record in whose place a text stands."""
        return self._replacements.get(replacement_hash[:_HASH_CHARS])


def hash_text(text: str) -> str:
    """SHA-256 of a text, in hex; lone surrogates count as what they are."""
    hashed = hashlib.sha256()
    for piece in encoded(text, "surrogatepass"):
        hashed.update(piece)
    return hashed.hexdigest()


def _call_hash(call_id: str | None) -> str:
    return hash_text(call_id or "")[:_CALL_CHARS]
