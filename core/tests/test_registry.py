"""Backends by name: found on demand, listed without their SDKs, refused with what to do about it."""

import asyncio
import importlib.metadata
import logging
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import stead
from stead import registry
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, BackendNotFound, ConfigError, PluginError
from stead.hookspecs import BackendSpec

PLUGIN = """
from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

@hookimpl
def stead_backend():
    return BackendSpec(
        name={name!r}, summary="A test", contract={contract!r}, factory={factory!r}, options={options!r},
        capabilities=Capabilities(stat=True),
    )
"""
ENVIRONMENT = """
import {sdk}
from stead.environments import MemoryEnvironment

class Env(MemoryEnvironment):
    def __init__(self, bucket, *, secret_key=None, retries: int = 3):
        super().__init__()
        if bucket == "bad":
            raise ValueError(f"no bucket called {{bucket}} with the key {{secret_key}}")
        self.given = (bucket, secret_key, retries)
"""
OPTIONS = """
from pydantic import SecretStr
from stead.config import BackendOptions

class Options(BackendOptions):
    bucket: str
    secret_key: SecretStr | None = None
    retries: int = 99
"""


def backend(name: str, *, contract: str = "1.0", sdk: str = "json", options: bool = True) -> dict[str, str]:
    """The modules of a backend's package."""
    model = f"{name}.config:Options" if options else None
    return {
        f"{name}/__init__.py": "",
        f"{name}/plugin.py": PLUGIN.format(name=name, contract=contract, factory=f"{name}.env:Env", options=model),
        f"{name}/config.py": OPTIONS,
        f"{name}/env.py": ENVIRONMENT.format(sdk=sdk),
    }


def point(name: str, target: str | None = None) -> dict[str, dict[str, str]]:
    return {"stead.backends": {name: target or f"{name}.plugin"}}


def test_the_memory_backend_is_always_there():
    """It ships with the core, and opens by name."""

    async def use() -> bytes:
        async with stead.create_environment("memory") as env:
            await env.write_file("a", "x")
            return await env.read_file("a")

    assert asyncio.run(use()) == b"x"


def test_a_plugin_is_opened_by_name(install):
    """Options reach the class as plain values, and only those that were given, so that its own defaults hold."""
    install("acme", point("acme"), backend("acme"))
    env = stead.create_environment("acme", bucket="b", secret_key="s3cret")
    assert env.given == ("b", "s3cret", 3)


def test_the_spec_says_who_ships_it(install):
    """The registry fills in the distribution, and the spec is frozen."""
    install("acme", point("acme"), backend("acme"))
    spec = registry.load_backend("acme")
    assert (spec.name, spec.distribution, spec.contract) == ("acme", "acme 1.0", "1.0")
    with pytest.raises(FrozenInstanceError):
        spec.name = "other"


def test_listing_imports_no_sdk(install):
    """Neither does checking options: only making an environment imports its module."""
    install("acme", point("acme"), backend("acme", sdk="sdk_that_is_not_there"))
    found = {item.name: item for item in registry.list_backends()}
    assert found["acme"].error is None
    assert found["acme"].path.endswith("acme/plugin.py")
    assert "acme.env" not in sys.modules
    with pytest.raises(ConfigError, match="needs the option 'bucket'"):
        stead.create_environment("acme")
    with pytest.raises(PluginError, match=r"acme 1\.0 is broken.*sdk_that_is_not_there"):
        stead.create_environment("acme", bucket="b")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import module_that_is_missing", "ModuleNotFoundError: No module named 'module_that_is_missing'"),
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = (", "SyntaxError"),
        ("x = 1", "returns no BackendSpec"),
        (PLUGIN.format(name="other", contract="1.0", factory="a:b", options=None), "calls itself 'other'"),
        (
            PLUGIN.replace("return", "x =").format(name="bad", contract="1.0", factory="", options=None),
            "no BackendSpec",
        ),
        (PLUGIN.replace("()", "(odd)", 1).format(name="bad", contract="1", factory="", options=None), "odd"),
    ],
)
def test_a_broken_plugin_is_an_entry_and_an_error_when_asked_for(install, code, told):
    """It does not keep the others from being listed or used; the error names the distribution."""
    install("bad", point("bad", "badplug"), {"badplug.py": code})
    found = {item.name: item for item in registry.list_backends()}
    assert told in found["bad"].error
    assert found["bad"].spec is None
    assert found["bad"].path.endswith("badplug.py")
    assert found["memory"].error is None
    with pytest.raises(PluginError, match=r"badplug of bad 1\.0"):
        stead.create_environment("bad")


