"""Backends: found by entry point, loaded by name when asked for.

Listing imports each backend's plugin module, and that imports no SDK. One scan of the installed distributions serves
the whole process (20 to 60 ms); only a name that is not found is looked for again, since a notebook may have installed
it meanwhile.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from traceback import format_exception
from typing import Any

import pluggy

from stead import hookspecs
from stead.adapt import adapt
from stead.config.composing import Part, with_parts
from stead.config.names import hint
from stead.config.options import Layer, OptionTable, keyword_layer, variable_layer
from stead.config.secrets import scrubbed
from stead.config.values import arguments
from stead.environment import CONTRACT, Environment
from stead.errors import BackendNotFound, ConfigError, PluginError, SteadError
from stead.hookspecs import PROJECT, BackendSpec
from stead.observers import notify

__all__ = [
    "GROUP",
    "InstalledBackend",
    "backend_names",
    "create_environment",
    "is_import_string",
    "list_backends",
    "load_backend",
    "open_backend",
    "option_table",
    "pip_line",
]

GROUP = "stead.backends"
OURS = ("local", "s3", "gcs", "e2b", "daytona", "fsspec")
"""Backends of this project, offered as the nearest name although they may not be installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBackend:
    """One entry point of the group `stead.backends`, usable or not."""

    name: str
    distribution: str
    version: str
    module: str
    """The plugin module, as an import path."""
    path: str | None
    """Its file; None if it cannot be found."""
    spec: BackendSpec | None
    error: str | None
    """Why it cannot be used; None if `spec` is there."""


def create_environment(name: str, /, **options: object) -> Environment:
    """Makes an environment by name. Nothing is contacted: it starts with `async with`, or on first use.

    An option that is not given is taken from the variable `STEAD_<NAME>__<OPTION>`, else from the backend's own usual
    places, such as its SDK's.

    Args:
        name: A backend's name, or `"package.module:Class"`.
        **options: The options of that backend. A secret may also be named: `{"env": "X"}` or `{"file": "path"}`.

    Raises:
        BackendNotFound: Nothing that is installed offers the backend; the message has the pip line.
        PluginError: It is installed but cannot be used, or two distributions offer it.
        ConfigError: An option is unknown, missing or wrong, or the backend's class raised an error. The message never
            holds a secret.
    """
    layers = [keyword_layer(name, options)]
    if not is_import_string(name):
        layers.append(variable_layer(name, tuple(option_table(name).options)))
    return open_backend(name, layers)


def list_backends() -> tuple[InstalledBackend, ...]:
    """Lists the installed backends, sorted by name. A broken plugin is an entry with its error."""
    return tuple(_describe(point) for point in sorted(_points(), key=lambda p: (p.name, _distribution(p))))


def backend_names() -> tuple[str, ...]:
    """Lists the names of the installed backends without importing anything."""
    return tuple(sorted({point.name for point in _points()}))


def load_backend(name: str) -> BackendSpec:
    """Finds a backend by name and asks its plugin what it is.

    Raises:
        BackendNotFound: No installed distribution offers it.
        PluginError: Its plugin is broken or for another contract, or two distributions offer that name.
    """
    points = [point for point in _points() if point.name == name]
    if not points:
        _points.cache_clear()
        points = [point for point in _points() if point.name == name]
    if not points:
        raise _not_found(name)
    if len(points) > 1:
        both = " and ".join(_distribution(point) for point in points)
        raise PluginError(f"the backend {name!r} is offered by {both}; uninstall one of them", backend=name)
    return _load(points[0])


def pip_line(name: str) -> str | None:
    """Says how a backend of that name would be installed; None if no distribution can be called so."""
    # It goes on a command line, so nothing but what a distribution's name is made of.
    return f"pip install stead-{name}" if re.fullmatch(r"[A-Za-z0-9._-]*[A-Za-z0-9]", name) else None


def is_import_string(name: str) -> bool:
    """Returns True for `package.module:Class`."""
    return ":" in name


def option_table(backend: str) -> OptionTable:
    """Finds the options of a backend, without importing its SDK if its plugin names a model of them.

    Args:
        backend: Its name, or `"package.module:Class"`.

    Raises:
        BackendNotFound: As `load_backend`.
        PluginError: As `load_backend`, or the model cannot be imported.
        ConfigError: The import string names nothing that can be called.
    """
    if is_import_string(backend):
        return OptionTable.of_signature(_import_class(backend))
    spec = load_backend(backend)
    if spec.options is None:
        return OptionTable.of_signature(_import_part(spec, spec.factory))
    return OptionTable.of_model(_import_part(spec, spec.options))


