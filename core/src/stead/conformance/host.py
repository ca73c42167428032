"""Traps in the process that runs the laws: what must not reach a command."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["host_stdin", "host_variable"]


@contextmanager
def host_variable(name: str, value: str) -> Iterator[None]:
    """Sets a variable of this process while the block runs."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def host_stdin(data: bytes) -> Iterator[Callable[[], bytes]]:
    """Puts an open pipe that holds `data` at descriptor 0 while the block runs.

    Yields:
        A function that returns what nobody has taken from it.
    """
    reader, writer = os.pipe()
    saved = os.dup(0)
    os.dup2(reader, 0)
    os.close(reader)
    os.write(writer, data)
    os.set_blocking(0, False)

    def left() -> bytes:
        try:
            return os.read(0, len(data) + 1)
        except BlockingIOError:
            return b""

    try:
        yield left
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(writer)
