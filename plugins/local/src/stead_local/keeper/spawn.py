"""Starting the command: which program, and how, so that it costs what the system's own spawn costs."""

from __future__ import annotations

import errno
import os

from stead_local.keeper.lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["CannotRun", "apply_limits", "spawn"]

_RESET_SIGNALS = [number for number in range(1, 32) if number not in (signal.SIGKILL, signal.SIGSTOP)]
"""Python ignores SIGPIPE and SIGXFSZ, and a host may ignore more: a command starts with all of them at default."""

_SYSTEM_ERRORS = frozenset({errno.E2BIG, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""These say nothing about the program: the caller's arguments or the machine are at their limits."""


class CannotRun(Exception):
    """The command cannot run, as a shell would report it."""

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        """127: no such program. 126: not executable."""
        self.text = text


def spawn(
    argv: list[bytes],
    env: Mapping[bytes, bytes],
    stdio: Sequence[int],
    *,
    prepare: Callable[[], None] | None = None,
) -> int:
    """Starts a program in a session of its own, in this process's working directory.

    Args:
        argv: Program and arguments. A name without a slash is looked up in `env`'s PATH.
        env: All its variables.
        stdio: The three descriptors that become 0, 1 and 2.
        prepare: Runs in the child before the program. Without it the system's vfork-like spawn is used; with it the
            child is forked, which costs a millisecond or two more.

    Returns:
        The pid, also its process group and session.

    Raises:
        CannotRun: No such program, or it is not executable.
        OSError: The machine is at a limit, or the arguments are too long (E2BIG).
    """
    denied = False
    for program in _candidates(argv[0], env.get(b"PATH", os.fsencode(os.defpath))):
        try:
            if prepare is None:
                return _spawn(program, argv, env, stdio)
            return _fork(program, argv, env, stdio, prepare)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            denied = True
        except OSError as error:
            if error.errno in _SYSTEM_ERRORS:
                raise
            raise CannotRun(126, f"{_shown(argv[0])}: {os.strerror(error.errno or 0).lower()}") from error
    raise (
        CannotRun(126, f"{_shown(argv[0])}: permission denied")
        if denied
        else CannotRun(127, f"{_shown(argv[0])}: not found")
    )


def apply_limits(limits: Mapping[str, int]) -> None:
    """Sets resource limits of this process and what it starts; meant for `spawn`'s `prepare`.

    Args:
        limits: `cpu_seconds`, `memory` (bytes of address space), `processes` (of this user), `file_size` (bytes).
    """
    import resource

    kinds = {
        "cpu_seconds": resource.RLIMIT_CPU,
        "memory": resource.RLIMIT_AS,
        "processes": resource.RLIMIT_NPROC,
        "file_size": resource.RLIMIT_FSIZE,
    }
    for name, value in limits.items():
        ceiling = resource.getrlimit(kinds[name])[1]
        # SIGXCPU comes at the soft limit and says what happened; a process that survives it is killed a second later.
        hard = value + 1 if name == "cpu_seconds" else value
        if ceiling != resource.RLIM_INFINITY:
            hard = min(hard, ceiling)
        resource.setrlimit(kinds[name], (min(value, hard), hard))


def _candidates(name: bytes, path: bytes) -> Iterator[bytes]:
    if b"/" in name:
        yield name
        return
    for folder in path.split(b":"):
        program = os.path.join(folder or b".", name)
        # Looked at first: a spawn that fails costs a hundred times as much.
        if os.path.isfile(program):
            yield program


def _spawn(program: bytes, argv: list[bytes], env: Mapping[bytes, bytes], stdio: Sequence[int]) -> int:
    return os.posix_spawn(
        program,
        argv,
        env,
        setsid=True,
        setsigmask=[],
        setsigdef=_RESET_SIGNALS,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(stdio)],
    )


def _fork(
    program: bytes,
    argv: list[bytes],
    env: Mapping[bytes, bytes],
    stdio: Sequence[int],
    prepare: Callable[[], None],
) -> int:
    import subprocess

    def in_child() -> None:
        for number in _RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        prepare()

    process = subprocess.Popen(  # noqa: S603 - running what the caller says is the purpose
        argv,
        executable=program,
        env=env,
        stdin=stdio[0],
        stdout=stdio[1],
        stderr=stdio[2],
        start_new_session=True,
        preexec_fn=in_child,  # noqa: PLW1509 - a keeper has one thread; the fallback is documented as the lesser way
    )
    process.returncode = 0  # the tree reaps it; Popen must neither wait for it nor warn about it
    return process.pid


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")
