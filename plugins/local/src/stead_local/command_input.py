"""What a caller may ask of `execute`, checked before anything is started.

The checks take `object`: they are there for callers whose types are not checked.
"""

import math
import os
from collections.abc import Mapping, Sequence

__all__ = ["command_argv", "command_stdin", "command_variables", "output_limit", "timeout_seconds"]

_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument, less its NUL: Linux refuses more (MAX_ARG_STRLEN), whatever the total."""
_PIECE = 120 * 1024
_BYTES: tuple[type, ...] = (bytes, bytearray, memoryview)


def command_argv(command: object, shell: str) -> list[bytes]:
    """Turns a command into argv.

    Args:
        command: Text for the shell, or argv.
        shell: The shell's path.

    Raises:
        TypeError: It is neither `str` nor a sequence of `str`.
        ValueError: It is empty, holds NUL, or a surrogate that stands for no byte.
    """
    if isinstance(command, str):
        if not command.strip():
            raise ValueError("the command is empty")
        return _shell_argv(_encoded("command", command), os.fsencode(shell))
    if not isinstance(command, Sequence) or isinstance(command, _BYTES):
        raise TypeError(f"command must be a str or a sequence of str, not {type(command).__name__}")
    for argument in command:
        if not isinstance(argument, str):
            raise TypeError(f"each argument must be a str, not {argument!r}")
    if not command or not command[0]:
        raise ValueError("the command is empty: argv needs the name of a program")
    return [_encoded("argument", argument) for argument in command]


def _shell_argv(text: bytes, shell: bytes) -> list[bytes]:
    if len(text) <= _LONGEST_ARGUMENT:
        return [shell, b"-c", text]
    # One argument cannot be that long, several can: the shell joins them again.
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    joined = "".join(f"${{{number}}}" for number in range(1, len(pieces) + 1))
    return [shell, b"-c", f'eval "shift $#;{joined}"'.encode(), shell, *pieces]


def command_variables(env: object) -> dict[bytes, bytes]:
    """Encodes the caller's variables.

    Raises:
        TypeError: It is no mapping of `str` to `str`.
        ValueError: A name is empty or holds `=`, or something holds NUL.
    """
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise TypeError(f"env must be a mapping, not {type(env).__name__}")
    encoded = {}
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            # The value may be a secret: it is not repeated.
            raise TypeError(f"env must map str to str; the entry {name!r} does not")
        if not name or "=" in name:
            raise ValueError(f"{name!r} cannot be the name of a variable")
        encoded[_encoded("variable name", name)] = _encoded(f"value of {name}", value, show=False)
    return encoded


def command_stdin(stdin: object) -> bytes | None:
    """Encodes what the command can read.

    Raises:
        TypeError: It is neither text nor bytes.
        UnicodeEncodeError: It holds a lone surrogate.
    """
    if stdin is None:
        return None
    if isinstance(stdin, str):
        return stdin.encode()
    if isinstance(stdin, bytes | bytearray | memoryview):
        return bytes(stdin)
    raise TypeError(f"stdin must be str or bytes, not {type(stdin).__name__}")


def timeout_seconds(timeout: object) -> float | None:
    """Checks a timeout; None and infinity are no limit.

    Raises:
        TypeError: It is no number.
        ValueError: It is not greater than zero.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if not timeout > 0:  # also refuses nan
        raise ValueError(f"timeout must be greater than 0, not {timeout}")
    return None if timeout == math.inf else float(min(timeout, 1e9))


def output_limit(limit: object, default: int) -> int:
    """Checks an output limit, in bytes of each stream; None is the default.

    Raises:
        TypeError: It is no int.
        ValueError: It is negative.
    """
    if limit is None:
        return default
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"output_limit must be an int or None, not {limit!r}")
    if limit < 0:
        raise ValueError(f"output_limit must not be negative, not {limit}")
    return limit


def _encoded(what: str, text: str, *, show: bool = True) -> bytes:
    if "\0" in text:
        raise ValueError(f"the {what} {text[:40]!r} holds NUL" if show else f"the {what} holds NUL")
    # As the system's own names: bytes that are no UTF-8 travel as surrogates.
    return text.encode("utf-8", "surrogateescape")
