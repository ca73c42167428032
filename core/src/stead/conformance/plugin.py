"""The pytest plugin (entry point `pytest11`): options, async fixtures of laws, and the table at the end.

It is loaded in every pytest run where stead is installed, so it imports only pytest and the standard library; the rest
is imported when a run has laws.
"""

import inspect
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stead.conformance.report import ConformanceReport

__all__ = ["Recorder", "recorder_of", "rewrite_asserts"]

_MODULE = "test_target.py"
_SILENT = "nothing says how the law went; does the class have a fixture stead_kit of its own?"


def rewrite_asserts() -> None:
    """Lets pytest explain the asserts of the laws."""
    pytest.register_assert_rewrite("stead.conformance.laws")


class Recorder:
    """Gathers how each law of a run went."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.progress: Callable[[str, str, str], None] | None = None
        """Called with a law's id, its outcome and its reason as soon as it was tried."""
        self.title: str | None = None
        """What to call the target of the command line in the report."""
        self.tried_others = False
        """Whether a test that is no law passed."""
        self.unwritten: list[str] = []
        """What went wrong with the reports' files."""
        self._laws: dict[str, dict[str, dict[str, Any]]] = {}
        self._capabilities: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes one phase of one test."""
        found = {name: str(value) for name, value in report.user_properties}
        law = found.get("stead_law")
        self.tried_others |= law is None and report.when == "call" and report.passed
        if law is None or (report.when != "call" and report.outcome == "passed"):
            return
        # A class whose fixtures have parameters is one environment for each of them.
        test, bracket, parameter = report.nodeid.partition("[")
        where = test.rpartition("::")[0] + bracket + parameter
        self._capabilities[where] = found.get("stead_capabilities", self._capabilities.get(where, ""))
        outcome = found.get("stead_outcome", "locked" if report.skipped else "failed")
        if report.failed:
            outcome = "failed"
        reason = _clean(found.get("stead_reason") or _told(report) or _SILENT) if outcome != "held" else ""
        self._laws.setdefault(where, {})[law] = {"outcome": outcome, "reason": reason, "seconds": report.duration}
        if self.progress is not None:
            self.progress(law, outcome, reason)

    def reports(self) -> "list[ConformanceReport]":
        """Returns one report for each test class."""
        if not self._laws:
            return []
        from stead.conformance.environment_laws import LAWS
        from stead.conformance.report import ConformanceReport, Verdict

        specs = {spec.id: spec for spec in LAWS.values()}
        made = []
        for where, laws in self._laws.items():
            order = [law for law in specs if law in laws]
            verdicts = (
                Verdict(law=law, number=specs[law].number, group=specs[law].group, text=specs[law].text, **laws[law])
                for law in order
            )
            names = tuple(name for name in self._capabilities[where].split(",") if name)
            name = where.rpartition("::")[2]
            title = self.title if self.title and f"{_MODULE}::" in where else name
            made.append(ConformanceReport(target=title, capabilities=names, verdicts=tuple(verdicts)))
        return made


_KEY = pytest.StashKey[Recorder]()


def recorder_of(config: pytest.Config) -> Recorder:
    """Returns the recorder of a run."""
    return config.stash[_KEY]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of `pytest --pyargs stead.conformance`."""
    group = parser.getgroup("stead", "stead conformance")
    group.addoption("--stead-env", metavar="TARGET", help="what to try: config name, backend, or module:Class")
    group.addoption("--stead-option", action="append", default=[], metavar="KEY=VALUE", help="an option of TARGET")
    group.addoption("--stead-waive", action="append", default=[], metavar="LAW=REASON", help="waive a law, strictly")
    group.addoption("--stead-report", action="append", default=[], metavar="FILE", help=".json, .xml, .md or .svg")
    group.addoption("--stead-strict", action="store_true", help="a law that stays locked fails the run")