def test_a_plugin_whose_module_is_missing_is_listed(install):
    """An entry point that points nowhere has no path and an error."""
    install("gone", point("gone", "gone_for_good.plugin"))
    found = {item.name: item for item in registry.list_backends()}
    assert found["gone"].path is None
    assert "gone_for_good" in found["gone"].error


def test_two_distributions_with_one_name_are_refused(install):
    """The message names both, and each is listed with that error; other names work."""
    install("one", point("acme", "acme.plugin"), backend("acme"))
    install("two", point("acme", "acme.plugin"), backend("acme"))
    with pytest.raises(PluginError, match=r"'acme' is offered by (one 1\.0 and two 1\.0|two 1\.0 and one 1\.0)"):
        stead.create_environment("acme", bucket="b")
    assert [item.distribution for item in registry.list_backends() if item.name == "acme"] == ["one", "two"]
    assert all(item.error for item in registry.list_backends() if item.name == "acme")
    stead.create_environment("memory")


@pytest.mark.parametrize("contract", ["2.0", "0.9", "1.1", "1", "one", "1.0.0"])
def test_another_contract_is_refused_with_both_versions(install, contract):
    """An equal major and a minor that is not newer are accepted, nothing else."""
    install("acme", point("acme"), backend("acme", contract=contract))
    with pytest.raises(PluginError, match=rf"contract {contract}, and this stead has contract 1\.0"):
        stead.create_environment("acme", bucket="b")


@pytest.mark.parametrize(("contract", "accepted"), [("1.2", True), ("1.3", True), ("1.4", False), ("2.0", False)])
def test_an_older_minor_is_accepted(monkeypatch, contract, accepted):
    """With contract 1.3 of ours."""
    monkeypatch.setattr(registry, "CONTRACT", "1.3")
    assert registry._speaks_ours(contract) is accepted


def test_a_backend_of_ours_that_is_missing_answers_with_its_pip_line():
    """No guessing: the name is known."""
    with pytest.raises(BackendNotFound) as caught:
        stead.create_environment("gcs")
    assert caught.value.message == "the backend 'gcs' is not installed; pip install stead-gcs"


def test_an_unknown_name_answers_with_the_nearest_and_a_pip_line():
    """Names of this project count although they are not installed."""
    with pytest.raises(BackendNotFound) as caught:
        stead.create_environment("daytna")
    assert "did you mean 'daytona'?" in caught.value.message
    assert "pip install stead-daytna" in caught.value.message


@pytest.mark.parametrize("name", ["a; rm -rf /", "", "a b", "../x", "$(id)", "naïve"])
def test_no_pip_line_is_made_of_what_is_no_name(name):
    """What a user copies into a shell holds nothing but a distribution's name."""
    with pytest.raises(BackendNotFound) as caught:
        stead.create_environment(name)
    assert "pip install" not in caught.value.message


def test_entry_points_are_scanned_once(install, monkeypatch):
    """However often names are asked for; only a missing one is looked for again."""
    install("acme", point("acme"), backend("acme"))
    scans = []

    def counted(**wanted: str) -> object:
        scans.append(wanted)
        return importlib.metadata.entry_points(**wanted)

    monkeypatch.setattr(registry, "entry_points", counted)
    for _ in range(3):
        stead.create_environment("acme", bucket="b")
        registry.list_backends()
    assert len(scans) == 1
    with pytest.raises(BackendNotFound):
        stead.create_environment("nothing-there")
    assert len(scans) == 2


