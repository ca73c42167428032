"""The modules `signal` and `socket` without the wrappers that turn their constants into enums.

The wrappers triple the start of a keeper and bring in a dozen other modules; the functions and the plain numbers that
keepers use are those of the C modules below them.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket

__all__ = ["signal", "socket"]
