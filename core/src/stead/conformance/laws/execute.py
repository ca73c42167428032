"""Laws about running a command to its end: what it gets, what it prints, what is a result and what an error."""

import asyncio
import math
from typing import Any

import pytest

from stead.conformance.folder import Folder
from stead.conformance.host import host_stdin, host_variable
from stead.conformance.law import law
from stead.conformance.settings import LawSettings
from stead.conformance.shell import sh
from stead.environment import Environment
from stead.errors import FileMissing, NotADirectory, PathOutsideRoot, SteadError

__all__ = ["ExecuteLaws"]

_MIB = 1 << 20


class ExecuteLaws(LawSettings):
    """Group G: execute."""

    @law("G1", needs="execute")
    async def test_execute_exit_codes(self, env: Environment) -> None:
        """Every exit code is a result, 0 to 255."""
        found = [(await env.execute(f"exit {code}")).exit_code for code in (0, 1, 70, 124, 255)]
        assert found == [0, 1, 70, 124, 255]

    @law("G1", needs="execute")
    async def test_execute_streams_apart(self, env: Environment) -> None:
        """Stdout and stderr are apart, each with its size, also when the command fails."""
        result = await env.execute("echo out; echo errors >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "errors\n", 3)
        assert (result.stdout_bytes, result.stderr_bytes, result.timed_out) == (4, 7, False)

    @law("G8", needs="execute")
    async def test_execute_missing_program(self, env: Environment) -> None:
        """A missing program is exit code 127 and a word on stderr, in the shell and as argv."""
        for command in ("no-such-program-here", ["no-such-program-here", "x"]):
            result = await env.execute(command)
            assert result.exit_code == 127
            assert "no-such-program-here" in result.stderr

    @law("G8", needs="execute")
    async def test_execute_not_executable(self, env: Environment, here: Folder) -> None:
        """A file that is no program is exit code 126, in the shell and as argv."""
        await env.write_file(here / "data", "no program")
        for command in ("./data", ["./data"]):
            assert (await env.execute(command, cwd=here.path)).exit_code == 126

    @law("G8", needs="execute")
    async def test_execute_signal(self, env: Environment) -> None:
        """Death by signal n is exit code 128+n, and no timeout."""
        for name, code in (("KILL", 137), ("TERM", 143)):
            result = await env.execute(f"kill -{name} $$", timeout=10)
            assert (result.exit_code, result.timed_out) == (code, False)

    @law("G9", needs="execute")
    async def test_execute_empty_refused(self, env: Environment) -> None:
        """An empty command, or NUL in one, is a ValueError before anything runs."""
        for command in ("", [], [""], "echo a\0b", ["echo", "a\0b"]):
            with pytest.raises(ValueError):  # noqa: PT011  # the message is each backend's own
                await env.execute(command)

    @law("G10", needs="execute")
    async def test_execute_cwd(self, env: Environment, here: Folder) -> None:
        """A command runs in the working directory, or in `cwd`: relative, absolute or a path object."""
        await here.make(env)
        assert (await env.execute("pwd")).stdout == f"{env.working_dir}\n"
        for cwd in (here.path, here.absolute(env), env.working_dir / here.path):
            result = await env.execute("pwd", cwd=cwd)
            assert result.stdout.rstrip("\n") == here.absolute(env).rstrip("/")

    @law("G10", needs="execute")
    async def test_execute_cwd_wrong(self, env: Environment, here: Folder) -> None:
        """A `cwd` that is missing is FileMissing, a file NotADirectory, and the command never ran."""
        await env.write_file(here / "a", "x")
        for cwd, error in (
            (here / "no-such", FileMissing),
            (here / "a", NotADirectory),
            ("../" * 40 + "etc", PathOutsideRoot),
        ):
            with pytest.raises(error):
                await env.execute(["touch", here.absolute(env, "ran")], cwd=cwd)
        assert "ran" not in await sh(env, "ls", here)

    @law("G11", needs="execute")
    async def test_execute_variables(self, env: Environment) -> None:
        """`env` adds variables, with spaces, quotes and newlines, and takes none away."""
        given = {"ONE": "a b", "TWO": 'it\'s "q" $HOME `x`', "THREE": "l1\nl2", "FOUR": ""}
        result = await env.execute('printf "%s|" "$ONE" "$TWO" "$THREE" "$FOUR"; test -n "$PATH"', env=given)
        assert (result.stdout, result.exit_code) == ('a b|it\'s "q" $HOME `x`|l1\nl2||', 0)
        assert (await env.execute('printf "[$ONE]"')).stdout == "[]"

    @law("G11", needs="execute")
    async def test_execute_variables_wrong(self, env: Environment) -> None:
        """A variable name with `=` or NUL is a ValueError, a value that is no text a TypeError."""
        for name in ("A=B", "", "A\0"):
            with pytest.raises(ValueError):  # noqa: PT011  # the message is each backend's own
                await env.execute("true", env={name: "x"})
        wrong: Any = {"A": 1}
        with pytest.raises(TypeError):
            await env.execute("true", env=wrong)

    @law("G11", needs="execute")
    async def test_execute_host_secrets_hidden(self, env: Environment) -> None:
        """Secrets in the variables of the process that holds the environment are not visible to commands."""
        with host_variable("STEAD_CANARY_API_KEY", "canary-secret"):
            result = await env.execute("env; cat /proc/self/environ 2>/dev/null")
        assert "canary-secret" not in result.stdout

    @law("G12", needs="execute")
    async def test_execute_stdin_at_end(self, env: Environment) -> None:
        """Stdin is at its end unless given: `cat` ends at once, and nothing is taken from the host's stdin."""
        with host_stdin(b"of the host\n") as left:
            result = await env.execute('cat; read x; echo "[$x]"', timeout=5)
            assert (result.stdout, result.timed_out) == ("[]\n", False)
            assert left() == b"of the host\n"

    @law("G12", needs="execute")
    async def test_execute_stdin(self, env: Environment) -> None:
        """Text, nothing, special characters, all bytes and 1 MiB reach a command's stdin as they are."""
        for given in ("text\n", "", "$HOME `id` \\n 'q' \"d\"", "h\u00e9 \u754c"):
            assert (await env.execute("cat", stdin=given)).stdout == given
        for data in (bytes(range(256)), bytes(range(256)) * 4096):
            result = await env.execute("od -An -v -tx1 | tr -d ' \\n'", stdin=data, output_limit=4 * _MIB)
            assert bytes.fromhex(result.stdout) == data

    @law("G12", needs="execute")
    async def test_execute_stdin_unread(self, env: Environment) -> None:
        """A command that does not read its stdin is no error."""
        result = await env.execute("head -c 1", stdin=b"x" * (2 * _MIB), timeout=10)
        assert (result.stdout, result.exit_code, result.timed_out) == ("x", 0, False)

    @law("G13", needs="execute")
    async def test_execute_shell_text(self, env: Environment, here: Folder) -> None:
        """Quotes, pipes, redirects, here-documents, comments, several lines and non-ASCII reach the shell as they are."""
        await here.make(env)
        command = "x='a  b' # comment\necho \"$x\" | tr a-z A-Z > f\ncat f - <<'END'\n$HOME \\n \u754c\nEND\nprintf '%s\\n' 'a\\b'"
        assert await sh(env, command, here) == "A  B\n$HOME \\n \u754c\na\\b\n"

    @law("G13", needs="execute")
    async def test_execute_dev_stdout(self, env: Environment) -> None:
        """Writing to /dev/stdout and /dev/stderr keeps what was written before."""
        result = await env.execute("echo one; echo two > /dev/stdout; echo three; echo e1 >&2; echo e2 > /dev/stderr")
        assert (result.stdout, result.stderr) == ("one\ntwo\nthree\n", "e1\ne2\n")

    @law("G13", needs="execute")
    async def test_execute_pipe_closed(self, env: Environment) -> None:
        """A writer whose reader has gone ends by SIGPIPE, without a word."""
        result = await env.execute("yes | head -n 1", timeout=10)
        assert (result.stdout, result.stderr, result.timed_out) == ("y\n", "", False)

    @law("G14", needs="execute")
    async def test_execute_argv_literal(self, env: Environment) -> None:
        """A sequence is argv: no shell looks at it."""
        given = ["$HOME", "a b", "*", "'q'", "", "; echo x", "l1\nl2", "\u754c"]
        assert (await env.execute(["printf", "%s|", *given])).stdout == "".join(f"{text}|" for text in given)
        assert (await env.execute(("printf", "%s", "tuple"))).stdout == "tuple"

    @law("G14", needs="execute")
    async def test_execute_wrong_type(self, env: Environment) -> None:
        """A command that is neither text nor a sequence of text is a TypeError."""
        command: Any
        for command in (b"true", ["echo", 1], 1, None):
            with pytest.raises(TypeError):
                await env.execute(command)

    @law("G16", needs="execute")
    async def test_execute_timeout_values(self, env: Environment) -> None:
        """A timeout of zero, less, or NaN is a ValueError, no number a TypeError; fractions and infinity are fine."""
        value: Any
        for value in (0, -1, -0.5, math.nan):
            with pytest.raises(ValueError):  # noqa: PT011  # the message is each backend's own
                await env.execute("true", timeout=value)
        for value in ("5", True, [1]):
            with pytest.raises(TypeError):
                await env.execute("true", timeout=value)
        for value in (None, math.inf, 7.5, 10):
            assert (await env.execute("true", timeout=value)).exit_code == 0

    @law("G21", needs="execute")
    async def test_execute_state(self, env: Environment, here: Folder) -> None:
        """Files persist from one command to the next; shell variables and the directory do not."""
        await here.make(env)
        await sh(env, "X=kept; export X; echo file > f; cd /", here)
        assert await sh(env, 'cat f; printf "[$X]"', here) == "file\n[]"

    @law("G22", needs="execute")
    async def test_execute_sees_files(self, env: Environment, here: Folder) -> None:
        """A command sees what `write_file` wrote, and `read_file` what a command wrote."""
        await env.write_file(here / "d/a", "from the method")
        assert await sh(env, "cat d/a", here) == "from the method"
        await sh(env, "printf 'from the command' > d/b", here)
        assert await env.read_file(here / "d/b") == b"from the command"

    @law("G22", needs="execute")
    async def test_execute_pwd_usable(self, env: Environment, here: Folder) -> None:
        """What `pwd` prints, also the physical one, is a path for the file methods."""
        await env.write_file(here / "a", "x")
        for command in ("pwd", "pwd -P"):
            folder = (await sh(env, command, here)).strip()
            assert await env.read_file(f"{folder}/a") == b"x"

    @law("G23", needs="execute")
    async def test_execute_parallel(self, env: Environment) -> None:
        """Parallel commands do not mix their outputs, and run at the same time."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        commands = (env.execute(f"sleep 1; echo {n}; echo e{n} >&2; exit {n}") for n in range(8))
        found = [(result.stdout, result.stderr, result.exit_code) for result in await asyncio.gather(*commands)]
        assert found == [(f"{n}\n", f"e{n}\n", n) for n in range(8)]
        assert loop.time() - started < 4 + self.margin

    @law("G24", needs="execute")
    async def test_execute_long_command(self, env: Environment) -> None:
        """Arguments of nearly 1 MiB in all work, and so does shell text of that length."""
        result = await env.execute(["sh", "-c", 'printf "%s" $#', "sh", *["x" * 1000] * 1000])
        assert result.stdout == "1000"
        text = f"printf '%s' '{'x' * 1_000_000}' | wc -c"
        assert (await env.execute(text)).stdout.strip() == "1000000"

    @law("G24", needs="execute")
    async def test_execute_too_long(self, env: Environment) -> None:
        """Arguments past the system's limit are a clear error or exit code 126, never a wrong run or a hang."""
        try:
            result = await env.execute(["sh", "-c", 'printf "%s" "$1" | wc -c', "sh", "x" * (16 * _MIB)])
        except (SteadError, ValueError, OSError) as error:
            assert str(error)  # noqa: PT017  # any of these, or a result
        else:
            assert result.exit_code == 126 or result.stdout.strip() == str(16 * _MIB)

    @law("G26", needs="execute")
    async def test_execute_no_terminal(self, env: Environment) -> None:
        """No terminal is attached."""
        result = await env.execute("test -t 0 || test -t 1 || test -t 2")
        assert result.exit_code == 1
