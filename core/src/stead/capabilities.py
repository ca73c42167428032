"""What one environment can do, as plain data."""

from dataclasses import dataclass, fields
from typing import Literal

__all__ = ["OBJECT_STORE", "POSIX", "Capabilities", "Isolation"]

Isolation = Literal["none", "container", "vm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Declared facts of one environment instance, readable before it is started and without credentials.

    Two kinds. An *operation* that is not declared raises `Unsupported` when called. A *quality* that is declared must
    hold (the conformance suite checks it); one that is not declared is simply not claimed. A capability that is a
    method has the method's name.
    """

    execute: bool = False
    """Operation: commands can run."""
    execute_stream: bool = False
    """Operation: the output of a command arrives while it runs."""
    stat: bool = False
    """Operation: size, time and version of one path."""
    list_files: bool = False
    """Operation: directories can be listed."""
    delete_file: bool = False
    """Operation: a file can be removed."""
    create_only: bool = False
    """Operation: `write_file(..., if_absent=True)` never replaces an existing file."""
    conditional_write: bool = False
    """Operation: `write_file(..., if_version=v)` replaces only that version."""
    streaming_read: bool = False
    """Quality: `read_file_stream` yields chunks before the file was read whole, in bounded memory."""
    pinned_read: bool = False
    """Quality: one stream is one version of the file, or it raises `FileChanged`."""
    range_read: bool = False
    """Quality: reading `length` bytes at `offset` costs O(length), wherever they are."""
    lines_at_source: bool = False
    """Quality: `read_lines` runs where the file is; only the page travels."""
    streaming_write: bool = False
    """Quality: an async iterator is written in bounded memory."""
    atomic_write: bool = False
    """Quality: a reader sees the old or the new content in full, never a mix."""
    symlinks: bool = False
    """Quality: symbolic links exist and are followed inside the root."""
    modes: bool = False
    """Quality: permission bits exist and are kept when a file is replaced."""
    case_sensitive: bool = True
    """Quality: `a` and `A` are two files."""
    isolation: Isolation = "none"
    """What confines a command: `"none"`, `"container"` or `"vm"`. Only file methods are confined to the root."""

    def declared(self) -> tuple[str, ...]:
        """Returns the names of all capabilities that are declared, in the order of this class."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is True)


# Here, and not beside the environments, so that a plugin can say what it offers without importing them.
POSIX = Capabilities(
    execute=True,
    execute_stream=True,
    stat=True,
    list_files=True,
    delete_file=True,
    create_only=True,
    conditional_write=True,
    streaming_read=True,
    pinned_read=True,
    range_read=True,
    lines_at_source=True,
    streaming_write=True,
    atomic_write=True,
    symlinks=True,
    modes=True,
)
"""What this project's environments on a POSIX machine can do: the local one and those of `stead.posix`."""

OBJECT_STORE = Capabilities(
    stat=True,
    list_files=True,
    delete_file=True,
    create_only=True,
    conditional_write=True,
    streaming_read=True,
    pinned_read=True,
    range_read=True,
    streaming_write=True,
    atomic_write=True,
)
"""What this project's environments over an object store can do."""
