"""What a store can do, and the values that pass between it and the contract.

A store knows keys, not paths: the text after the bucket's or filesystem's root, the prefix included, without a leading
slash. It is asked only for keys inside its prefix. Its errors are ours already, and it repeats nothing by itself that is
not safe to repeat.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from stead.results import FileKind

__all__ = ["ANY", "Body", "Checksum", "Condition", "Entry", "Found", "ObjectStore", "Page", "Store", "Upload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An object as it is in the store."""

    key: str
    size: int
    """Bytes as they are stored, whatever the content encoding."""
    version: str | None = None
    """What `FileInfo.version` says, and what conditions compare."""
    modified: datetime | None = None
    pin: str | None = None
    """Names this version also when another has replaced it, where the store keeps old ones."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Metadata that stead wrote with it."""


class Entry(NamedTuple):
    """One line of a listing."""

    key: str
    """Without a trailing slash, except for what no path can name."""
    kind: FileKind
    found: Found | None = None


class Page(NamedTuple):
    """A part of a listing as a store gives it: keys in the order of their bytes."""

    objects: tuple[Found, ...]
    folders: tuple[str, ...]
    """Common prefixes, each with its trailing slash."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Under which a write may replace what is there."""

    absent: bool = False
    version: str | None = None

    def __bool__(self) -> bool:
        return self.absent or self.version is not None


ANY = Condition()
"""No condition."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """What the whole object must sum up to."""

    expected: int
    extend: Callable[[int, bytes], int]
    """From the sum so far and the next bytes to the new sum; begins with 0."""


class Body(ABC):
    """The body of one answer, read in order."""

    found: Found
    """The whole object, also if only a part of it comes."""
    start: int = 0
    """Where in the object the body begins: 0 if the store ignored the range that was asked for."""
    checksum: Checksum | None = None

    @abstractmethod
    async def read(self) -> bytes:
        """Returns the next bytes, of any number; none at the end of the body, complete or not.

        Raises:
            SteadError: The connection broke or stalled; `retryable` says whether to ask for the rest.
        """

    @abstractmethod
    async def close(self) -> None:
        """Gives the connection back or ends it. Idempotent."""


class Upload(ABC):
    """An object that is written in parts, seen by nobody until it is finished."""

    @abstractmethod
    async def part(self, number: int, data: bytes) -> None:
        """Writes part `number`, from 1, of the store's part size or more. Safe to repeat.

        Raises:
            SteadError: It could not be written.
        """

    @abstractmethod
    async def finish(self, rest: bytes) -> Found:
        """Makes the object out of its parts and the rest after them, in one step.

        Args:
            rest: What comes after the last part; at most a part, and perhaps nothing.

        Raises:
            SteadError: It was not made; the old object is as it was.
        """

    @abstractmethod
    async def abort(self) -> None:
        """Removes the parts. Raises nothing for an upload that is gone."""


class Store(ABC):
    """Files by key. One belongs to one environment and is used on one event loop."""

    backend: str
    """The backend's name, for errors."""
    part_size: int = 5 << 20
    """Bytes of a part of an upload."""
    ordered_parts: bool = False
    """Whether a part may only be written after the one before it."""
    parts_at_once: int = 1
    """How many parts of one upload may be under way together; the environment says so."""
    single_write: int = 16 << 20
    """Bytes up to which content that is in memory is written in one request."""

    @abstractmethod
    async def open(self) -> None:
        """Connects, and asks once whether the place exists and lets us in.

        Raises:
            ConfigError: The bucket does not exist, or an option is wrong.
            AccessDenied: The credentials were refused, or there are none.
            Unavailable: There is no answer.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends all connections. Idempotent; also after an `open` that failed."""

    @abstractmethod
    async def fetch(self, key: str, start: int, stop: int | None, version: Found | None) -> Body | None:
        """Asks for the bytes from `start` to before `stop` (None: the end), in one request that is not repeated.

        Args:
            key: The object.
            start: First byte.
            stop: After the last byte; more than `start`.
            version: Only this version of it.

        Returns:
            The body; None if the object ends at or before `start`.

        Raises:
            FileMissing: There is no object.
            FileChanged: There is another version of it, or none any more.
            SteadError: It could not be asked for.
        """

    @abstractmethod
    async def head(self, key: str) -> Found | None:
        """Says what is at a key; None if there is no object.

        Raises:
            SteadError: It could not be asked for.
        """

    @abstractmethod
    async def put(self, key: str, data: bytes, condition: Condition, notes: Mapping[str, str]) -> Found:
        """Writes an object in one step.

        Raises:
            FileExists: `condition.absent`, and there is one.
            FileChanged: `condition.version`, and there is another or none.
            Unsupported: The store does not keep to such a condition.
            SteadError: It was not written, or is not known to be.
        """

    @abstractmethod
    async def begin(self, key: str, condition: Condition, notes: Mapping[str, str]) -> Upload:
        """Begins an upload in parts.

        Raises:
            SteadError: As `put`.
        """

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Removes an object.

        Raises:
            FileMissing: There is none.
            SteadError: It was not removed.
        """

    @abstractmethod
    async def is_folder(self, key: str) -> bool:
        """Says whether a directory is at `key`.

        Raises:
            SteadError: It could not be asked for.
        """

    @abstractmethod
    def entries(self, key: str, *, recursive: bool) -> AsyncGenerator[Entry, None]:
        """Lists what is below a directory, sorted by key; nothing if there is none.

        Args:
            key: The directory, without a trailing slash; "" is the root of everything.
            recursive: Also what is below its directories.

        Raises:
            SteadError: It could not be asked for.
        """


class ObjectStore(Store):
    """A store without directories: they are the prefixes of keys."""

    @abstractmethod
    def pages(self, prefix: str, *, folders: bool, limit: int | None = None) -> AsyncGenerator[Page, None]:
        """Lists keys that begin with `prefix`, in the order of their bytes.

        Args:
            prefix: How the keys begin.
            folders: Whether keys that have a `/` after the prefix are put together as common prefixes.
            limit: Most entries to ask for; None is all, page by page.

        Raises:
            SteadError: It could not be asked for.
        """

    async def is_folder(self, key: str) -> bool:
        async with aclosing(self.pages(f"{key}/" if key else "", folders=False, limit=1)) as pages:
            async for page in pages:
                return bool(page.objects or page.folders)
        return False

    async def entries(self, key: str, *, recursive: bool) -> AsyncGenerator[Entry, None]:
        from stead_fsspec.listing import sorted_entries

        async with aclosing(sorted_entries(self, f"{key}/" if key else "", recursive=recursive)) as entries:
            async for entry in entries:
                yield entry