def test_what_was_installed_meanwhile_is_found(install):
    """As a notebook does that installs a plugin after the first look."""
    registry.list_backends()
    site = install("acme", {"stead.backends": {}}, backend("acme"))
    registry.list_backends()
    (site / "late-1.0.dist-info").mkdir()
    (site / "late-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (site / "late-1.0.dist-info" / "entry_points.txt").write_text("[stead.backends]\nacme = acme.plugin\n")
    assert stead.create_environment("acme", bucket="b").given[0] == "b"


def test_import_stead_loads_nothing_of_this():
    """Neither the registry nor what it needs."""
    code = "import sys, stead; print([m for m in ('pluggy', 'pydantic', 'importlib.metadata') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


# ---- package.module:Class ------------------------------------------------------------------------------------------------

CLASSES = """
import os
from pathlib import Path
from stead.environments import MemoryEnvironment

class Mine(MemoryEnvironment):
    def __init__(self, root, *, size: int = 1, folder: Path | None = None):
        super().__init__()
        self.given = (root, size, folder)

class Outer:
    class Inner(Mine):
        pass

class Open(MemoryEnvironment):
    def __init__(self, **anything):
        super().__init__()
        self.given = anything

class Four:
    working_dir = "/"
    async def read_file(self, path): return b"four"
    async def write_file(self, path, content): ...

class Nothing: ...

def make(root): return Mine(root)

NUMBER = 5
"""


@pytest.fixture
def classes(tmp_path, monkeypatch):
    (tmp_path / "my_classes.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_classes", None)


@pytest.mark.usefixtures("classes")
def test_a_class_is_named_by_its_import_string():
    """Also a nested one, or a function that makes one."""
    assert stead.create_environment("my_classes:Mine", root="r", size=2).given == ("r", 2, None)
    assert stead.create_environment("my_classes:Outer.Inner", root="r").given == ("r", 1, None)
    assert stead.create_environment("my_classes:make", root="r").given == ("r", 1, None)
    assert stead.create_environment("my_classes:Open", a=1).given == {"a": 1}
    assert isinstance(stead.create_environment("stead.environments:MemoryEnvironment"), MemoryEnvironment)


@pytest.mark.usefixtures("classes")
def test_a_class_of_the_older_contract_is_adapted():
    """The four methods are enough."""

    async def use() -> bytes:
        async with stead.create_environment("my_classes:Four") as env:
            return await env.read_file("a")

    assert asyncio.run(use()) == b"four"


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("my_classes:Mine", {"roto": 1}, "option 'roto' of 'my_classes:Mine' is unknown; did you mean 'root'?"),
        ("my_classes:Mine", {}, "'my_classes:Mine' needs the option 'root'"),
        ("my_classes:Mien", {}, "did you mean 'Mine'?"),
        ("my_classes:NUMBER", {}, "is a int, not a class"),
        ("my_classes:Nothing", {}, "makes no environment"),
        ("no_such_module:X", {}, "No module named 'no_such_module'"),
        (":X", {}, "package.module:Class"),
        ("my_classes:", {}, "package.module:Class"),
    ],
)
def test_what_cannot_be_made_of_a_class_is_a_config_error(name, options, told):
    """It says what is near."""
    with pytest.raises(ConfigError) as caught:
        stead.create_environment(name, **options)
    assert told in caught.value.message


def test_a_class_whose_module_fails_is_a_plugin_error(tmp_path, monkeypatch):
    """The module is there, so it is not a matter of its name."""
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        stead.create_environment("broken_module:X")


# ---- options ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bukket": "b"}, "option 'bukket' of 'acme' is unknown; did you mean 'bucket'?"),
        ({"BUCKET": "b"}, "did you mean 'bucket'?"),
        ({"bucket": "b", "zzz": 1}, "there is: bucket, retries, secret_key."),
        ({"bucket": 7}, "option 'bucket' of 'acme': input should be a valid string"),
        ({"bucket": "b", "retries": "many"}, "option 'retries' of 'acme': input should be a valid integer"),
        ({"bucket": {"envv": "X"}}, "option 'bucket' of 'acme' takes no table"),
    ],
)
def test_a_bad_option_is_a_config_error(install, options, told):
    """It names the option and the nearest there is."""
    install("acme", point("acme"), backend("acme"))
    with pytest.raises(ConfigError) as caught:
        stead.create_environment("acme", **options)
    assert told in caught.value.message
    with pytest.raises(ValueError, match="acme"):
        stead.create_environment("acme", **options)


@pytest.mark.parametrize("options", [{"bucket": "bad", "secret_key": "s3cret"}, {"bucket": 7, "secret_key": "s3cret"}])
def test_no_secret_is_in_an_error_or_its_traceback(install, options):
    """Also where the class itself repeats it, or pydantic would."""
    import traceback

    install("acme", point("acme"), backend("acme"))
    with pytest.raises(ConfigError) as caught:
        stead.create_environment("acme", **options)
    told = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in told
    assert "acme" in caught.value.message