def open_backend(
    backend: str, layers: Sequence[Layer], *, called: str | None = None, part: Part | None = None
) -> Environment:
    """Makes an environment from options of several places.

    Args:
        backend: Its name, or `"package.module:Class"`.
        layers: Where the options came from; an earlier layer wins.
        called: What messages call it; None is the backend's name.
        part: Makes the environments that it is made of; None takes their names as `create_environment` does.

    Raises:
        BackendNotFound: As `create_environment`.
        PluginError: As `create_environment`.
        ConfigError: As `create_environment`.
    """
    called = called or repr(backend)
    table = option_table(backend)
    given = arguments(called, table, layers)
    factory = _factory(backend)
    values = with_parts(table, given.values, part or (lambda _, name: create_environment(name)))
    try:
        what = f"{called} refused its options"
        made = factory(**values)
        what = f"{called} makes no environment"
        environment = adapt(made)
    except SteadError as error:
        _hide(error, given.secrets)
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's class can raise anything
        reason = str(error) if isinstance(error, (TypeError, ValueError)) else _told(error)
        told = scrubbed(reason, given.secrets)
        raise ConfigError(f"{what}: {told}", backend=backend) from (None if _tells(error, given.secrets) else error)
    notify("stead_environment_created", {"environment": environment, "backend": backend})
    return environment


def _tells(error: BaseException, secrets: Sequence[str]) -> bool:
    """Returns True if the traceback of an error, or of what led to it, would show a secret."""
    told = "".join(format_exception(error))
    return scrubbed(told, secrets) != told


def _hide(error: SteadError, secrets: Sequence[str]) -> None:
    if _tells(error, secrets):
        error.message = scrubbed(error.message, secrets)
        error.args = (error.message,)
        error.__cause__ = None


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def _not_found(name: str) -> BackendNotFound:
    if name in OURS:
        return BackendNotFound(f"the backend {name!r} is not installed; {pip_line(name)}", backend=name)
    text = f"no installed backend is called {name!r}; {hint(name, {*backend_names(), *OURS})}"
    line = pip_line(name)
    return BackendNotFound(f"{text} A plugin of that name is installed by: {line}" if line else text, backend=name)


@cache
def _load(point: EntryPoint) -> BackendSpec:
    where = f"the plugin {point.value} of {_distribution(point)}"
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(point.load())
        answers = manager.hook.stead_backend()
    except (Exception, SystemExit) as error:
        raise PluginError(f"{where} is broken: {_told(error)}", backend=point.name) from error
    if len(answers) != 1 or not isinstance(answers[0], BackendSpec):
        raise PluginError(f"{where} is broken: its hook stead_backend returns no BackendSpec", backend=point.name)
    spec: BackendSpec = answers[0]
    if not _speaks_ours(spec.contract):
        raise PluginError(
            f"{where} was written for contract {spec.contract}, and this stead has contract {CONTRACT}; "
            "install versions that go together",
            backend=point.name,
        )
    if spec.name != point.name:
        raise PluginError(f"{where} is broken: it calls itself {spec.name!r}, not {point.name!r}", backend=point.name)
    return replace(spec, distribution=_distribution(point))


def _speaks_ours(contract: str) -> bool:
    theirs, ours = (re.fullmatch(r"(\d+)\.(\d+)", version) for version in (str(contract), CONTRACT))
    return bool(theirs and ours and theirs[1] == ours[1] and int(theirs[2]) <= int(ours[2]))


def _describe(point: EntryPoint) -> InstalledBackend:
    spec = error = None
    try:
        spec = load_backend(point.name)
    except SteadError as problem:
        error = problem.message
    return InstalledBackend(
        name=point.name,
        distribution=point.dist.name if point.dist else "",
        version=point.dist.version if point.dist else "",
        module=point.module,
        path=_path(point.module),
        spec=spec,
        error=error,
    )


def _path(module: str) -> str | None:
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__file__", None)
    try:
        found = find_spec(module)
    except Exception:  # noqa: BLE001 - a broken package; its error is reported beside this
        return None
    return found.origin if found else None


def _factory(backend: str) -> Callable[..., Any]:
    if is_import_string(backend):
        return _import_class(backend)
    spec = load_backend(backend)
    factory: Callable[..., Any] = _import_part(spec, spec.factory)
    return factory


def _import_part(spec: BackendSpec, path: str) -> Any:
    try:
        return _imported(path)
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"the backend {spec.name!r} of {spec.distribution} is broken: {path}: {_told(error)}", backend=spec.name
        ) from error


def _import_class(path: str) -> Callable[..., Any]:
    try:
        found = _imported(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cannot import {path!r}: {_told(error)}", backend=path) from error
    except (Exception, SystemExit) as error:
        raise PluginError(f"cannot import {path!r}: {_told(error)}", backend=path) from error
    if not callable(found):
        raise ConfigError(f"{path!r} is a {type(found).__name__}, not a class", backend=path)
    return found  # type: ignore[no-any-return]


def _imported(path: str) -> Any:
    module, _, names = path.partition(":")
    if not module or not names:
        raise ValueError("write it as package.module:Class")
    found: Any = import_module(module)
    for name in names.split("."):
        if not hasattr(found, name):
            raise AttributeError(f"{module} has no {name!r}; {hint(name, _public_names(found))}")
        found = getattr(found, name)
    return found


def _public_names(found: object) -> list[str]:
    return [name for name, value in vars(found).items() if not name.startswith("_") and isinstance(value, type)]


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
