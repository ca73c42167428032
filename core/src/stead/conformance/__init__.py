"""The conformance suite: any backend, anyone's, proved or caught.

A third party writes:

    class TestMine(EnvironmentLaws):
        @pytest.fixture
        def environment(self, tmp_path):
            return MyEnvironment(tmp_path)

Importing this package loads neither pytest nor hypothesis: the laws are loaded when `EnvironmentLaws` is first touched.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead.conformance.doors import DirectoryDoor, Fault, Raw
    from stead.conformance.environment_laws import EnvironmentLaws
    from stead.conformance.law import Law

__all__ = ["SUITE", "DirectoryDoor", "EnvironmentLaws", "Fault", "Law", "Raw"]

SUITE = "1.0"
"""Version of the laws. The minor grows when laws are added, the major when one is changed or removed."""

_LATE = {
    "DirectoryDoor": "stead.conformance.doors",
    "EnvironmentLaws": "stead.conformance.environment_laws",
    "Fault": "stead.conformance.doors",
    "Law": "stead.conformance.law",
    "Raw": "stead.conformance.doors",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'stead.conformance' has no attribute {name!r}")
    from importlib import import_module

    if name == "EnvironmentLaws":
        from stead.conformance.plugin import rewrite_asserts

        rewrite_asserts()
    return getattr(import_module(_LATE[name]), name)
