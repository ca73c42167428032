"""Every error that stead raises.

    SteadError (Exception)
    ├── FileMissing (FileNotFoundError)        nothing is at that path
    ├── IsADirectory (IsADirectoryError)       a directory where a file is needed
    ├── NotADirectory (NotADirectoryError)     a file where a directory is needed
    ├── AccessDenied (PermissionError)         the system or the service refused: permissions or credentials
    ├── FileExists (FileExistsError)           something is at that path already (`if_absent`)
    ├── FileChanged                            the file is not the version that was asked for, or changed while read
    ├── PathOutsideRoot (ValueError)           the path leads out of the environment's root
    ├── InvalidPath (ValueError)               no file can have that path: empty, NUL, too long, a link loop
    ├── Unsupported (NotImplementedError)      the environment does not declare that capability
    ├── EnvironmentClosed                      used after `close()`
    ├── EnvironmentLost                        the sandbox behind it expired or was destroyed
    ├── Unavailable                            no answer from the service; `retryable`
    ├── StreamInterrupted                      a body ended before its announced length
    ├── ConfigError (ValueError)               an option or a configuration file is wrong
    ├── BackendNotFound                        no installed distribution offers that backend
    └── PluginError                            an installed plugin cannot be used

A leaf adds the builtin that fits, so `except FileNotFoundError` works too. The root derives from `Exception` alone:
an unrelated `except ValueError` never eats one of ours by accident. A command that exits with an error is a result,
not an error.
"""

import errno as _errno

__all__ = [
    "AccessDenied",
    "BackendNotFound",
    "ConfigError",
    "EnvironmentClosed",
    "EnvironmentLost",
    "FileChanged",
    "FileExists",
    "FileMissing",
    "InvalidPath",
    "IsADirectory",
    "NotADirectory",
    "PathOutsideRoot",
    "PluginError",
    "SteadError",
    "StreamInterrupted",
    "Unavailable",
    "Unsupported",
]


class SteadError(Exception):
    """The root of all errors of stead.

    Attributes:
        message: What happened and what to do about it. Names the path, never a secret or file content.
        backend: Name of the backend that raised it, such as `"local"`, or None.
        operation: The contract method that failed, such as `"read_file"`, or None.
        path: The path as the caller gave it, or None.
        retryable: True if the same call may succeed later with nothing changed by the caller.
    """

    retryable: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        backend: str | None = None,
        operation: str | None = None,
        path: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.backend = backend
        self.operation = operation
        self.path = path
        if retryable is not None:
            self.retryable = retryable


# The OSError classes leave errno None unless built from (errno, text): a class attribute gives callers the number.
class FileMissing(SteadError, FileNotFoundError):
    """Nothing is at that path."""

    errno = _errno.ENOENT


class IsADirectory(SteadError, IsADirectoryError):
    """A directory stands where a file is needed."""

    errno = _errno.EISDIR


class NotADirectory(SteadError, NotADirectoryError):
    """A file stands where a directory is needed."""

    errno = _errno.ENOTDIR


class AccessDenied(SteadError, PermissionError):
    """The system or the service refused: file permissions or credentials."""

    errno = _errno.EACCES


class FileExists(SteadError, FileExistsError):
    """Something is at that path already, and the caller asked for a new file."""

    errno = _errno.EEXIST


class FileChanged(SteadError):
    """The file is not the version that was asked for, or it changed while it was read."""


class PathOutsideRoot(SteadError, ValueError):
    """The path leads out of the environment's root."""


class InvalidPath(SteadError, ValueError):
    """No file can have that path: it is empty, holds NUL, is too long, or loops through links."""


class Unsupported(SteadError, NotImplementedError):
    """The environment does not declare that capability."""


class EnvironmentClosed(SteadError):
    """The environment was used after `close()`."""


class EnvironmentLost(SteadError):
    """The sandbox or process behind the environment expired or was destroyed; what it held is gone."""


class Unavailable(SteadError):
    """The service gave no answer, or asked to come back later."""

    retryable = True


class StreamInterrupted(SteadError):
    """A body ended before its announced length; what was read is not the whole file."""


class ConfigError(SteadError, ValueError):
    """An option or a configuration file is wrong."""


class BackendNotFound(SteadError):
    """No installed distribution offers that backend; the message holds the pip line that installs it."""


class PluginError(SteadError):
    """An installed plugin cannot be used: it fails to import, answers wrongly, or speaks another contract version."""
