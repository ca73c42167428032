"""The optional, harder fixtures: a back door past the environment under test, and faults in what is behind it."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

from stead.conformance.law import Locked
from stead.environment import Environment

__all__ = ["DirectoryDoor", "Fault", "Faults", "Raw", "RawDoor", "SandboxDoor", "SandboxFault"]

Fault = Literal[
    "cut", "reset", "denied", "unavailable", "lost", "silent", "full", "throttled", "expired", "no-store", "corrupt"
]
"""What a `faulty` fixture can be asked for.

`cut`: every body ends before its announced length. `reset`: the connection breaks in the middle of a body. `denied`: the
credentials are refused. `unavailable`: the service gives no answer. `lost`: what runs commands is destroyed while one
runs. `silent`: a command's answer never comes. `full`: there is no room for a write. `throttled`: each kind of request
is asked twice to come back later. `expired`: the credentials were good once. `no-store`: the bucket does not exist.
`corrupt`: one byte of every body is another.
"""


@runtime_checkable
class Raw(Protocol):
    """A back door to the files, so that a fault in writing cannot hide one in reading. Methods may be async.

    Paths are relative to the environment's working directory. One that writes in parts may also have
    `unfinished(folder)`: the names that were begun to be written and neither finished nor given up.
    """

    def read(self, path: str) -> bytes | Awaitable[bytes]:
        """Returns the bytes at a path."""

    def write(self, path: str, data: bytes) -> Awaitable[None] | None:
        """Puts bytes at a path, parents included, in place."""

    def names(self, folder: str) -> list[str] | Awaitable[list[str]]:
        """Returns all names in a folder, also those that the environment hides."""


class DirectoryDoor:
    """The back door of an environment whose files are in a directory of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> bytes:
        """Returns the bytes of a file."""
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Writes a file in place."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("r+b" if target.exists() else "wb") as file:
            file.write(data)
            file.truncate()

    def names(self, folder: str) -> list[str]:
        """Returns what is in a folder."""
        return sorted(entry.name for entry in (self.root / folder).iterdir())


SandboxFault = Literal["unusable", "unanswered", "slow", "throttled", "quota"]
"""What a `sandboxes` fixture can be asked for: a start that suffers it.

`unusable`: the sandbox is made, and then answers nothing. `unanswered`: it is made, and the answer is lost. `slow`: making it
takes half a second. `throttled`: the provider asks twice to come back later. `quota`: it makes no more.
"""


class SandboxDoor(Protocol):
    """What lies behind environments in sandboxes: makes them, unstarted, and looks at the provider's side.

    Its environments have `sandbox_id`, `reference`, `on_recreate`, `list_sandboxes` and `remove_sandbox`, as those of
    `stead.posix.sandbox.SandboxEnvironment`.
    """

    secret: str
    """The credentials that its environments use."""
    quota_words: str
    """What the provider says when the quota is used up."""

    def environment(self, **options: Any) -> Any:
        """Makes an environment.

        Args:
            **options: `sandbox_id`, `working_dir`, `on_close`, `recreate`, `keep_alive`, or `lifetime` in seconds.
        """

    def faulty(self, fault: SandboxFault) -> Any:
        """Makes an environment whose start suffers a fault."""

    def living(self) -> set[str]:
        """Returns the ids of all sandboxes that exist."""

    def expire(self, sandbox_id: str) -> None:
        """Ends a sandbox as its time does."""

    def foreign(self) -> str:
        """Makes a sandbox that stead did not make, and returns its id."""

    def keep_alive_calls(self) -> int:
        """Counts the calls that kept sandboxes alive."""


class RawDoor:
    """What a law sees of the `raw` fixture: the same methods, always awaited."""

    def __init__(self, raw: Raw | None) -> None:
        self._raw = raw

    async def read(self, path: str) -> bytes:
        """Returns the bytes at a path."""
        return cast("bytes", await self._call("read", path))

    async def write(self, path: str, data: bytes) -> None:
        """Puts bytes at a path."""
        await self._call("write", path, data)

    async def names(self, folder: str) -> list[str]:
        """Returns all names in a folder."""
        return sorted(cast("list[str]", await self._call("names", folder)))

    async def unfinished(self, folder: str) -> list[str]:
        """Returns the names of which parts are left.

        Raises:
            Locked: The back door cannot say.
        """
        if not hasattr(self._raw, "unfinished"):
            raise Locked("the fixture raw has no method unfinished")
        return sorted(cast("list[str]", await self._call("unfinished", folder)))

    async def _call(self, method: str, *arguments: Any) -> Any:
        value = getattr(self._raw, method)(*arguments)
        return await value if inspect.isawaitable(value) else value


class Faults:
    """What a law sees of the `faulty` fixture: a function from a fault to an environment that suffers it.

    The environment is unstarted and has the same files as the one under test.
    """

    def __init__(self, make: Callable[[Fault], Environment | None] | None) -> None:
        self._make = make

    def __call__(self, fault: Fault) -> Environment:
        """Returns an environment with that fault.

        Raises:
            Locked: The fixture has no such fault.
        """
        env = self._make(fault) if self._make is not None else None
        if env is None:
            raise Locked(f"the fixture faulty has no fault {fault!r}")
        return env