SECRETIVE = """
from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied

class Mine(MemoryEnvironment):
    def __init__(self, kind, api_token):
        if kind == "chained":
            try:
                raise KeyError(api_token)
            except KeyError:
                raise RuntimeError("no")
        errors = {"runtime": RuntimeError, "key": KeyError, "exit": SystemExit, "ours": AccessDenied}
        raise errors[kind](f"bad token {api_token}")
"""


@pytest.mark.parametrize("token", ["TOPSECRET1", "TOP'SECRET\\n1"])
@pytest.mark.parametrize("kind", ["runtime", "key", "exit", "ours", "chained"])
def test_no_secret_shows_whatever_a_class_raises(tmp_path, monkeypatch, kind, token):
    """It is an error of ours, and neither it nor what led to it repeats the secret."""
    import traceback

    (tmp_path / "secretive.py").write_text(SECRETIVE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AccessDenied if kind == "ours" else ConfigError) as caught:
        stead.create_environment("secretive:Mine", kind=kind, api_token=token)
    told = "".join(traceback.format_exception(caught.value))
    assert token not in told
    assert repr(token)[1:-1] not in told
    assert caught.value.message.endswith(("bad token **********", "**********'", '**********"', "RuntimeError: no"))


def test_without_a_model_the_signature_rules(install):
    """A backend may leave the model out; names and missing ones are checked all the same."""
    install("acme", point("acme"), backend("acme", options=False))
    assert stead.create_environment("acme", bucket="b", retries=5).given == ("b", None, 5)
    with pytest.raises(ConfigError, match="did you mean 'retries'"):
        stead.create_environment("acme", bucket="b", retrys=5)
    with pytest.raises(ConfigError, match="needs the option 'bucket'"):
        stead.create_environment("acme")


def test_a_variable_sets_an_option(install, monkeypatch):
    """A keyword goes first, and a variable that names no option is an error that names it."""
    install("acme", point("acme"), backend("acme"))
    monkeypatch.setenv("STEAD_ACME__BUCKET", "from-variable")
    monkeypatch.setenv("STEAD_ACME__RETRIES", "7")
    assert stead.create_environment("acme").given == ("from-variable", None, 7)
    assert stead.create_environment("acme", bucket="keyword").given == ("keyword", None, 7)
    monkeypatch.setenv("STEAD_ACME__BUKKET", "x")
    with pytest.raises(ConfigError, match="environment variable STEAD_ACME__BUKKET is unknown; did you mean 'bucket'"):
        stead.create_environment("acme")


# ---- observers --------------------------------------------------------------------------------------------------------------

OBSERVER = """
from stead.hookspecs import hookimpl
seen = []

@hookimpl
def stead_environment_created(environment, backend):
    seen.append((type(environment).__name__, backend))
    {then}
"""


def test_observers_are_told_and_cannot_break_anything(install, caplog):
    """One that fails and one that cannot be loaded are logged, and the others are still called."""
    points = {"stead.plugins": {"a": "observer_a", "b": "observer_b", "c": "observer_c"}}
    modules = {
        "observer_a.py": OBSERVER.format(then="raise RuntimeError('observer')"),
        "observer_b.py": OBSERVER.format(then=""),
        "observer_c.py": "import missing_thing",
    }
    install("watch", points, modules)
    with caplog.at_level(logging.ERROR, logger="stead.observers"):
        stead.create_environment("memory")
    for name in ("observer_a", "observer_b"):
        assert sys.modules[name].seen == [("MemoryEnvironment", "memory")]
    assert len(caplog.records) == 2
    assert "observer_c" in caplog.text


def test_every_spec_of_ours_tells_the_truth():
    """What an installed backend of this project says about itself is what its class says."""
    for item in registry.list_backends():
        if not item.distribution.startswith("stead"):
            continue
        assert isinstance(item.spec, BackendSpec), item.error
        factory = registry._factory(item.name)
        # What is made of other environments has no capabilities before it is made.
        if item.module != "stead.wrappers.plugin":
            assert item.spec.capabilities == factory.capabilities, item.name
        assert Path(item.path).is_file()
