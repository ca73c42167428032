"""The gate works both ways, waivers are strict, and no law can be overridden."""

import ast
from pathlib import Path

import pytest

from stead import Capabilities
from stead.conformance.environment_laws import LAWS
from stead.conformance.law import OPERATIONS, law, laws_of, refuse

MEMORY = """
class TestMine(EnvironmentLaws):
    {body}

    @pytest.fixture
    def environment(self):
        return Mine()

class Mine(MemoryEnvironment):
    {mine}
"""


def suite(body="", mine="pass"):
    """A test class, and the environment that it tests."""
    return MEMORY.format(body=body, mine=mine)


def spec(name):
    """The law of a test function."""
    return LAWS[f"test_{name}"]


def test_every_law_is_stated():
    """Each law has an id of its own, a sentence, a number of the catalogue, and needs what exists."""
    ids = [each.id for each in LAWS.values()]

    assert len(set(ids)) == len(ids) >= 200
    for each in LAWS.values():
        assert each.text.endswith("."), each.id
        assert each.number[0] in "ABCDEFGHIJKL", each.id
        assert all(hasattr(Capabilities(), name) for name in each.needs), each.id


def test_every_number_of_the_catalogue_has_a_law():
    """Groups A to H and L are complete, without the numbers that have no method or no capability here."""
    sizes = {"A": 11, "B": 33, "C": 10, "D": 21, "E": 13, "F": 22, "G": 30, "H": 14}
    without = {"D18", "E13", "F22", "G2", "G25", "H11", "H12", "H13"}
    expected = {f"{group}{n}" for group, size in sizes.items() for n in range(1, size + 1)} - without

    assert expected <= {each.number for each in LAWS.values()}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_undeclared_operation_is_unsupported(name):
    """A law that needs an operation which is not declared is not tried."""
    needing = next(each for each in LAWS.values() if name in each.needs)
    refusal = refuse(needing, Capabilities(), {})

    assert (refusal.outcome, name in refusal.reason) == ("unsupported", True)


def test_undeclared_quality_is_not_claimed():
    """A law about a quality that is not declared is reported as not claimed."""
    assert refuse(spec("write_atomic"), Capabilities(), {}).outcome == "unclaimed"


def test_missing_fixture_locks():
    """A law whose fixture is missing is locked, and the reason names the fixture."""
    refusal = refuse(spec("write_seen_by_second"), Capabilities(), {"second_environment": None})

    assert refusal == refuse(spec("write_seen_by_second"), Capabilities(), {})
    assert (refusal.outcome, refusal.reason) == ("locked", "needs the fixture second_environment")


def test_law_needs_a_docstring():
    """A law that does not say what it states cannot be written."""

    async def test_nothing(self):
        pass

    with pytest.raises(TypeError, match="docstring"):
        law("A1")(test_nothing)


def test_held(run_suite):
    """A law that holds passes and is reported as held."""
    run = run_suite(suite(), "-k", "test_write_text")

    assert (run.code, run.outcomes["write-text"]) == (0, "held")


def test_declared_but_refused(run_suite):
    """A declared operation that raises Unsupported fails the run."""
    mine = "stat = lambda self, path: self._refuse()\n    async def _refuse(self): raise self._unsupported('stat')"
    run = run_suite(suite(mine=mine), "-k", "test_declares_stat")

    assert (run.code, run.outcomes) == (1, {"declares-stat": "failed"})


def test_undeclared_but_answered(run_suite):
    """An operation that is not declared and works fails the run; its other laws are reported as unsupported."""
    mine = "capabilities = __import__('stead').Capabilities(list_files=True)"
    run = run_suite(suite(mine=mine), "-k", "stat_file or test_declares_stat")

    assert (run.code, run.outcomes) == (1, {"declares-stat": "failed", "stat-file": "unsupported"})


def test_waived_law_that_fails(run_suite):
    """A waived law that fails does not fail the run, and the reason is reported."""
    body, mine = (
        'waivers = {"write-text": "the service drops text"}',
        "async def write_file(self, *a, **k): return None",
    )
    run = run_suite(suite(body, mine), "-k", "test_write_text and not bytes")

    assert (run.code, run.outcomes) == (0, {"write-text": "waived"})
    assert run.reason("write-text") == "the service drops text"


def test_waived_law_that_holds(run_suite):
    """A waived law that holds fails the run."""
    run = run_suite(suite('waivers = {"write-text": "outdated"}'), "-k", "test_write_text and not bytes")

    assert (run.code, run.outcomes) == (1, {"write-text": "failed"})
    assert "outdated" in run.reason("write-text")


