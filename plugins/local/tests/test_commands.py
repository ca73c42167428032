"""What a command is given, what it gives back."""

import asyncio
import os
import stat
import sys
import time
from pathlib import Path

import pytest
from commands_support import execute, run

from stead import ExecutionResult
from stead.errors import FileMissing, InvalidPath, NotADirectory, PathOutsideRoot


def test_a_result(tmp_path):
    """Exit code, both streams apart, their sizes and the time, without anything spilled."""
    result = execute(tmp_path, "printf out; printf error >&2; exit 3")
    assert result == ExecutionResult(
        exit_code=3, stdout="out", stderr="error", stdout_bytes=3, stderr_bytes=5, duration=result.duration
    )
    assert 0 < result.duration < 10


@pytest.mark.parametrize("code", [0, 1, 70, 255])
def test_exit_codes(tmp_path, code):
    """An exit code is a result."""
    assert execute(tmp_path, f"exit {code}").exit_code == code


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_death_by_signal(tmp_path, name, code):
    """A command that a signal ended has 128 and the signal's number, never 0."""
    result = execute(tmp_path, f"kill -{name} $$")
    assert (result.exit_code, result.timed_out) == (code, False)
    assert execute(tmp_path, ["sh", "-c", f"kill -{name} $$"]).exit_code == code


def test_argv_is_literal(tmp_path):
    """A sequence is argv: nothing in it is interpreted, whatever characters it holds."""
    words = ["a b", "$HOME", "*", "'\"", "`id`", "", "é\n", "-n"]
    program = [sys.executable, "-c", "import sys; print(sys.argv[1:])", *words]
    assert execute(tmp_path, program).stdout == f"{words}\n"
    assert execute(tmp_path, tuple(program)).stdout == f"{words}\n"


def test_text_is_shell(tmp_path):
    """Text is shell: pipes, redirects, here-documents, comments, several lines."""
    script = "cat > f <<'END'\na 'b' \\c\nEND\n# a comment\nsort -r f | tr a-z A-Z; echo \"$((1 + 2))\"\n"
    assert execute(tmp_path, script).stdout == "A 'B' \\C\n3\n"


def test_another_shell(tmp_path):
    """The option `shell` runs text, here with what only bash has."""
    result = execute(tmp_path, "x=(1 2); echo ${#x[@]} ${BASH_VERSION:+bash}", options={"shell": "bash"})
    assert result.stdout == "2 bash\n"
    missing = execute(tmp_path, "true", options={"shell": "/no/shell"})
    assert (missing.exit_code, missing.stderr) == (127, "/no/shell: not found\n")


def test_a_missing_program(tmp_path):
    """argv with a program that does not exist gives 127 and one line that says so."""
    result = execute(tmp_path, ["no-such-program", "x"])
    assert (result.exit_code, result.stdout, result.stderr) == (127, "", "no-such-program: not found\n")
    assert result.stderr_bytes == len(result.stderr)
    assert execute(tmp_path, "no-such-program").exit_code == 127
    assert execute(tmp_path, ["./no-such-program"]).exit_code == 127
    assert execute(tmp_path, ["/etc/passwd/x"]).exit_code == 127


def test_what_is_not_executable(tmp_path):
    """A file that may not be executed, a directory, and a file that is no program give 126."""
    (tmp_path / "plain").write_text("echo no\n")
    (tmp_path / "garbage").write_bytes(b"\x00\x01")
    (tmp_path / "garbage").chmod(0o755)
    denied = execute(tmp_path, ["./plain"])
    assert (denied.exit_code, denied.stderr) == (126, "./plain: permission denied\n")
    assert execute(tmp_path, [str(tmp_path)]).exit_code == 126
    assert execute(tmp_path, ["./garbage"]).exit_code == 126
    assert execute(tmp_path, "./plain").exit_code == 126


def test_a_program_is_looked_up_in_the_path_of_the_command(tmp_path):
    """The PATH that counts is the one that the command gets, relative folders from its working directory."""
    for folder in ("bin", "sub/bin"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "tool").write_text(f"#!/bin/sh\necho {folder}\n")
        (tmp_path / folder / "tool").chmod(0o755)
    (tmp_path / "no").mkdir()
    (tmp_path / "no" / "tool").write_text("")
    assert execute(tmp_path, ["tool"], env={"PATH": "no:bin"}).stdout == "bin\n"
    assert execute(tmp_path, ["tool"], env={"PATH": "bin"}, cwd="sub").stdout == "sub/bin\n"
    assert execute(tmp_path, ["tool"], env={"PATH": "no"}).exit_code == 126
    assert execute(tmp_path, ["tool"], env={"PATH": "sub"}).exit_code == 127


