"""What a law is, and the decorator that makes a coroutine into one.

A law is written as an `async def` and collected by pytest as a plain function: the kit runs it on its own event loop,
so it means the same under every asyncio plugin and under none.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from stead.capabilities import Capabilities

__all__ = [
    "FIXTURES",
    "LAW_MARK",
    "OPERATIONS",
    "Law",
    "Locked",
    "Refusal",
    "catalogue_order",
    "law",
    "laws_of",
    "refuse",
]

OPERATIONS = frozenset(
    {"execute", "execute_stream", "stat", "list_files", "delete_file", "create_only", "conditional_write"}
)
"""Capabilities that are operations: without them the call raises `Unsupported`. All others are qualities."""

FIXTURES = {"raw": "raw", "faulty": "faulty", "second": "second_environment", "sandboxes": "sandboxes"}
"""Parameters of a law that come from an optional fixture, and the fixture's name."""

LAW_MARK = "__stead_law__"
"""Attribute of a test function that is a law."""

_PREFIX = "test_"


class Locked(Exception):
    """A law cannot be tried here; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One conformance case."""

    id: str
    """Readable and stable, such as `write-atomic`: used in waivers, reports and docs."""
    number: str
    """Its place in the catalogue, such as `B25`: a group letter and a number. Several laws may share one."""
    group: str
    """The verb it is about: the first word of the name of the module that holds it."""
    text: str
    """The law in one sentence."""
    needs: tuple[str, ...] = ()
    """Capabilities that must be declared for it to be tried."""
    wants: tuple[str, ...] = ()
    """Optional fixtures that unlock it."""
    measured: bool = False
    """Whether it measures memory."""
    permissions: bool = False
    """Whether it asks that the system refuse something, as it refuses root nothing."""
    imports: str | None = None
    """A module that is imported before its time begins."""
    started: bool = True
    """Whether the environment is started before the law looks at it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a law is not tried: `unsupported`, `unclaimed` or `locked`."""

    outcome: str
    reason: str


def law(
    number: str,
    *,
    needs: str | Iterable[str] = (),
    started: bool = True,
    permissions: bool = False,
    imports: str | None = None,
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Makes a coroutine method into a law that any pytest can run.

    The coroutine's parameters are `env` (the environment), `here` (a folder of its own), `kit`, `peak`, and the
    optional fixtures of `FIXTURES`.

    Args:
        number: Its place in the catalogue.
        needs: Capabilities without which it is not tried.
        started: False hands the law an environment that is not started.
        permissions: True tries it in a process that permission bits bind, also where the run is root's.
        imports: A module that takes long to import, and that may be missing.
    """
    needed = (needs,) if isinstance(needs, str) else tuple(needs)

    def decorate(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        wanted = tuple(inspect.signature(function).parameters)[1:]
        spec = Law(
            id=function.__name__.removeprefix(_PREFIX).replace("_", "-"),
            number=number,
            group=function.__module__.rpartition(".")[2].partition("_")[0],
            text=_first_sentence(function),
            needs=needed,
            wants=tuple(FIXTURES[name] for name in wanted if name in FIXTURES),
            measured="peak" in wanted,
            permissions=permissions,
            imports=imports,
            started=started,
        )

        def run(self: Any, stead_kit: Any, environment: Any, **extra: Any) -> None:
            stead_kit.hold(spec, lambda values: function(self, **{n: values[n] for n in wanted}), environment, extra)

        run.__name__, run.__qualname__ = function.__name__, function.__qualname__
        run.__doc__, run.__module__ = function.__doc__, function.__module__
        names = ("self", "stead_kit", "environment", *spec.wants)
        # pytest reads the fixtures from here. No __wrapped__: asyncio plugins would find the coroutine behind it.
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        )
        setattr(run, LAW_MARK, spec)
        return run

    return decorate


def laws_of(cls: type) -> dict[str, Law]:
    """Returns the laws that a class has, by the name of their test function, in the order of their catalogue."""
    members = ((name, getattr(getattr(cls, name, None), LAW_MARK, None)) for name in dir(cls))
    found = {name: spec for name, spec in members if isinstance(spec, Law)}
    return dict(sorted(found.items(), key=lambda item: catalogue_order(item[1])))


def catalogue_order(spec: Law) -> tuple[str, int, str]:
    """Sorts laws as the catalogue numbers them."""
    return spec.number[0], int(spec.number[1:]), spec.id


def refuse(spec: Law, capabilities: Capabilities, fixtures: dict[str, Any]) -> Refusal | None:
    """Returns why a law is not tried on an environment with these capabilities and fixtures, or None.

    That an undeclared operation truly refuses is a law of its own for each operation.
    """
    absent = [name for name in spec.needs if not getattr(capabilities, name)]
    if FIXTURES["sandboxes"] in spec.wants and capabilities.isolation == "none":
        return Refusal("unclaimed", "isolation is none: there is no sandbox")
    operations = [name for name in absent if name in OPERATIONS]
    if operations:
        return Refusal("unsupported", f"{', '.join(operations)} not declared")
    if absent:
        return Refusal("unclaimed", f"{', '.join(absent)} not declared")
    missing = [name for name in spec.wants if fixtures.get(name) is None]
    if missing:
        return Refusal("locked", f"needs the fixture {', '.join(missing)}")
    return None


def _first_sentence(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function)
    if not text:
        raise TypeError(f"{function.__qualname__} needs a docstring that states the law")
    return " ".join(text.split("\n\n")[0].split())
