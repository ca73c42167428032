"""What a caller may ask of `execute`, checked before anything is started. For authors of environments.

The checks take `object`: they are there for callers whose types nobody checks.
"""

import math
from collections.abc import Mapping, Sequence

__all__ = ["check_variables", "command_words", "output_limit", "stdin_bytes", "timeout_seconds"]

_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument, less its NUL: Linux refuses more (MAX_ARG_STRLEN), whatever the total."""
_PIECE = 30_000
"""Characters of one piece of a longer script."""
_BYTES: tuple[type, ...] = (bytes, bytearray, memoryview)


def command_words(command: object, shell: str) -> list[str]:
    """Turns a command into argv.

    Args:
        command: Text for the shell, or argv.
        shell: The shell's path.

    Returns:
        The words. Text may be longer than one argument of a program can be.

    Raises:
        TypeError: It is neither `str` nor a sequence of `str`.
        ValueError: It is empty, or holds NUL.
    """
    if isinstance(command, str):
        if not command.strip():
            raise ValueError("the command is empty")
        _refuse_nul("command", command)
        return _shell_words(command, shell)
    if not isinstance(command, Sequence) or isinstance(command, _BYTES):
        raise TypeError(f"command must be a str or a sequence of str, not {type(command).__name__}")
    words = []
    for word in command:
        if not isinstance(word, str):
            raise TypeError(f"each argument must be a str, not {word!r}")
        _refuse_nul("argument", word)
        words.append(word)
    if not words or not words[0]:
        raise ValueError("the command is empty: argv needs the name of a program")
    return words


def _shell_words(text: str, shell: str) -> list[str]:
    if len(text.encode(errors="replace")) <= _LONGEST_ARGUMENT:
        return [shell, "-c", text]
    # One argument cannot be that long, several can: the shell joins them again.
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    joined = "".join(f"${{{number}}}" for number in range(1, len(pieces) + 1))
    return [shell, "-c", f'eval "shift $#;{joined}"', shell, *pieces]


def check_variables(env: object) -> dict[str, str]:
    """Copies the caller's variables; None is none.

    Raises:
        TypeError: It is no mapping of `str` to `str`.
        ValueError: A name is empty or holds `=`, or something holds NUL.
    """
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise TypeError(f"env must be a mapping, not {type(env).__name__}")
    checked = {}
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            # The value may be a secret: it is not repeated.
            raise TypeError(f"env must map str to str; the entry {name!r} does not")
        if not name or "=" in name:
            raise ValueError(f"{name!r} cannot be the name of a variable")
        _refuse_nul("variable name", name)
        if "\0" in value:
            raise ValueError(f"the value of {name} holds NUL")
        checked[name] = value
    return checked


def stdin_bytes(stdin: object) -> bytes:
    """Encodes what the command can read; None is nothing.

    Raises:
        TypeError: It is neither text nor bytes.
        UnicodeEncodeError: It holds a lone surrogate.
    """
    if stdin is None:
        return b""
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


def _refuse_nul(what: str, text: str) -> None:
    if "\0" in text:
        raise ValueError(f"the {what} {text[:40]!r} holds NUL")
