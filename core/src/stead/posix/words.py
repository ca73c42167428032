"""A command as words of argv, and words as text that a shell reads back."""

from collections.abc import Mapping, Sequence

from stead.command_input import command_words

__all__ = ["LARGEST_NUMBER", "machine_words", "quoted"]

LARGEST_NUMBER = 1 << 62
"""What larger numbers are sent as: a shell counts in 64 bits, with a sign, and adds to them."""

_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument, less its NUL: Linux refuses more (MAX_ARG_STRLEN), whatever the total."""


_DASHED = (
    'found=$(command -v -- "$1") || { echo "$1: not found" >&2; exit 127; }; shift; '
    'case $found in -*) found=./$found ;; esac; exec "$found" "$@"'
)
"""Runs a program whose name begins with a dash: `exec` and `env` would take that for an option or a variable."""


def machine_words(command: str | Sequence[str], shell: str, variables: Mapping[str, str]) -> list[str]:
    """Turns a command into the words that the machine runs.

    Args:
        command: Text for the shell, or argv.
        shell: The shell's path on the machine.
        variables: What to add to its environment.

    Raises:
        TypeError: The command is neither `str` nor a sequence of `str`.
        ValueError: It is empty, holds NUL, or an argument or variable is longer than Linux allows.
    """
    words = command_words(command, shell)
    if isinstance(command, str):
        pass
    elif words[0].startswith("-"):
        words = ["/bin/sh", "-c", _DASHED, "sh", *words]
    else:
        # A shell in between tells a missing program by 127 and a word on stderr, one that may not run by 126.
        words = ["/bin/sh", "-c", 'exec "$0" "$@"', *words]
    if variables:
        words = ["env", "--", *(f"{name}={value}" for name, value in variables.items()), *words]
    for word in words:
        if len(word.encode()) > _LONGEST_ARGUMENT:
            raise ValueError(
                "an argument or variable is longer than the 128 KiB that Linux allows; use stdin or a file"
            )
    return words


def quoted(words: Sequence[str]) -> str:
    """Writes words so that a shell reads exactly them again, whatever they hold."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
