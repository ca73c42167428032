"""The command line: `stead COMMAND`. One file a command; `main` is the entry point.

Exit codes: 0 done, 1 an operation failed, 2 wrong usage or configuration, 130 Ctrl-C, 143 TERM; `stead exec` passes its
command's code on.
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits.

    Args:
        arguments: Without the program's name; None is those of this process.

    Raises:
        SystemExit: Always.
    """
    try:
        import rich  # noqa: F401 - looked for here, used where something is drawn
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        print(f"stead: the command line needs {error.name}: pip install 'stead[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    from stead.cli.app import app

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name must not end the list that it is in
    app(args=arguments, prog_name="stead")
