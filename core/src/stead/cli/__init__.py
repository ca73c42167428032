"""The command line: `stead COMMAND`. One file a command; `main` is the entry point.

Exit codes: 0 done, 1 an operation failed, 2 wrong usage or configuration, 130 Ctrl-C, 143 TERM; `stead exec` passes its
command's code on.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits.

    Args:
        arguments: Without the program's name; None is those of this process.

    Raises:
        SystemExit: Always.
    """
    _open_streams()
    try:
        _run(arguments)
    except KeyboardInterrupt:  # before the commands could take it: while they are imported
        raise SystemExit(130) from None
    except OSError as error:
        _fail(error)
    except SystemExit as ended:
        try:
            sys.stdout.flush()
        except OSError as error:
            _fail(error, ended.code)
        raise


def _run(arguments: Sequence[str] | None) -> None:
    try:
        import rich  # noqa: F401 - looked for here, used where something is drawn
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        print(f"stead: the command line needs {error.name}: pip install 'stead[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    from stead.cli.app import app

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name must not end the list that it is in
    app(args=arguments, prog_name="stead")


def _open_streams() -> None:
    """Opens /dev/null for standard streams that are closed, so that no other file becomes number 0, 1 or 2."""
    while True:
        number = os.open(os.devnull, os.O_RDWR)
        if number > 2:
            os.close(number)
            break
        os.set_inheritable(number, True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good


def _fail(error: OSError, code: object = 0) -> NoReturn:
    """Ends with one line and code 1, or with the code of what has failed, and said so, before."""
    # What could not be written must not be tried once more when the interpreter ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        raise SystemExit(128 + 13) from None
    if code:
        raise SystemExit(code) from None
    with suppress(OSError):
        print(f"stead: {error}", file=sys.stderr)
    raise SystemExit(1) from None