def test_cwd(tmp_path):
    """Commands run in the working directory, or where `cwd` says; `pwd` prints paths that the file methods take."""
    (tmp_path / "sub").mkdir()

    async def use(env):
        await env.write_file("sub/name", "x")
        printed = [(await env.execute("pwd", cwd=cwd)).stdout for cwd in (None, ".", "sub", tmp_path / "sub", "sub/..")]
        found = await env.read_file((await env.execute(["pwd"], cwd=Path("sub"))).stdout.strip() + "/name")
        return printed, found

    printed, found = run(tmp_path, use)
    root, sub = f"{tmp_path}\n", f"{tmp_path / 'sub'}\n"
    assert (printed, found) == ([root, root, sub, sub, root], b"x")


def test_a_root_behind_a_link(tmp_path):
    """`pwd` prints the root as it was given, also where a link is on the way."""
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")

    async def use(env):
        return [(await env.execute("pwd", cwd=cwd)).stdout.strip() for cwd in (None, "sub")], env.working_dir

    printed, working_dir = run(tmp_path / "link", use)
    assert (
        printed == [str(working_dir), str(working_dir / "sub")] == [str(tmp_path / "link"), str(tmp_path / "link/sub")]
    )


@pytest.mark.parametrize(
    ("cwd", "error"),
    [
        ("missing", FileMissing),
        ("file", NotADirectory),
        ("..", PathOutsideRoot),
        ("/etc", PathOutsideRoot),
        ("out", PathOutsideRoot),
        ("", InvalidPath),
        ("a\0b", InvalidPath),
        (b"sub", TypeError),
    ],
)
def test_a_cwd_that_is_refused(tmp_path, cwd, error):
    """`cwd` is a path like others; when it is refused, the command does not start."""
    (tmp_path / "file").write_text("")
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(error):
        execute(tmp_path, f"touch {tmp_path}/marker", cwd=cwd)
    assert not (tmp_path / "marker").exists()


def test_a_cwd_that_may_not_be_entered(tmp_path):
    """A directory without permission to enter is AccessDenied, where the user is not root."""
    from stead.errors import AccessDenied

    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o600)
    if os.geteuid() == 0:
        assert execute(tmp_path, "pwd", cwd="closed").exit_code == 0
    else:
        with pytest.raises(AccessDenied):
            execute(tmp_path, "pwd", cwd="closed")


def test_env_adds(tmp_path):
    """`env` adds variables, with any text in them, and can replace those of the host."""
    added = {"A": "1", "SPACED": " two words\n'\"$x", "HOME": "/elsewhere", "EMPTY": "", "é": "ü"}
    script = "import os; print({k: os.environ[k] for k in ('A', 'SPACED', 'HOME', 'EMPTY', 'é')}, 'PATH' in os.environ)"
    assert execute(tmp_path, [sys.executable, "-c", script], env=added).stdout == f"{added} True\n"


def test_host_secrets_are_not_handed_on(tmp_path, monkeypatch):
    """Of the host's variables a command sees the documented ones; the caller's own are there too."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    result = execute(tmp_path, ["env"], env={"MINE": "1"})
    names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert {"PATH", "LC_ALL", "MINE", "PWD"} <= names
    assert "canary" not in result.stdout
    everything = execute(tmp_path, "cat /proc/$PPID/environ; env", env={"MINE": "1"})
    assert "canary" not in everything.stdout


def test_inherit_env(tmp_path, monkeypatch):
    """`inherit_env` hands all of the host's variables on."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    assert "canary" in execute(tmp_path, ["env"], options={"inherit_env": True}).stdout


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("http://user:pa/ss@proxy:3128", "http://proxy:3128"),
        ("user:pass@proxy:3128", "proxy:3128"),
        ("socks5://proxy:1080", "socks5://proxy:1080"),
    ],
)
def test_proxies_lose_their_passwords(tmp_path, monkeypatch, value, seen):
    """Proxies are handed on in both spellings, without user name and password."""
    monkeypatch.setenv("https_proxy", value)
    monkeypatch.setenv("HTTPS_PROXY", value)
    assert execute(tmp_path, "echo $https_proxy $HTTPS_PROXY").stdout == f"{seen} {seen}\n"


def test_stdin_is_at_its_end(tmp_path):
    """Unless it is given, stdin is at its end at once; nothing is taken from the host's."""
    reading, writing = os.pipe()
    os.write(writing, b"the host's\n")
    saved = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert execute(tmp_path, 'cat; read x; echo "[$x]"', timeout=5).stdout == "[]\n"
        assert os.read(0, 100) == b"the host's\n"
    finally:
        os.dup2(saved, 0)
        for fd in (reading, writing, saved):
            os.close(fd)


