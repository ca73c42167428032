"""Trying a law in a child process, and bringing its outcome back."""

import os
import pickle
import sys
import warnings
from collections.abc import Callable

__all__ = ["in_child"]


def in_child(attempt: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Runs a function in a forked child of this process.

    Args:
        attempt: Returns two texts, and handles its own errors.

    Returns:
        What it returned; `("failed", ...)` if the child ended without an answer.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # From 3.12 on a fork beside other threads warns; the child runs one law on a loop of its own and ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as answer:
                answer.write(pickle.dumps(attempt()))
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(pid, 0)
    if not data:
        return "failed", f"the child process of the law ended with status {status}"
    outcome: tuple[str, str] = pickle.loads(data)  # noqa: S301  # written by our own child
    return outcome
