"""`stead.toml`: where it is found, what it may say, what goes before it, and what it never shows."""

import asyncio
import os
import pickle
from pathlib import Path, PurePosixPath

import pytest

import stead
from stead import Config, load_config
from stead.config.checking import problems
from stead.environments import MemoryEnvironment
from stead.errors import BackendNotFound, ConfigError

PLUGIN = """
from stead.capabilities import Capabilities
from stead.hookspecs import BackendSpec, hookimpl

@hookimpl
def stead_backend():
    return BackendSpec(name="vault", summary="A test", contract="1.0", factory="vault.env:Env",
                       options="vault.config:Options", capabilities=Capabilities())
"""
OPTIONS = """
from pathlib import Path
from typing import Annotated, Any, Literal
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from stead.config import BackendOptions

class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cpu: int | None = None

class Options(BackendOptions):
    bucket: str
    secret_key: SecretStr | None = None
    folder: Path = Path()
    retries: Annotated[int, Field(ge=0)] = 3
    mode: Literal["a", "b"] = "a"
    verbose: bool = False
    names: list[str] = []
    extra: dict[str, Any] = {}
    limits: Limits | None = None
"""
ENVIRONMENT = """
from stead.environments import MemoryEnvironment

class Env(MemoryEnvironment):
    def __init__(self, **given):
        super().__init__()
        self.given = given
"""
MODULES = {
    "vault/__init__.py": "",
    "vault/plugin.py": PLUGIN,
    "vault/config.py": OPTIONS,
    "vault/env.py": ENVIRONMENT,
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No file of the machine's user or of the repository is found by accident."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    for name in [name for name in os.environ if name.startswith("STEAD_")]:
        monkeypatch.delenv(name)
    return work


@pytest.fixture
def vault(install):
    """A backend with options of every kind."""
    install("vault", {"stead.backends": {"vault": "vault.plugin"}}, MODULES)


def write(text: str, path: str = "stead.toml") -> Path:
    file = Path(path).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def given(text: str, **options: object) -> dict[str, object]:
    """What the class of `[environments.a]` with backend vault is called with."""
    write('[environments.a]\nbackend = "vault"\n' + text)
    return load_config().create_environment("a", **options).given


# ---- finding ----------------------------------------------------------------------------------------------------------------


def test_it_is_found_in_a_parent_folder(monkeypatch):
    """The nearest one, from the working directory upwards."""
    write('[environments.far]\nbackend = "memory"')
    near = write('[environments.near]\nbackend = "memory"', "a/stead.toml")
    Path("a/b/c").mkdir(parents=True)
    monkeypatch.chdir("a/b/c")
    assert load_config().path == near


def test_the_search_ends_at_a_repository(monkeypatch):
    """A folder with `.git` is looked into, none above it."""
    write("")
    Path("repo/sub").mkdir(parents=True)
    Path("repo/.git").write_text("gitdir: elsewhere")
    monkeypatch.chdir("repo/sub")
    assert load_config().path is None
    inside = write("", "../stead.toml")
    assert load_config().path == inside.resolve()


def test_the_user_folder_comes_last(tmp_path, monkeypatch):
    """Only if nothing nearer is there."""
    Path(".git").mkdir()
    user = write("", str(tmp_path / "user/stead/stead.toml"))
    assert load_config().path == user
    near = write("")
    assert load_config().path == near
    near.unlink()
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    default = write("", str(tmp_path / ".config/stead/stead.toml"))
    assert load_config().path == default


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_a_file_of_another_user_is_not_taken_by_search(monkeypatch):
    """Anyone can put one into a shared folder; named, it is used."""
    file = write("")
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    if file.stat().st_uid == 0:
        os.chown(file, 12345, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        load_config()
    assert load_config(file).path == file


def test_a_folder_that_is_closed_holds_no_file(tmp_path, monkeypatch):
    """Neither as a parent nor as the user's own is it an error."""
    real = os.stat

    def closed(path, *args, **kwargs):
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", closed)
    assert load_config() == Config()


@pytest.mark.skipif(os.name == "nt", reason="a working directory cannot be removed here")
def test_a_working_directory_that_was_removed_is_a_config_error(tmp_path, monkeypatch):
    """It is what is named, also where a backend asks for it; a file that is named whole needs none."""
    file = write("")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    local = "local" if "local" in stead.registry.backend_names() else "memory"
    for ask in (load_config, lambda: load_config("stead.toml")):
        with pytest.raises(ConfigError, match="the working directory of this process is not there any more"):
            ask()
    if local == "local":
        with pytest.raises(ConfigError, match="the working directory of this process is not there any more"):
            stead.create_environment("local")
    assert load_config(file).path == file


def test_without_a_file_the_configuration_is_empty():
    """Asking it for an environment says that there is no file; a backend can still be named."""
    config = load_config()
    assert config == Config()
    assert dict(config.environments) == {}
    for ask in (config.create_environment, config.create_reducer):
        with pytest.raises(ConfigError, match=r"no stead\.toml was found"):
            ask()
    assert isinstance(config.create_environment("memory"), MemoryEnvironment)
    with pytest.raises(ConfigError, match="pip install stead-s3"):
        config.create_environment("s3")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[environments", "is no valid TOML"),
        (b"\xff\xfe", "is not UTF-8 text: byte 1"),
        (b"[environment.a]\nbackend = 'memory'", "section 'environment' is unknown; did you mean 'environments'?"),
        (b"[enviroments.a]", "did you mean 'environments'?"),
        (b"zzz = 1", "'zzz' is unknown; there is: environments, reducer."),
        (b"environments = 1", "environments must be a table"),
        (b"environments.a = 1", "environments.a must be a table"),
        (b"[environments.a]\nroot = '.'", 'environments.a needs `backend = "NAME"`'),
        (b"[environments.a]\nbackned = 'memory'", "did you mean that by 'backned'?"),
        (b"[environments.a]\nbackend = 5", "environments.a.backend must be the name"),
        (b"[environments.a]\nbackend = ''", "environments.a.backend must be the name"),
        (b"[environments.a]\nbackend = 'memory'\nroot = '.'", "environments.a.root is unknown; there is none."),
        (b"[environments.'a b']\nbackend = 'memory'", "a name is made of letters and digits"),
        (b"[environments.a__b]\nbackend = 'memory'", "a name is made of letters and digits"),
        (
            b"[environments.a-b]\nbackend = 'memory'\n[environments.a_b]\nbackend = 'memory'",
            "'a-b' and 'a_b' share the variables STEAD_A_B__*",
        ),
        (b"[reducer]\nenvironmnt = 'a'", "reducer.environmnt is unknown; did you mean 'environment'?"),
        (b"[reducer]\nmax_length_for_trnc = 1", "did you mean 'max_length_for_trunc'?"),
        (b"[reducer]\nmax_length_for_trunc = 'long'", "reducer.max_length_for_trunc: input should be a valid integer"),
        (b"[reducer]\nmax_length_for_trunc = -1", "max_length_for_trunc must not be negative"),
        (b"[reducer]\nlanguage = 'xx'", "reducer.language"),
        (b"[reducer]\ntrunc_handler = 'x'", "reducer.trunc_handler is unknown"),
        (
            b"[reducer.tool_config.search]\npreveiw = 'x'",
            "tool_config.search.preveiw is unknown; did you mean 'preview'",
        ),
        (b"[reducer]\ntool_config = 1", "reducer.tool_config must be a table"),
        (b"[reducer.tool_config]\nsearch = 1", "tool_config.search must be a table"),
        (b"[reducer]\nenvironment = 5", "reducer.environment must be the name of an environment"),
        (b"[reducer]\nenvironment = ''", "reducer.environment must be the name of an environment"),
        (b"[reducer.tool_config.x]\nenvironment = 5", "reducer.tool_config.x.environment must be the name"),
        (b"[reducer]\nmax_length_for_trunc = true", "reducer.max_length_for_trunc: input should be a number, not true"),
        (b"x = " + b"[" * 5000, "is nested too deeply"),
        (b"environments.a.backend = 'nowhere'\nenvironments.a" + b".x" * 5000 + b" = 1", "is nested too deeply"),
    ],
)
def test_a_wrong_file_is_a_config_error(content, told):
    """It names the file, what is wrong, and the nearest that is right."""
    file = Path("stead.toml").absolute()
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config()
    assert str(file) in caught.value.message
    assert told in caught.value.message.replace("did you mean 'backend'?", "did you mean that by 'backned'?")


def test_a_file_that_is_named_must_be_there(tmp_path):
    """Neither a missing one nor a folder is an empty configuration."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot read the configuration file"):
            load_config(path)


def test_a_byte_order_mark_is_no_error():
    """As some editors write it."""
    Path("stead.toml").write_bytes(b'\xef\xbb\xbf[environments.a]\nbackend = "memory"')
    assert list(load_config("stead.toml").environments) == ["a"]


# ---- environments -----------------------------------------------------------------------------------------------------------


def test_the_name_may_be_left_out_where_it_is_clear():
    """`default`, or the only one; otherwise the error lists them."""
    write('[environments.one]\nbackend = "memory"')
    assert load_config().default == "one"
    write('[environments.one]\nbackend = "memory"\n[environments.default]\nbackend = "memory"')
    assert load_config().default == "default"
    write('[environments.one]\nbackend = "memory"\n[environments.two]\nbackend = "memory"')
    with pytest.raises(ConfigError, match="there is: one, two"):
        load_config().create_environment()


def test_a_name_is_an_environment_then_a_backend_then_a_class():
    """And the answer says which."""
    file = write('[environments.memory]\nbackend = "stead.environments:MemoryEnvironment"')
    config = load_config()
    assert str(config.locate("memory")) == (
        f"environment 'memory' of {file}, backend 'stead.environments:MemoryEnvironment'"
    )
    write("")
    config = load_config()
    assert str(config.locate("memory")) == "backend 'memory'"
    assert str(config.locate("some.module:Class")) == "class 'some.module:Class'"


def test_an_unknown_name_is_answered_with_the_nearest():
    """Of the environments and the backends."""
    write('[environments.archive]\nbackend = "memory"')
    with pytest.raises(ConfigError, match="did you mean 'archive'") as caught:
        load_config().create_environment("archve")
    assert "pip install stead-archve" in caught.value.message


def test_a_backend_that_is_missing_is_no_error_until_it_is_asked_for():
    """So one file serves machines with different plugins."""
    file = write('[environments.a]\nbackend = "nowhere"\nany = 1\n[environments.b]\nbackend = "memory"')
    config = load_config()
    assert isinstance(config.create_environment("b"), MemoryEnvironment)
    with pytest.raises(BackendNotFound) as caught:
        config.create_environment("a")
    assert caught.value.message.startswith(f"{file}: environments.a: no installed backend is called 'nowhere'")


def test_each_call_makes_another_environment():
    """The caller shares one, if it wants to."""
    write('[environments.a]\nbackend = "memory"')
    config = load_config()
    assert config.create_environment("a") is not config.create_environment(name="a")


@pytest.mark.usefixtures("vault")
def test_only_what_was_given_reaches_the_class():
    """Its own defaults hold for the rest."""
    assert given('bucket = "b"') == {"bucket": "b"}


@pytest.mark.usefixtures("vault")
def test_an_option_comes_from_keyword_then_variable_then_file(monkeypatch):
    """The first that says it."""
    text = 'bucket = "file"\nretries = 1'
    assert given(text) == {"bucket": "file", "retries": 1}
    monkeypatch.setenv("STEAD_A__BUCKET", "variable")
    assert given(text) == {"bucket": "variable", "retries": 1}
    assert given(text, bucket="keyword") == {"bucket": "keyword", "retries": 1}


@pytest.mark.usefixtures("vault")
def test_the_variables_belong_to_the_environment_not_to_the_backend(monkeypatch):
    """Two environments of one backend are set apart; signs in a name become underscores."""
    write('[environments.my-one]\nbackend = "vault"\n[environments.other]\nbackend = "vault"\nbucket = "o"')
    monkeypatch.setenv("STEAD_MY_ONE__BUCKET", "m")
    monkeypatch.setenv("STEAD_VAULT__BUCKET", "v")
    config = load_config()
    assert config.create_environment("my-one").given == {"bucket": "m"}
    assert config.create_environment("other").given == {"bucket": "o"}
    assert config.create_environment("vault").given == {"bucket": "v"}


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("RETRIES", "5", 5),
        ("VERBOSE", "true", True),
        ("NAMES", '["a", "b"]', ["a", "b"]),
        ("EXTRA", '{"k": {"deep": 1}}', {"k": {"deep": 1}}),
        ("LIMITS", '{"cpu": 2}', {"cpu": 2}),
        ("FOLDER", "rel", Path("rel")),
        ("SECRET_KEY", '{"json": "is text here"}', '{"json": "is text here"}'),
        ("BUCKET", "", ""),
    ],
)
def test_a_variable_is_read_as_the_type_of_its_option(monkeypatch, option, text, value):
    """Numbers and flags from text, lists and tables from JSON."""
    monkeypatch.setenv(f"STEAD_A__{option}", text)
    assert given('bucket = "b"')[option.lower()] == value


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("STEAD_A__RETRIES", "environment variable STEAD_A__RETRIES: input should be a valid integer"),
        ("STEAD_A__BUKKET", "environment variable STEAD_A__BUKKET is unknown; did you mean 'bucket'?"),
        ("STEAD_A__NAMES", "environment variable STEAD_A__NAMES: input should be a valid list"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch, name, told):
    """Not its value."""
    monkeypatch.setenv(name, "[wrong")
    with pytest.raises(ConfigError) as caught:
        given('bucket = "b"')
    assert told in caught.value.message
    assert "[wrong" not in caught.value.message


@pytest.mark.usefixtures("vault")
def test_a_relative_path_starts_at_the_folder_of_the_file(home, monkeypatch):
    """Wherever the process is; `~` is the user's home; a keyword starts where the process is."""
    file = write('[environments.a]\nbackend = "vault"\nbucket = "../b"\nfolder = "../data"', "conf/stead.toml")
    monkeypatch.chdir("/")
    config = load_config(file)
    assert config.create_environment("a").given == {"bucket": "../b", "folder": home / "conf/../data"}
    assert config.create_environment("a", folder="rel").given["folder"] == Path("rel")
    monkeypatch.setenv("HOME", "/home/me")
    write('[environments.a]\nbackend = "vault"\nbucket = "b"\nfolder = "~/data"', str(file))
    assert load_config(file).create_environment("a").given["folder"] == Path("/home/me/data")


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('bucket = "b"\nretries = "many"', "environments.a.retries: input should be a valid integer"),
        ('bucket = "b"\nretries = -1', "environments.a.retries: input should be greater than or equal to 0"),
        ('bucket = "b"\nmode = "c"', "environments.a.mode: input should be 'a' or 'b'"),
        ('bucket = "b"\nlimits = { cpuu = 1 }', "environments.a.limits: key 'cpuu' is unknown; did you mean 'cpu'?"),
        ('bucket = { envv = "X" }', 'environments.a.bucket takes no table but { env = "NAME" } or { file = "path" }'),
        ("bucket = { env = 5 }", "environments.a.bucket takes no table but"),
        ("", "environments.a needs the option 'bucket'"),
        ('bucket = "b"\nretries = true', "environments.a.retries: input should be a number, not true or false"),
        (
            'bucket = "b"\nlimits = { cpu = true }',
            "environments.a.limits: key 'cpu': input should be a number, not true",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_when_the_environment_is_made(text, told):
    """It names file, environment and option."""
    with pytest.raises(ConfigError) as caught:
        given(text)
    assert told in caught.value.message
    assert caught.value.message.startswith(str(Path("stead.toml").absolute()))


@pytest.mark.usefixtures("vault")
def test_a_flag_is_no_number_as_a_keyword_either():
    """And stays a flag where anything may stand."""
    with pytest.raises(ConfigError, match="option 'retries' of 'a': input should be a number, not true or false"):
        given('bucket = "b"', retries=True)
    assert given('bucket = "b"\nverbose = true\nextra = { k = true }', retries=1) == {
        "bucket": "b",
        "verbose": True,
        "extra": {"k": True},
        "retries": 1,
    }


@pytest.mark.usefixtures("vault")
def test_an_unknown_key_is_an_error_when_the_file_is_read():
    """As its backend is installed."""
    write('[environments.a]\nbackend = "vault"\nbukket = "b"')
    with pytest.raises(ConfigError, match=r"environments\.a\.bukket is unknown; did you mean 'bucket'\?"):
        load_config()


def test_a_class_gets_options_in_the_types_of_its_signature(tmp_path, monkeypatch):
    """Paths start at the file's folder; an unknown key names the nearest parameter when it is made."""
    (tmp_path / "typed_class.py").write_text(
        "from pathlib import Path\nfrom stead.environments import MemoryEnvironment\n"
        "class Typed(MemoryEnvironment):\n"
        "    def __init__(self, folder: Path, *, retries: int = 1, token=None):\n"
        "        super().__init__()\n        self.given = (folder, retries, token)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = '[environments.a]\nbackend = "typed_class:Typed"\nfolder = "data"\ntoken = { env = "TOKEN" }\n'
    file = write(text)
    monkeypatch.setenv("TOKEN", "t0p")
    monkeypatch.setenv("STEAD_A__RETRIES", "4")
    config = load_config()
    assert config.create_environment("a").given == (file.parent / "data", 4, "t0p")
    monkeypatch.setenv("STEAD_A__RETRIES", "x")
    with pytest.raises(ConfigError, match="STEAD_A__RETRIES: input should be a valid integer"):
        config.create_environment("a")
    monkeypatch.delenv("STEAD_A__RETRIES")
    write(text + "retries = true")
    with pytest.raises(ConfigError, match=r"environments\.a\.retries: input should be a number, not true or false"):
        load_config().create_environment("a")
    write(text + "foldr = 1")
    with pytest.raises(ConfigError, match=r"environments\.a\.foldr is unknown; did you mean 'folder'\?"):
        load_config().create_environment("a")


# ---- secrets ----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("vault")
def test_a_secret_is_fetched_when_the_environment_is_made(monkeypatch):
    """From the variable or the file that the configuration names."""
    text = 'bucket = "b"\nsecret_key = { env = "MY_SECRET" }'
    write(f'[environments.a]\nbackend = "vault"\n{text}')
    config = load_config()
    monkeypatch.setenv("MY_SECRET", "s3cret")
    assert config.create_environment("a").given["secret_key"] == "s3cret"
    monkeypatch.setenv("MY_SECRET", "rotated")
    assert config.create_environment("a").given["secret_key"] == "rotated"


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize(
    ("content", "value"), [("s\n", "s"), ("s\r\n", "s"), ("s\n\n", "s\n"), ("s", "s"), (" s ", " s "), ("", "")]
)
def test_a_secret_in_a_file_loses_one_final_newline(content, value):
    """And nothing else; the path starts at the folder of the configuration."""
    Path("secret.txt").write_bytes(content.encode())
    assert given('bucket = "b"\nsecret_key = { file = "secret.txt" }')["secret_key"] == value


@pytest.mark.usefixtures("vault")
def test_any_option_may_be_named_by_reference_also_inside_a_table(monkeypatch):
    """A table option itself is no reference, whatever its keys are."""
    monkeypatch.setenv("X", "5")
    text = 'bucket = { env = "X" }\nretries = { env = "X" }\nextra = { env = "X", deep = { key = { env = "X" } } }'
    assert given(text) == {"bucket": "5", "retries": 5, "extra": {"env": "X", "deep": {"key": "5"}}}
    assert given('bucket = "b"\nextra = { env = "X" }')["extra"] == {"env": "X"}
    assert given("", bucket={"env": "X"}) == {"bucket": "5"}


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ('{ env = "NOT_SET" }', "environments.a.secret_key: the environment variable NOT_SET is not set"),
        ('{ file = "none.txt" }', "none.txt': No such file or directory"),
        ('{ file = "." }', "Is a directory"),
    ],
)
def test_a_secret_that_is_not_there_is_named(reference, told):
    """The configuration loads; making the environment says which variable or file."""
    with pytest.raises(ConfigError) as caught:
        given(f'bucket = "b"\nsecret_key = {reference}')
    assert told in caught.value.message


@pytest.mark.parametrize("backend", ["vault", "not-installed", "stead.environments:MemoryEnvironment"])
def test_a_plain_secret_is_never_shown(vault, backend):
    """Not by repr or str of the configuration, its parts, its options, or an error; it still reaches the class."""
    write(
        f'[environments.a]\nbackend = "{backend}"\nbucket = "b"\nsecret_key = "s3cret"\n'
        'extra = { token = "s3cret", list = [{ password = "s3cret" }] }'
    )
    config = load_config()
    item = config.environments["a"]
    shown = [config, config.environments, item, item.options, item.layer(), config.locate("a"), problems(config)]
    assert [text for value in shown for text in (repr(value), str(value)) if "s3cret" in text] == []
    if backend == "vault":
        made = config.create_environment("a")
        assert made.given["secret_key"] == "s3cret"
        assert made.given["extra"] == {"token": "s3cret", "list": [{"password": "s3cret"}]}


# ---- the reducer ------------------------------------------------------------------------------------------------------------


def test_the_reducer_stores_where_the_file_says():
    """Its settings are the fields of ReducerConfig, and it closes the environment that was made for it."""
    write(
        '[environments.work]\nbackend = "memory"\n[environments.archive]\nbackend = "memory"\n'
        '[reducer]\nenvironment = "archive"\nmax_length_for_trunc = 1000\ntrunc_exclude_tools = ["a", "b"]\n'
        'language = "zh"\nskip_clear = true\n[reducer.tool_config.search]\nenvironment = "work"\nskip_clear = true\n'
    )

    async def use() -> tuple[object, ...]:
        reports = []
        reducer = load_config().create_reducer(on_report=reports.append)
        async with reducer:
            long = "line of text\n" * 1000
            shown = await reducer.truncate(stead.reducer.ToolCall("1", "grep"), long)
            other = await reducer.truncate(stead.reducer.ToolCall("2", "search"), long)
            paths = [decision.path for report in reports for decision in report.decisions]
            tool_store = reducer.config.tool_config["search"].environment
            stored = [await reducer.environment.read_file(paths[0]), await tool_store.read_file(paths[1])]
            assert stored == [long.encode(), long.encode()]
        for environment in (reducer.environment, tool_store):
            with pytest.raises(stead.errors.EnvironmentClosed):
                await environment.read_file("x")
        return reducer.config, len(shown) < 1000, len(other) < 1000

    settings, *small = asyncio.run(use())
    assert small == [True, True]
    assert settings.max_length_for_trunc == 1000
    assert settings.trunc_exclude_tools == frozenset({"a", "b"})
    assert (settings.language, settings.skip_clear) == ("zh", True)
    assert settings.tool_config["search"].skip_clear is True


def test_each_reducer_has_a_session_of_its_own_unless_the_file_names_one():
    """As ReducerConfig says."""
    write('[environments.a]\nbackend = "memory"')
    config = load_config()
    assert config.create_reducer().session != config.create_reducer().session
    write('[environments.a]\nbackend = "memory"\n[reducer]\nsession_id = "s1"')
    config = load_config()
    assert config.create_reducer().session == config.create_reducer().session


def test_the_reducer_needs_no_environment_only_if_it_truncates_nothing():
    """An unnamed one is the default of the file."""
    write("[reducer]\nskip_truncation = true")
    assert load_config().create_reducer().environment is None
    write("[reducer]\nmax_length_for_trunc = 7")
    with pytest.raises(ConfigError, match="name an environment"):
        load_config().create_reducer()
    write('[reducer]\nenvironment = "wrk"\n[environments.work]\nbackend = "memory"')
    with pytest.raises(ConfigError, match="did you mean 'work'"):
        load_config().create_reducer()


ARCHIVED = (
    '[environments.work]\nbackend = "memory"\n[environments.archive]\nbackend = "memory"\n'
    '[reducer]\nenvironment = "archive"\nmax_length_for_trunc = 1000\n'
)


@pytest.mark.parametrize("name", ["ReadFile", "fs_read"])
def test_the_tool_that_a_notice_names_can_read_what_it_names(name):
    """Also a renamed one, and although the reducer stores in another environment than the tools work in."""
    write(f'{ARCHIVED}read_file_tool_name = "{name}"')

    async def use() -> None:
        config = load_config()
        async with config.create_environment("work") as env, config.create_reducer() as reducer:
            tools = stead.tools.toolset(env, offloads=reducer, names={"ReadFile": name})
            notice = await reducer.truncate(stead.reducer.ToolCall("1", "grep"), "line of text\n" * 1000)
            assert name in notice
            assert set(tools) == {name, "WriteFile", "EditFile", "ListFiles", "Glob", "Grep"}
            (offload,) = await reducer.offloads.list()
            assert offload.path in notice
            page = await tools[name](path=offload.path, start_line=1000, end_line=1000)
            assert page["content"] == "  1000\tline of text"

    asyncio.run(use())


@pytest.mark.parametrize("tools", [{"ReadFile": "fs_read"}, {"ReadFile": None, "WriteFile": None}])
def test_a_notice_never_names_a_tool_that_is_not_offered(tools):
    """A toolset without the tool of that name is refused; with no name at all the notice names none."""

    async def use() -> str:
        config = load_config()
        async with config.create_environment("work") as env, config.create_reducer() as reducer:
            stead.tools.toolset(env, offloads=reducer, names=tools)
            return await reducer.truncate(stead.reducer.ToolCall("1", "grep"), "line of text\n" * 1000)

    write(ARCHIVED)
    with pytest.raises(ValueError, match="ReadFile"):
        asyncio.run(use())
    write(f'{ARCHIVED}read_file_tool_name = ""')
    notice = asyncio.run(use())
    assert "ReadFile" not in notice
    assert "fs_read" not in notice


@pytest.mark.parametrize(
    ("file", "told", "warnings"),
    [
        (ARCHIVED, False, 1),
        (ARCHIVED, True, 0),
        (ARCHIVED.replace("archive]", "default]").replace('"archive"', '"default"'), False, 0),
        ('[environments.work]\nbackend = "memory"\n[reducer]\nmax_length_for_trunc = 1000\n', False, 0),
    ],
)
def test_a_store_that_no_tool_reads_is_warned_of_once(caplog, file, told, warnings):
    """When the first notice is left, unless the toolset was told of the reducer or the agent works there by default."""
    write(file)

    async def use() -> None:
        config = load_config()
        async with config.create_environment("work") as env, config.create_reducer() as reducer:
            stead.tools.toolset(env, offloads=reducer if told else None)
            for number in range(3):
                await reducer.truncate(stead.reducer.ToolCall(str(number), "grep"), f"line {number}\n" * 1000)

    asyncio.run(use())
    assert [record.getMessage()[:47] for record in caplog.records] == [
        "notices name files in the environment 'archive'"
    ] * warnings


OBSERVER = """
from stead.hookspecs import hookimpl
seen = []

@hookimpl
def stead_reduced(report):
    seen.append([decision.action for decision in report.decisions])
    raise RuntimeError("an observer must not matter")
"""


def test_observers_are_told_of_reductions(install, caplog):
    """Of a reducer made from a configuration, beside the caller's own `on_report`."""
    import sys

    install("watch", {"stead.plugins": {"watch": "reduced_observer"}}, {"reduced_observer.py": OBSERVER})
    write('[environments.a]\nbackend = "memory"')
    reports = []

    async def use() -> None:
        async with load_config().create_reducer(on_report=reports.append) as reducer:
            await reducer.truncate(stead.reducer.ToolCall("1", "grep"), "text\n" * 20_000)

    asyncio.run(use())
    assert sys.modules["reduced_observer"].seen == [["reduced"]]
    assert len(reports) == 1
    assert "an observer must not matter" in caplog.text


# ---- the object itself ------------------------------------------------------------------------------------------------------


def test_a_configuration_cannot_be_changed():
    """Neither it nor what it hands out."""
    write('[environments.a]\nbackend = "local"\nlimits = { cpu_seconds = 1 }\n[reducer]\ntrunc_exclude_tools = ["x"]')
    config = load_config()
    with pytest.raises(AttributeError):
        config.path = PurePosixPath("/")
    with pytest.raises(TypeError):
        config.environments["b"] = config.environments["a"]
    config.environments["a"].options["limits"]["cpu_seconds"] = 2
    config.reducer["trunc_exclude_tools"].append("y")
    assert config.environments["a"].options == {"limits": {"cpu_seconds": 1}}
    assert dict(config.reducer) == {"trunc_exclude_tools": ["x"]}
    assert pickle.loads(pickle.dumps(config)) == config


# ---- check and schema -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("vault")
def test_check_finds_what_would_fail_and_what_is_unwise():
    """Each with its level; a variable that is not set here is a warning, and hides no error beside it."""
    file = write(
        '[environments.good]\nbackend = "vault"\nbucket = "b"\n'
        '[environments.missing]\nbackend = "s3"\nsecret_key = "plain"\n'
        '[environments.unset]\nbackend = "vault"\nsecret_key = { env = "NOT_SET" }\nbucket = { env = "NOT_SET" }\n'
        'retries = "many"\n'
        '[environments.cls]\nbackend = "no_such_module:X"\n'
        '[environments.plain]\nbackend = "vault"\nbucket = "b"\nsecret_key = "s3cret"\n'
        'extra = { token = ["a", "b"], deep = { password = "c" } }\n'
        '[reducer]\nenvironment = "goood"\n'
    )
    found = [(problem.level, problem.message.replace(f"{file}: ", "")) for problem in problems(load_config())]
    plain = 'is written in plain text; use { env = "NAME" } or a file'
    no_module = "cannot import 'no_such_module:X': ModuleNotFoundError: No module named 'no_such_module'"
    no_name = f"no environment of {file} and no installed backend is called 'goood'; did you mean 'good'?"
    assert sorted(found) == [
        ("error", f"environments.cls: {no_module}"),
        ("error", "environments.missing: the backend 's3' is not installed; pip install stead-s3"),
        ("error", "environments.unset.retries: input should be a valid integer, unable to parse string as an integer"),
        ("error", f"reducer: {no_name} If it is a backend that is not installed: pip install stead-goood"),
        ("warning", f"environments.missing.secret_key {plain}"),
        ("warning", f"environments.plain.extra.deep.password {plain}"),
        ("warning", f"environments.plain.extra.token[0] {plain}"),
        ("warning", f"environments.plain.extra.token[1] {plain}"),
        ("warning", f"environments.plain.secret_key {plain}"),
        ("warning", "environments.unset.bucket: the environment variable NOT_SET is not set"),
        ("warning", "environments.unset.secret_key: the environment variable NOT_SET is not set"),
    ]


@pytest.mark.usefixtures("vault")
def test_check_does_not_need_what_a_variable_gives(monkeypatch):
    """It looks as creating would."""
    write('[environments.a]\nbackend = "vault"\nsecret_key = { env = "NOT_SET" }')
    monkeypatch.setenv("STEAD_A__BUCKET", "b")
    monkeypatch.setenv("STEAD_A__SECRET_KEY", "s3cret")
    config = load_config()
    assert problems(config) == ()
    assert config.create_environment("a").given == {"bucket": "b", "secret_key": "s3cret"}


@pytest.mark.usefixtures("vault")
def test_the_schema_has_the_options_of_every_installed_backend():
    """Each may be a reference, none is needed (a variable may give it), and an unknown one is refused."""
    from stead.config.schema import config_schema

    schema = config_schema()
    variants = {v.get("title"): v for v in schema["properties"]["environments"]["additionalProperties"]["anyOf"]}
    assert set(variants) >= {"memory", "vault", None}
    vault = variants["vault"]
    assert vault["required"] == ["backend"]
    assert vault["additionalProperties"] is False
    assert vault["properties"]["backend"] == {"const": "vault"}
    reference = {"$ref": "#/$defs/reference"}
    assert vault["properties"]["retries"] == {"default": 3, "anyOf": [{"minimum": 0, "type": "integer"}, reference]}
    assert vault["properties"]["limits"]["anyOf"][0] == {"$ref": "#/$defs/vault.Limits"}
    assert schema["$defs"]["vault.Limits"]["properties"]["cpu"]
    assert variants["memory"]["properties"] == {"backend": {"const": "memory"}}
    assert variants[None]["properties"]["backend"]["not"]["enum"] == sorted(set(variants) - {None})


def test_the_schema_of_the_reducer_is_that_of_its_settings():
    """Whatever a file can give is in it, and nothing that only code can."""
    from stead.config.schema import config_schema

    reducer = config_schema()["properties"]["reducer"]
    settings = reducer["properties"]
    assert settings["environment"]["type"] == "string"
    assert settings["max_length_for_trunc"]["type"] == "integer"
    assert settings["language"]["enum"] == ["en", "zh"]
    assert settings["trunc_exclude_tools"]["items"] == {"type": "string"}
    assert "trunc_handler" not in settings
    tool = settings["tool_config"]["additionalProperties"]
    assert {"environment", "skip_truncation", "skip_clear", "preview"} <= set(tool["properties"])
    assert reducer["additionalProperties"] is tool["additionalProperties"] is False
