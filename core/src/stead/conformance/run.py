"""Running the suite on a target without a test file: `run_laws`, behind `stead conformance`."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stead.conformance import plugin
from stead.conformance.law import Law, catalogue_order
from stead.conformance.report import ConformanceReport
from stead.conformance.target import Target
from stead.errors import ConfigError, SteadError

__all__ = ["Progress", "run_laws"]

Progress = Callable[[str, str, str], None]
"""Called with a law's id, its outcome and its reason."""

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
        SteadError: The target cannot be listed, or pytest itself failed.
        KeyboardInterrupt: The user interrupted the run.
    """
    run = _Run(target, target.describe(), dict(waivers or {}), frozenset(only))
    run.open_once()
    before = None if target.fresh else asyncio.run(target.names())
    here = Path(__file__).parent
    arguments = [str(here / "test_target.py"), "--stead-env", target.name, "--rootdir", str(here), "-c", os.devnull]
    arguments += ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", "stead.conformance.plugin"]
    run.progress = progress
    with _variables(_ALONE):
        code = pytest.main(arguments, plugins=[run])
    if before is not None:
        with suppress(SteadError):
            asyncio.run(target.clean(before))
    if run.refused is not None:
        raise run.refused
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if run.recorder is None or code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
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
