"""A law's own folder, and how it is removed again."""

import asyncio
import secrets
import shlex
from contextlib import aclosing
from dataclasses import dataclass
from typing import Self

from stead.environment import Environment

__all__ = ["BASE", "Folder", "clean_folder"]

BASE = "stead-laws"
"""All laws work below this folder of the environment's working directory."""

_BATCH = 32


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that one law has for itself. It exists once something was written into it."""

    path: str
    """Relative to the working directory."""

    @classmethod
    def of(cls, law_id: str) -> Self:
        """Names a new folder for a law."""
        return cls(f"{BASE}/{law_id}-{secrets.token_hex(3)}")

    def __truediv__(self, name: str) -> str:
        return f"{self.path}/{name}"

    def absolute(self, env: Environment, name: str = "") -> str:
        """Returns the absolute path of the folder or of a name in it."""
        return str(env.working_dir / self.path / name)

    async def make(self, env: Environment) -> None:
        """Makes the folder, by a file that is written into it."""
        await env.write_file(self / ".keep", b"")


async def clean_folder(env: Environment, path: str) -> None:
    """Removes a folder and all that is below it, as far as the environment can.

    Raises:
        SteadError: The environment failed; what it had not removed is still there.
    """
    if env.capabilities.list_files and env.capabilities.delete_file:
        async with aclosing(env.list_files(path, recursive=True)) as entries:
            files = [entry.path async for entry in entries if entry.kind != "directory"]
        for start in range(0, len(files), _BATCH):
            removals = (env.delete_file(file) for file in files[start : start + _BATCH])
            await asyncio.gather(*removals, return_exceptions=True)
    elif env.capabilities.execute:
        quoted = shlex.quote(path)
        await env.execute(f"chmod -R u+rwx {quoted}; rm -rf {quoted}")
