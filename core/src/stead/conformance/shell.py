"""Commands that laws run in the environment under test, to arrange what the file methods cannot."""

from contextlib import aclosing
from pathlib import PurePosixPath

from stead.conformance.folder import Folder
from stead.conformance.law import Locked
from stead.environment import Environment

__all__ = ["names_in", "need_program", "sh"]


async def sh(env: Environment, command: str, here: Folder) -> str:
    """Runs a command that must succeed, in the law's folder.

    Returns:
        What it printed.
    """
    result = await env.execute(command, cwd=here.path)
    assert result.exit_code == 0, f"{command!r} failed: {result.stderr or result.stdout}"  # noqa: S101  # a law's step
    return result.stdout


async def need_program(env: Environment, name: str) -> None:
    """Locks the law where commands have no such program.

    Raises:
        Locked: They have not.
    """
    if (await env.execute(f"command -v {name}")).exit_code != 0:
        raise Locked(f"the environment has no program {name}")


async def names_in(env: Environment, folder: str) -> list[str]:
    """Returns the names in a folder, hidden ones too: as a command sees them where there are commands."""
    if env.capabilities.execute:
        return sorted((await env.execute("ls -A", cwd=folder)).stdout.splitlines())
    async with aclosing(env.list_files(folder)) as entries:
        return [PurePosixPath(entry.path).name async for entry in entries]