def test_waived_law_that_is_not_asked(run_suite):
    """A waiver of a law that is not asked of this environment is needless, and fails the run."""
    run = run_suite(suite('waivers = {"execute-timeout": "x"}'), "-k", "test_execute_timeout and not kills")

    assert run.outcomes["execute-timeout"] == "failed"
    assert "needless" in run.reason("execute-timeout")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('waivers = {"write-atomik": "typo"}', "waives write-atomik"),
        ("def test_write_text(self): pass", "overrides or deletes the laws write-text"),
        ("test_write_text = None", "overrides or deletes the laws write-text"),
    ],
)
def test_no_way_round_a_law(run_suite, body, says):
    """An unknown waiver, an overridden law and a deleted one fail the run before a law is tried."""
    run = run_suite(suite(body))

    assert run.code == 2
    assert says in run.output


def test_law_deleted_later(run_suite):
    """A law that is taken away after its class was made is noticed too."""
    run = run_suite(suite() + "\nTestMine.test_write_text = None\n", "-k", "test_write_nul")

    assert run.code == 1
    assert "overrides or deletes the laws write-text" in run.output


def test_xfail_is_refused(run_suite):
    """A law cannot be marked xfail: that is what waivers are for."""
    run = run_suite(suite("pytestmark = pytest.mark.xfail"), "-k", "test_write_nul")

    assert run.code != 0
    assert "waivers" in run.output


def test_hanging_law_fails_alone(run_suite):
    """A law that hangs, on the loop or blocking it, fails by its limit, and the next one is tried."""
    mine = """async def read_file(self, path):
        if "no-final" in str(path):
            __import__("time").sleep(30)
        if "only-newlines" in str(path):
            await __import__("asyncio").sleep(30)
        return await super().read_file(path)"""
    run = run_suite(suite("law_seconds = 1.0", mine), "-k", "no_final_newline or only_newlines or write_nul")

    assert run.outcomes["write-no-final-newline"] == run.outcomes["write-only-newlines"] == "failed"
    assert run.outcomes["write-nul"] == "held"
    assert "blocked" in run.reason("write-no-final-newline")


def test_laws_of_a_class_are_all_of_them():
    """A subclass has every law of the suite."""
    from stead.conformance import EnvironmentLaws

    assert laws_of(EnvironmentLaws) == LAWS


def test_laws_are_short():
    """A law is a short test: fifteen lines at most after its docstring."""
    from stead.conformance import laws

    for path in Path(laws.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
                assert node.end_lineno - node.body[0].end_lineno <= 15, node.name


def test_older_class(run_suite):
    """A class that has only the four methods of the older contract is tried too."""
    source = """
class Old:
    working_dir = "/work"
    def __init__(self): self.files = {}
    async def read_file(self, path):
        return self.files[str(path)]
    async def write_file(self, path, content):
        self.files[str(path)] = content

class TestOld(EnvironmentLaws):
    @pytest.fixture
    def environment(self):
        return Old()
"""
    run = run_suite(source, "-k", "write_text or path_relative or life_members or read_missing_parent")

    assert run.outcomes["write-text"] == run.outcomes["path-relative"] == run.outcomes["life-members"] == "held"
    assert run.reason("read-missing-parent").startswith("KeyError")


def test_without_hypothesis(run_suite):
    """Where hypothesis is missing, the law that needs it is locked and says how to install it."""
    run = run_suite(suite() + "\nimport sys\nsys.modules['hypothesis'] = None\n", "-k", "agrees_with_memory")

    assert run.outcomes == {"agrees-with-memory": "locked"}
    assert "stead[conformance]" in run.reason("agrees-with-memory")


def test_parameters_are_environments(run_suite):
    """A class whose fixture has parameters is reported once for each: what held with one hides no failure with another."""
    source = """
class Deaf(MemoryEnvironment):
    async def write_file(self, path, content, **options):
        return await super().write_file(path, b"", **options)

class TestMine(EnvironmentLaws):
    @pytest.fixture(params=[Deaf, MemoryEnvironment])
    def environment(self, request):
        return request.param()
"""
    run = run_suite(source, "-k", "test_write_nul")

    assert {report["target"]: report["counts"]["failed"] for report in run.reports} == {
        "TestMine[Deaf]": 1,
        "TestMine[MemoryEnvironment]": 0,
    }


def test_a_kit_of_its_own_is_no_pass(run_suite):
    """A class that replaces `stead_kit` fails, and says why, without an internal error."""
    body = "@pytest.fixture\n    def stead_kit(self):\n        return type('Kit', (), {'hold': lambda *a: None})()"
    run = run_suite(suite(body), "-k", "write_text")

    assert (run.code, "INTERNALERROR" in run.output) == (1, False), run.output
    assert "a fixture stead_kit of its own" in run.reason("write-text")


@pytest.mark.parametrize("others", [False, True])
def test_nothing_shown_is_no_pass(run_suite, others):
    """A run of nothing but laws in which none held ends like one without tests."""
    source = "@pytest.mark.skip(reason='later')" + suite()
    run = run_suite(source + ("def test_write_text_too(): pass" if others else ""), "-k", "write_text")

    assert (run.code, set(run.outcomes.values())) == (0 if others else 5, {"locked"}), run.output
    assert "no law held, so nothing was shown" in run.output