@pytest.mark.parametrize("stdin", ["text é\n$x `y`", b"\xff\x00binary", "", b"", "x" * 200_000])
def test_stdin(tmp_path, stdin):
    """Text and bytes reach the command as they are, through a pipe."""
    data = stdin.encode() if isinstance(stdin, str) else stdin

    async def use(env):
        await env.execute("cat > f", stdin=stdin)
        kind = (await env.execute("[ -p /dev/stdin ] && echo pipe", stdin=stdin)).stdout
        return await env.read_file("f"), kind

    assert run(tmp_path, use) == (data, "pipe\n" if data else "")


def test_ten_megabytes_of_stdin(tmp_path):
    """10 MB of stdin arrive whole, while as much comes back."""
    data = os.urandom(10_000_000)

    async def use(env):
        result = await env.execute("tee copy", stdin=data, output_limit=0)
        return await env.read_file("copy"), await env.read_file(result.stdout_path)

    assert run(tmp_path, use) == (data, data)


def test_a_command_that_does_not_read_its_stdin(tmp_path):
    """Ending without reading 10 MB of stdin is no error and holds nothing up."""
    result = execute(tmp_path, "exec 0<&-; echo done", stdin=b"x" * 10_000_000, timeout=10)
    assert (result.exit_code, result.stdout) == (0, "done\n")
    assert execute(tmp_path, "head -c 3", stdin=b"x" * 10_000_000, timeout=10).stdout == "xxx"


def signal_sets(status: str) -> list[int]:
    """The signals that a process blocks, ignores and catches, without the real-time ones."""
    words = status.split()
    return [int(words[words.index(f"Sig{name}:") + 1], 16) & 0x7FFFFFFF for name in ("Blk", "Ign", "Cgt")]


def test_signals_are_at_their_defaults(tmp_path):
    """Python ignores SIGPIPE and SIGXFSZ; a command does not, and no signal is blocked."""
    assert execute(tmp_path, ["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"]).stdout == "y\n141\n"
    assert signal_sets(execute(tmp_path, ["cat", "/proc/self/status"]).stdout) == [0, 0, 0]


def test_no_terminal(tmp_path):
    """A command has no terminal, and a session of its own."""
    result = execute(tmp_path, "tty; ps -o sid= -p $$ | tr -d ' '; echo $$")
    told, session, pid = result.stdout.splitlines()
    assert (told, session) == ("not a tty", pid)


def test_descriptors_are_not_inherited(tmp_path):
    """A command gets its three streams and no other descriptor of ours."""
    assert execute(tmp_path, ["ls", "/proc/self/fd"]).stdout.split() == ["0", "1", "2", "3"]


def test_a_long_script(tmp_path):
    """Shell text of up to a megabyte runs, though one argument of a program is limited to 128 KiB."""
    for size in (131_000, 131_071, 131_072, 1_000_000):
        text = f'echo first $# "$0"; # {"é" * (size // 2)}\necho last; exit 7'
        result = execute(tmp_path, text)
        assert (result.stdout, result.exit_code) == ("first 0 /bin/sh\nlast\n", 7), size


def test_a_long_argument_list(tmp_path):
    """A megabyte of arguments passes; what the system refuses is a clear ValueError."""
    words = ["x" * 999] * 1000
    assert execute(tmp_path, ["sh", "-c", "echo $# ${#1}", "sh", *words]).stdout == "1000 999\n"
    with pytest.raises(ValueError, match="too long for this system"):
        execute(tmp_path, ["true", *(["x" * 100_000] * 100)])
    with pytest.raises(ValueError, match="too long for this system"):
        execute(tmp_path, ["true", "x" * 200_000])


def test_the_command_is_not_in_the_keepers_arguments(tmp_path):
    """The text of a command, which may hold secrets, is not in the command line of what runs it."""
    result = execute(tmp_path, "tr '\\0' ' ' < /proc/$PPID/cmdline; : canary")
    assert "keeper" in result.stdout
    assert "canary" not in result.stdout


def test_files_and_commands_share_the_folder(tmp_path):
    """A command sees what the file methods wrote, and the other way round; variables and `cd` end with their call."""

    async def use(env):
        await env.write_file("a", "from the API")
        seen = await env.execute("cat a; cp a b; cd /; X=1; export X")
        return seen.stdout, await env.read_file("b"), (await env.execute("pwd; echo [$X]")).stdout

    assert run(tmp_path, use) == ("from the API", b"from the API", f"{tmp_path}\n[]\n")


