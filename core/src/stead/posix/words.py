"""A command as words of argv, and words as text that a shell reads back."""

from collections.abc import Mapping, Sequence

from stead.command_input import command_words

__all__ = ["machine_words", "quoted"]

_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument, less its NUL: Linux refuses more (MAX_ARG_STRLEN), whatever the total."""


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
        words = ["env", "--", *words]
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
