"""What a constructor does behind one's back: I/O events that Python's audit hooks report."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType

from stead.environment import Environment

__all__ = ["Audit", "auditing", "construction_io"]

_EVENTS = frozenset(
    {"open", "os.mkdir", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.posix_spawn", "os.system", "os.exec"}
    | {"subprocess.Popen", "socket.connect", "socket.getaddrinfo", "socket.bind", "shutil.rmtree", "sqlite3.connect"}
)


@dataclass(slots=True)
class Audit:
    """Events of one recording, each with the code that was running."""

    events: list[tuple[str, frozenset[CodeType]]] = field(default_factory=list)


_recording: list[Audit] = []
_installed: list[bool] = []


@contextmanager
def auditing() -> Iterator[Audit]:
    """Records I/O events while the block runs. A hook can never be removed, so there is one, and it sleeps."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)
    audit = Audit()
    _recording.append(audit)
    try:
        yield audit
    finally:
        _recording.remove(audit)


def construction_io(audit: Audit | None, env: Environment) -> list[str]:
    """Returns the events that happened inside a constructor of the environment's class, imports apart."""
    constructors = {
        code
        for cls in type(env).__mro__
        for name in ("__init__", "__new__")
        if isinstance(code := getattr(vars(cls).get(name), "__code__", None), CodeType)
    }
    return [event for event, stack in (audit.events if audit else ()) if stack & constructors]


def _hook(event: str, _arguments: tuple[object, ...]) -> None:
    if not _recording or event not in _EVENTS:
        return
    codes, frame = set(), _caller()
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return
        codes.add(frame.f_code)
        frame = frame.f_back
    for audit in _recording:
        audit.events.append((event, frozenset(codes)))


def _caller() -> FrameType | None:
    return sys._getframe(2)  # noqa: SLF001  # the documented way to the running stack