def test_parallel_commands_do_not_mix(tmp_path):
    """Each of fifty commands at once gets its own output."""

    async def use(env):
        calls = (env.execute(f"echo {n}; echo e{n} >&2; exit {n}") for n in range(50))
        return [(r.stdout, r.stderr, r.exit_code) for r in await asyncio.gather(*calls)]

    assert run(tmp_path, use) == [(f"{n}\n", f"e{n}\n", n) for n in range(50)]


def test_timeouts(tmp_path):
    """A command that ends in time is not timed out; one that ends with 124 or by TERM is not either."""
    assert execute(tmp_path, "sleep 0.05; exit 5", timeout=30.5).exit_code == 5
    assert execute(tmp_path, "true", timeout=float("inf")).timed_out is False
    by_itself = execute(tmp_path, "exit 124", timeout=10)
    assert (by_itself.exit_code, by_itself.timed_out) == (124, False)
    assert execute(tmp_path, "kill -TERM $$", timeout=10).timed_out is False
    assert execute(tmp_path, "sleep 50", timeout=0.1).duration < 1.1


def test_a_blocked_loop_does_not_delay_a_timeout(tmp_path):
    """The deadline is kept by the keeper, so a busy event loop does not hold it up."""

    async def use(env):
        task = asyncio.create_task(env.execute("sleep 50", timeout=0.2))
        await asyncio.sleep(0.1)
        time.sleep(1.5)  # the loop is blocked on purpose
        return (await task).duration

    assert run(tmp_path, use) < 1.2


@pytest.mark.parametrize(
    ("command", "limits", "hit", "code"),
    [
        ("while :; do :; done", {"cpu_seconds": 1}, "cpu_seconds", 152),
        ("sh -c 'while :; do :; done'; exit $?", {"cpu_seconds": 1}, "cpu_seconds", 152),
        ("trap '' XCPU; while :; do :; done", {"cpu_seconds": 1}, "cpu_seconds", 137),
        ("head -c 100000 /dev/zero > f", {"file_size": 50_000}, "file_size", 153),
        ("head -c 100000 /dev/zero > f", {"file_size": 100_000}, None, 0),
        ("kill -9 $$", {"cpu_seconds": 100}, None, 137),
        ("kill -XCPU $$", {"file_size": 100}, None, 152),
    ],
)
def test_limits(tmp_path, command, limits, hit, code):
    """A limit that is reached ends the command, and the result says which one."""
    result = execute(tmp_path, command, options={"limits": limits}, timeout=30)
    assert (result.limit_hit, result.exit_code) == (hit, code)


def test_a_limit_that_another_command_hit(tmp_path):
    """A command that did not even start is not said to have hit the limit of the one before it."""

    async def use(env):
        first = await env.execute("kill -XCPU $$")
        return first.limit_hit, (await env.execute(["no-such"])).limit_hit

    assert run(tmp_path, use, limits={"cpu_seconds": 50}) == ("cpu_seconds", None)


def test_the_memory_limit(tmp_path):
    """An allocation beyond the memory limit fails; the keeper and its spilling are not limited."""
    script = "x = bytearray(300_000_000)"
    options = {"limits": {"memory": 200_000_000, "file_size": 1000}}
    result = execute(tmp_path, [sys.executable, "-c", script], options=options)
    assert (result.exit_code, "MemoryError" in result.stderr) == (1, True)
    spilled = execute(tmp_path, "head -c 5000 /dev/zero", options=options, output_limit=10)
    assert (spilled.spill_error, Path(spilled.stdout_path).stat().st_size) == (None, 5000)


def test_limits_work_as_other_commands_do(tmp_path):
    """With limits a command is started another way: working directory, signals, descriptors and errors are the same."""
    options = {"limits": {"processes": 50_000}}
    (tmp_path / "sub").mkdir()
    assert execute(tmp_path, ["pwd"], cwd="sub", options=options).stdout == f"{tmp_path}/sub\n"
    assert execute(tmp_path, ["no-such"], options=options).exit_code == 127
    assert execute(tmp_path, ["ls", "/proc/self/fd"], options=options).stdout.split() == ["0", "1", "2", "3"]
    assert signal_sets(execute(tmp_path, ["cat", "/proc/self/status"], options=options).stdout) == [0, 0, 0]
    assert execute(tmp_path, ["bash", "-c", "ulimit -u"], options=options).stdout == "50000\n"


def test_the_umask_is_the_hosts(tmp_path):
    """Files that a command makes get the host's umask."""
    before = os.umask(0o027)
    try:
        execute(tmp_path, "touch f")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640
