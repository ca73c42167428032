"""The test class that an environment's own tests derive from."""

from collections.abc import Iterator
from typing import Any

import pytest

from stead.conformance.audit import auditing
from stead.conformance.kit import Kit
from stead.conformance.law import LAW_MARK, laws_of
from stead.conformance.laws.execute import ExecuteLaws
from stead.conformance.laws.execute_end import EndLaws
from stead.conformance.laws.execute_output import OutputLaws
from stead.conformance.laws.execute_stream import ExecuteStreamLaws
from stead.conformance.laws.life import LifeLaws
from stead.conformance.laws.lines import LineLaws
from stead.conformance.laws.listing import ListingLaws
from stead.conformance.laws.meta import MetaLaws
from stead.conformance.laws.object_store import ObjectStoreLaws
from stead.conformance.laws.paths import PathLaws
from stead.conformance.laws.read import ReadLaws
from stead.conformance.laws.reducer import ReducerLaws
from stead.conformance.laws.sandbox import SandboxLaws
from stead.conformance.laws.stream import StreamLaws
from stead.conformance.laws.stream_pinned import PinnedLaws
from stead.conformance.laws.write import WriteLaws
from stead.conformance.laws.write_replace import ReplaceLaws
from stead.conformance.settings import LawSettings

__all__ = ["LAWS", "EnvironmentLaws"]


class EnvironmentLaws(
    LifeLaws,
    WriteLaws,
    ReplaceLaws,
    ReadLaws,
    StreamLaws,
    PinnedLaws,
    LineLaws,
    PathLaws,
    ExecuteLaws,
    OutputLaws,
    EndLaws,
    ExecuteStreamLaws,
    ListingLaws,
    ObjectStoreLaws,
    ReducerLaws,
    SandboxLaws,
    MetaLaws,
    LawSettings,
):
    """All laws of the contract. Derive from it, and give the fixture `environment`.

    The fixture returns an environment that is not started, fresh for each law; it may be async. The kit starts it, runs
    each law on its own event loop, and closes it. What the environment does not declare is not asked of it. A law that
    it cannot hold is waived by its id, with the reason, in `waivers`; overriding a law is an error.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_untouched(cls)

    @pytest.fixture
    def stead_kit(self, request: pytest.FixtureRequest) -> Iterator[Kit]:
        """The kit of one law."""
        check_untouched(type(self))

        def report(name: str, value: str) -> None:
            request.node.user_properties.append((name, value))

        with Kit(self, report) as kit, auditing() as kit.audited:
            yield kit

    @pytest.fixture
    def environment(self) -> Any:
        """The environment under test, not started."""
        pytest.fail(f"{type(self).__name__} must define the fixture `environment`", pytrace=False)

    @pytest.fixture
    def second_environment(self) -> Any:
        """Another instance that sees the same files, or None."""
        return None

    @pytest.fixture
    def raw(self) -> Any:
        """A back door to the files, a `stead.conformance.Raw`, or None."""
        return None

    @pytest.fixture
    def faulty(self) -> Any:
        """A function from a `stead.conformance.Fault` to an environment that suffers it or None; or None."""
        return None

    @pytest.fixture
    def sandboxes(self) -> Any:
        """A `stead.conformance.doors.SandboxDoor`, or None."""
        return None


LAWS = laws_of(EnvironmentLaws)
"""Every law of the suite, by the name of its test function."""


def check_untouched(cls: type[LawSettings]) -> None:
    """Refuses a class in which a law was overridden or deleted, or whose waivers name no law.

    Raises:
        TypeError: It was.
    """
    touched = [spec.id for name, spec in LAWS.items() if getattr(getattr(cls, name, None), LAW_MARK, None) is not spec]
    if touched:
        raise TypeError(f"{cls.__name__} overrides or deletes the laws {', '.join(touched)}; use `waivers` instead")
    unknown = sorted(set(cls.waivers) - {spec.id for spec in LAWS.values()})
    if unknown:
        raise TypeError(f"{cls.__name__} waives {', '.join(unknown)}, which is no law")
