"""Running the suite on a target without a test file: `run_laws`, behind `stead conformance`."""

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

import pytest

from stead.conformance import plugin
from stead.conformance.law import Law, catalogue_order
from stead.conformance.limits import close_runner, run_limited
from stead.conformance.report import ConformanceReport
from stead.conformance.target import Target
from stead.errors import ConfigError, SteadError

__all__ = ["Progress", "run_laws"]

T = TypeVar("T")

Progress = Callable[[str, str, str], None]
"""Called with a law's id, its outcome and its reason."""

_CLEANING_SECONDS = 60.0
_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": None, "PYTEST_PLUGINS": None}


def run_laws(
    target: Target,
    *,
    waivers: Mapping[str, str] | None = None,
    only: Iterable[str] = (),
    progress: Progress | None = None,
) -> ConformanceReport:
    """Tries the laws on an environment, in this process, and removes what they left behind.

    It runs pytest with no configuration file and no other plugin, so nothing around it changes the result.

    Args:
        target: What to try.
        waivers: Law id -> reason; strict.
        only: Ids of the laws to try; empty is all.
        progress: Told about each law as soon as it was tried.

    Returns:
        How every law went.

    Raises:
        ConfigError: The target, an option, a waiver or an id in `only` means nothing.
        BackendNotFound: The backend is not installed.
        PluginError: The backend cannot be used.
        SteadError: Pytest itself failed.
        KeyboardInterrupt: The user interrupted the run.
    """
    run = _Run(target, target.describe(), dict(waivers or {}), frozenset(only))
    run.open_once()
    before = None if target.fresh else _asked(target.names)
    here = Path(__file__).parent
    arguments = [str(here / "test_target.py"), "--stead-env", target.name, "--rootdir", str(here), "-c", os.devnull]
    arguments += ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", "stead.conformance.plugin"]
    run.progress = progress
    with _variables(_ALONE), _signals(run):
        code = pytest.main(arguments, plugins=[run])
    if before is not None:
        _asked(lambda: target.clean(before))
    if run.refused is not None:
        raise run.refused
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    # Code 5, no tests, is also a run in which no law held.
    if run.recorder is None or code not in (0, 1, 5) or not run.recorder.reports():
        raise SteadError(f"the suite could not run: pytest ended with {code}. {run.problem}")
    return run.recorder.reports()[0]


class _Run:
    """A pytest plugin that hands the run its target, and takes its recorder."""

    def __init__(self, target: Target, title: str, waivers: dict[str, str], only: frozenset[str]) -> None:
        self.target, self.title, self.waivers, self.only = target, title, waivers, only
        self.progress: Progress | None = None
        self.recorder: plugin.Recorder | None = None
        self.refused: ConfigError | None = None
        self.problem = ""
        self.signal: int | None = None
        """TERM or HUP, once it came."""

    def open_once(self) -> None:
        """Refuses options that mean nothing before anything runs."""
        with tempfile.TemporaryDirectory(prefix="stead-conformance-") as folder:
            self.target.open(folder)

    def pytest_collection(self, session: pytest.Session) -> None:
        # Not before: pytest explains only asserts of modules that are imported while it runs.
        from stead.conformance.environment_laws import LAWS
        from stead.conformance.test_target import aim

        unknown = sorted((self.only | set(self.waivers)) - {spec.id for spec in LAWS.values()})
        if unknown:
            self.refused = ConfigError(f"there is no law {', '.join(unknown)}; `stead conformance --list` shows all")
            pytest.exit(self.refused.message, returncode=pytest.ExitCode.USAGE_ERROR)
        self.recorder = plugin.recorder_of(session.config)
        self.recorder.progress, self.recorder.title = self.progress, self.title
        aim(self.target, self.waivers)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        laws: dict[pytest.Item, Law] = {
            item: item.function.__stead_law__ for item in items if isinstance(item, pytest.Function)
        }
        chosen = [item for item in items if item in laws and (not self.only or laws[item].id in self.only)]
        items[:] = sorted(chosen, key=lambda item: catalogue_order(laws[item]))

    def pytest_runtest_logfinish(self) -> None:
        if self.signal is not None:  # an environment that swallows every exception swallowed this too
            raise KeyboardInterrupt

    def pytest_configure(self, config: pytest.Config) -> None:
        # Nobody reads the tracebacks of this run, and drawing one out of foreign code can itself fail.
        config.option.tbstyle = "native"

    def pytest_internalerror(self, excrepr: object) -> bool:
        self.problem = str(excrepr).rstrip().rpartition("\n")[2]
        return True  # told by the error of `run_laws`


@contextmanager
def _variables(values: Mapping[str, str | None]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        yield


@contextmanager
def _signals(run: _Run) -> Iterator[None]:
    """Lets TERM and HUP end the run where the caller handles them: pytest takes a SystemExit for a failed test."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        run.signal = number
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers = {number: found for number in numbers if callable(found := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if run.signal is not None:
        handlers[run.signal](run.signal, None)


def _asked(question: Callable[[], Awaitable[T]]) -> T | None:
    """Returns what a target answers, None if it fails or hangs: how it fails is for the laws to say."""
    runner = asyncio.Runner()
    try:
        return run_limited(runner, _CLEANING_SECONDS, question)
    except Exception:  # noqa: BLE001  # a broken environment raises anything
        return None
    finally:
        close_runner(runner)