def pytest_configure(config: pytest.Config) -> None:
    """Prepares the recorder, and refuses a run of the suite without a target."""
    rewrite_asserts()  # once more: a module that was imported before this run has not told this run
    recorder = Recorder(strict=config.getoption("stead_strict"))
    config.stash[_KEY] = recorder
    config.pluginmanager.register(recorder, "stead-recorder")
    if "stead.conformance" in config.invocation_params.args and not config.getoption("stead_env"):
        raise pytest.UsageError("say what to try: --stead-env TARGET [--stead-option KEY=VALUE ...]")


def pytest_collection(session: pytest.Session) -> None:
    """Hands the target of the command line to its laws."""
    config, name = session.config, session.config.getoption("stead_env")
    if not name or recorder_of(config).title is not None:
        return
    from stead.conformance.target import Target, parse_options, parse_waivers
    from stead.conformance.test_target import aim
    from stead.errors import SteadError

    try:
        target = Target(name, parse_options(config.getoption("stead_option")))
        recorder_of(config).title = target.describe()
        aim(target, parse_waivers(config.getoption("stead_waive")))
    except SteadError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves the module with the laws of the command line's target alone unless there is a target."""
    is_ours = collection_path.name == _MODULE and collection_path.parent == Path(__file__).parent
    return True if is_ours and not config.getoption("stead_env") else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the tests that are laws, and refuses to let one be expected to fail but by its waiver."""
    spec = getattr(getattr(item, "function", None), "__stead_law__", None)
    if spec is None:
        return
    if item.get_closest_marker("xfail") is not None:
        raise pytest.UsageError(f"{item.nodeid}: a law is not marked xfail; give its id and the reason in `waivers`")
    item.user_properties.append(("stead_law", spec.id))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Runs an async fixture of a law on the kit's event loop, where no asyncio plugin has taken it already."""
    function = fixturedef.func
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if not is_async or not hasattr(getattr(request, "function", None), "__stead_law__"):
        return (yield)
    kit = request.getfixturevalue("stead_kit")
    if (
        request.instance is not None
        and inspect.ismethod(function)
        and type(function.__self__) is type(request.instance)
    ):
        function = function.__func__.__get__(request.instance)

    def run(**arguments: Any) -> Any:
        return kit.resolve(function(**arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixturedef, "func", run)
        return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the reports; a run does not pass where no law held, nor a strict one where laws stayed locked."""
    if hasattr(session.config, "workerinput"):
        return  # a worker of pytest-xdist: its controller has all results
    recorder, paths = recorder_of(session.config), session.config.getoption("stead_report")
    reports = recorder.reports()
    if reports:
        from stead.conformance.report import exit_code
        from stead.conformance.writing import write_report

        for path in paths:
            try:
                write_report(reports, Path(path))
            except OSError as error:
                recorder.unwritten.append(f"no report: {error}")
        if session.exitstatus == pytest.ExitCode.OK:
            failed = any(exit_code(report, strict=recorder.strict) == 1 for report in reports)
            shown = recorder.tried_others or any(True for report in reports for _ in report.of("held", "waived"))
            if failed or recorder.unwritten:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            elif not shown:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints how the laws went: counts, and what failed, was waived, or stayed locked."""
    for problem in recorder_of(config).unwritten:
        terminalreporter.write_line(problem)
    for report in recorder_of(config).reports():
        terminalreporter.section(f"stead conformance of {report.target}")
        terminalreporter.write_line(f"{report.summary()} (contract {report.contract}, suite {report.suite})")
        if not report.counts()["held"]:
            terminalreporter.write_line("  no law held, so nothing was shown")
        for verdict in report.of("failed", "waived", "locked"):
            terminalreporter.write_line(
                f"  {verdict.outcome:7} {verdict.law}: {verdict.reason.partition(chr(10))[0][:160]}"
            )


def _clean(text: str) -> str:
    # What an exception says may hold lone surrogates, which no report's file can.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _told(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr or "")


rewrite_asserts()
