"""Laws about reading what is not a readable file: each mistake has its one error."""

import pytest

from stead.conformance.doors import Faults, RawDoor
from stead.conformance.folder import Folder
from stead.conformance.law import Locked, law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import need_program, sh
from stead.environment import Environment
from stead.errors import (
    AccessDenied,
    FileMissing,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    SteadError,
    Unavailable,
    Unsupported,
)

__all__ = ["ReadLaws"]


class ReadLaws(LawSettings):
    """Group C: errors of reading."""

    @law("C1")
    async def test_read_missing(self, env: Environment, here: Folder) -> None:
        """A missing file is FileMissing, and the message names the path."""
        await here.make(env)
        with pytest.raises(FileMissing, match="no-such-file"):
            await env.read_file(here / "no-such-file.txt")

    @law("C1")
    async def test_read_errors_are_both(self, env: Environment, here: Folder) -> None:
        """An error is a SteadError that carries the path, and the builtin error of its kind."""
        await here.make(env)
        with pytest.raises(FileNotFoundError) as caught:
            await env.read_file(here / "no-such-file.txt")
        assert isinstance(caught.value, SteadError)
        assert "no-such-file.txt" in (caught.value.path or "")

    @law("C2")
    async def test_read_missing_parent(self, env: Environment, here: Folder) -> None:
        """A file in a missing directory is FileMissing."""
        with pytest.raises(FileMissing):
            await env.read_file(here / "no/such/file.txt")

    @law("C3")
    async def test_read_directory(self, env: Environment, here: Folder) -> None:
        """A directory is IsADirectory."""
        await env.write_file(here / "d/a", "x")
        with pytest.raises(IsADirectory):
            await env.read_file(here / "d")

    @law("C3")
    async def test_read_below_file(self, env: Environment, here: Folder) -> None:
        """A path that goes through a file, or ends in a slash after one, is NotADirectory."""
        await env.write_file(here / "a", "x")
        for path in (here / "a/b", here / "a/"):
            with pytest.raises(NotADirectory):
                await env.read_file(path)

    @law("C4", needs=("execute", "modes"), permissions=True)
    async def test_read_no_permission(self, env: Environment, here: Folder) -> None:
        """A file that may not be read is AccessDenied, not missing."""
        await env.write_file(here / "a", "secret")
        await sh(env, "chmod 000 a", here)
        if (await env.execute("cat a", cwd=here.path)).exit_code == 0:
            raise Locked("commands run as root, whom the system refuses nothing")
        with pytest.raises(AccessDenied):
            await env.read_file(here / "a")

    @law("C5")
    async def test_read_empty_path(self, env: Environment) -> None:
        """An empty path is InvalidPath, a ValueError."""
        with pytest.raises(InvalidPath) as caught:
            await env.read_file("")
        assert isinstance(caught.value, ValueError)

    @law("C6", needs=("execute", "symlinks"))
    async def test_read_dangling_link(self, env: Environment, here: Folder) -> None:
        """A link to nothing inside the root is FileMissing."""
        await here.make(env)
        await sh(env, "ln -s nothing link", here)
        with pytest.raises(FileMissing):
            await env.read_file(here / "link")

    @law("C7", needs=("execute", "symlinks"))
    async def test_read_link_loop(self, env: Environment, here: Folder) -> None:
        """A loop of links is InvalidPath, at once."""
        await here.make(env)
        await sh(env, "ln -s b a; ln -s a b", here)
        with pytest.raises(InvalidPath):
            await env.read_file(here / "a")

    @law("C8", needs="execute")
    async def test_read_fifo(self, env: Environment, here: Folder) -> None:
        """A named pipe is refused with Unsupported: it never hangs."""
        await need_program(env, "mkfifo")
        await here.make(env)
        await sh(env, "mkfifo pipe; (sleep 4; timeout 1 sh -c ': <>pipe' ) >/dev/null 2>&1 &", here)
        with pytest.raises(Unsupported):
            await env.read_file(here / "pipe")

    @law("C9")
    async def test_read_unavailable(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """A service that gives no answer is Unavailable and retryable, not a missing file."""
        await env.write_file(here / "a", "x")
        broken = faulty("unavailable")
        with pytest.raises(Unavailable) as caught:
            await broken.read_file(here / "a")
        await broken.close()
        assert caught.value.retryable

    @law("C10")
    async def test_read_denied(self, env: Environment, here: Folder, faulty: Faults) -> None:
        """Refused credentials are AccessDenied, not a missing file."""
        await env.write_file(here / "a", "x")
        broken = faulty("denied")
        with pytest.raises(AccessDenied):
            await broken.read_file(here / "a")
        await broken.close()

    @law("B2")
    async def test_read_from_behind(self, env: Environment, here: Folder, raw: RawDoor) -> None:
        """What lies behind the environment is what it reads, byte for byte."""
        await raw.write(here / "a", bytes(range(256)))
        assert await env.read_file(here / "a") == bytes(range(256))
