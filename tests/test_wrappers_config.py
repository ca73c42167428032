"""`stead.toml` puts environments together: wrappers are backends whose options name other environments of the file."""

import asyncio
import json
import logging
import re
from pathlib import Path

import pytest

import stead
from stead.cli import main as cli
from stead.config.checking import problems
from stead.config.schema import config_schema
from stead.errors import AccessDenied, ConfigError, EnvironmentClosed, PathOutsideRoot
from stead.registry import load_backend
from stead.wrappers import MountsEnvironment, ReadOnlyEnvironment, ScopedEnvironment, StagedEnvironment

FILE = """
[environments.work]
backend = "local"
root = "work"
[environments.archive]
backend = "memory"
[environments.both]
backend = "mounts"
main = "work"
mounts = { results = "archive", "/far/away" = "view" }
[environments.view]
backend = "read_only"
environment = "team"
[environments.team]
backend = "scoped"
environment = "archive"
folder = "team-a"
[environments.machine]
backend = "staged"
store = "archive"
machine = "work"
wanted = ["**/*.txt"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    return tmp_path


def loaded(text=FILE):
    with open("stead.toml", "w") as file:
        file.write(text)
    return stead.load_config("stead.toml")


def test_each_wrapper_comes_from_the_file(folder):
    """A mount has what is mounted, a view refuses, a scope sees its folder, a staged command works on the store."""
    config = loaded()

    async def main():
        async with config.create_environment("both") as env:
            assert isinstance(env, MountsEnvironment)
            await env.write_file("results/r", "kept elsewhere")
            await env.write_file("draft", "kept here")
            assert (await env.execute("ls")).stdout == "draft\n"
            with pytest.raises(AccessDenied, match="read-only"):
                await env.write_file("/far/away/f", "x")
        async with config.create_environment("team") as env:
            assert isinstance(env, ScopedEnvironment)
            assert (await env.write_file("f", "x")).path == "/f"
            with pytest.raises(PathOutsideRoot):
                await env.read_file("../f")
        async with config.create_environment("view") as env:
            assert isinstance(env, ReadOnlyEnvironment)
        async with config.create_environment("machine") as env:
            assert isinstance(env, StagedEnvironment)
            await env.write_file("a/in.txt", "3\n1\n")
            await env.write_file("big.bin", "not wanted")
            assert (await env.execute("sort a/in.txt > out.txt; ls")).stdout == "a\ndraft\nout.txt\n"
            assert await env.read_file("out.txt") == b"1\n3\n"

    asyncio.run(main())
    assert (folder / "work/draft").read_text() == "kept here"


def test_what_is_listed_is_the_most_that_there_is():
    """`stead backends` says of each wrapper at least what one of them declares, whatever it is made of."""
    text = (
        FILE
        + """
    [environments.machines]
    backend = "mounts"
    main = "work"
    mounts = { other = "work" }
    [environments.local_view]
    backend = "read_only"
    environment = "work"
    """
    )
    config = loaded(text)
    for name in ("both", "machines", "view", "local_view", "team", "machine"):
        said = load_backend(config.environments[name].backend).capabilities.declared()
        assert set(config.create_environment(name).capabilities.declared()) <= set(said), name


def test_parts_are_owned_and_options_reach_only_their_own():
    """Closing the whole closes its parts; a keyword is an option of the wrapper."""

    async def main():
        env = loaded().create_environment("team", folder="team-b")
        async with env:
            await env.write_file("f", "x")
            assert await env.inner.inner.read_file("team-b/f") == b"x" if hasattr(env.inner, "inner") else True
            assert await env.inner.read_file("team-b/f") == b"x"
        with pytest.raises(EnvironmentClosed):
            await env.inner.read_file("team-b/f")

    asyncio.run(main())


def test_by_name_without_a_file():
    """Outside a file, the parts are backends or classes."""

    async def main():
        async with stead.create_environment("scoped", environment="memory", folder="a") as env:
            await env.write_file("f", "x")
            assert await env.inner.read_file("a/f") == b"x"

    asyncio.run(main())
    with pytest.raises(ConfigError, match="needs the option 'folder'"):
        stead.create_environment("scoped", environment="memory")
    with pytest.raises(ConfigError, match="should be a valid string"):
        stead.create_environment("read_only", environment=stead.create_environment("memory"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('environment = "arhive"', r"environments\.bad\.environment: no environment of .*did you mean 'archive'\?"),
        ('environment = "archive"\nfoldr = "x"', r"environments\.bad\.foldr is unknown; did you mean 'folder'\?"),
        ('environment = "work"\nfolder = "x"', "has links or commands, which a scope cannot hold"),
        ('environment = "archive"\nfolder = "../x"', "outside"),
        ("environment = 7", r"environments\.bad\.environment: input should be a valid string"),
    ],
    ids=["unknown", "option", "commands", "folder", "type"],
)
def test_wrong_parts_are_named(line, said):
    """What is wrong with a part is said with the file, the option and the nearest name."""
    more = "" if "folder" in line or "foldr" in line else '\nfolder = "f"'
    with pytest.raises((ConfigError, PathOutsideRoot), match=said):
        loaded(f'{FILE}[environments.bad]\nbackend = "scoped"\n{line}{more}\n').create_environment("bad")


def test_a_part_of_a_table_is_named():
    """A mount that names nothing is told by its mount point, also by `stead config check`."""
    config = loaded(FILE.replace('results = "archive"', 'results = "archiv"'))
    said = "environments.both.mounts.results: no environment of"
    with pytest.raises(ConfigError, match="did you mean 'archive'") as caught:
        config.create_environment("both")
    assert said in caught.value.message
    (problem,) = problems(config)
    assert (problem.level, said in problem.message) == ("error", True)


@pytest.mark.parametrize(
    ("changes", "way"),
    [
        ({'environment = "archive"': 'environment = "team"'}, "team -> team"),
        ({'environment = "archive"': 'environment = "view"'}, "view -> team -> view"),
        ({'main = "work"': 'main = "both"'}, "both -> both"),
    ],
    ids=["itself", "two", "mounts"],
)
def test_circles_are_refused_when_the_file_is_read(changes, way):
    """An environment that would be made of itself is an error that shows the way round."""
    text = FILE
    for old, new in changes.items():
        text = text.replace(old, new)
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    assert way in caught.value.message


def test_a_circle_by_variable_is_refused(monkeypatch):
    """A variable can make a circle that the file does not have: making the environment refuses it."""
    monkeypatch.setenv("STEAD_TEAM__ENVIRONMENT", "view")
    with pytest.raises(ConfigError, match="team -> view -> team"):
        loaded().create_environment("team")


def test_variables_and_secrets_of_a_part(folder, monkeypatch):
    """Secrets of a part stay references until it is made, its own variables hold, and nothing that is shown has them."""
    code = "from stead.environments import MemoryEnvironment\n"
    code += "class Env(MemoryEnvironment):\n    def __init__(self, *, token: str, region: str = ''):\n"
    code += "        super().__init__()\n        self.given = (token, region)\n"
    (folder / "vaulted.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    config = loaded("""
    [environments.far]
    backend = "vaulted:Env"
    token = { env = "MY_TOKEN" }
    [environments.seen]
    backend = "read_only"
    environment = "far"
    """)
    monkeypatch.setenv("MY_TOKEN", "geheim")
    monkeypatch.setenv("STEAD_FAR__REGION", "north")
    env = config.create_environment("seen")
    assert env.inner.given == ("geheim", "north")
    assert "geheim" not in repr(config) + repr(env)
    assert problems(config) == ()
    monkeypatch.delenv("MY_TOKEN")
    assert [problem.level for problem in problems(config)] == ["warning"]
    with pytest.raises(ConfigError, match="MY_TOKEN is not set"):
        config.create_environment("seen")


def test_the_command_line_copes(capsys):
    """`stead config check`, `show` and `schema` know the wrappers, and `stead doctor` tries one."""
    loaded()

    def stead_says(*words):
        with pytest.raises(SystemExit) as ended:
            cli(list(words))
        return ended.value.code, capsys.readouterr().out

    assert stead_says("config", "check") == (0, f"{stead.load_config().path}: ok, 6 environments\n")
    shown = stead_says("config", "show")[1]
    assert 'mounts = { results = "archive", "/far/away" = "view" }' in shown
    told = json.loads(stead_says("config", "show", "--json")[1])
    assert told["environments"]["team"] == {"backend": "scoped", "environment": "archive", "folder": "team-a"}
    found = json.loads(stead_says("config", "schema")[1])
    titles = {variant.get("title") for variant in found["properties"]["environments"]["additionalProperties"]["anyOf"]}
    assert {"mounts", "staged", "scoped", "read_only"} <= titles
    code, out = stead_says("doctor", "--env", "machine")
    assert (code, "FAIL" in out, "backend 'staged'" in out) == (0, False, True)


def test_the_schema_accepts_the_file():
    """The schema says of each part that it is a text, and of mounts that they are a table of texts."""
    variants = {
        v.get("title"): v for v in config_schema()["properties"]["environments"]["additionalProperties"]["anyOf"]
    }
    assert variants["scoped"]["properties"]["environment"]["anyOf"][0]["type"] == "string"
    assert variants["mounts"]["properties"]["mounts"]["type"] == "object"


def test_conflicts_are_logged(caplog):
    """A staged environment of a file has nobody to report conflicts to, so it logs each as a warning."""

    async def main():
        async with loaded().create_environment("machine") as env:
            await env.write_file("f.txt", "base\n")
            running = asyncio.create_task(
                env.execute("touch started; while [ ! -e go ]; do sleep 0.02; done; echo m > f.txt")
            )
            while not any(entry for entry in await names(env.machine) if entry == "started"):
                await asyncio.sleep(0.01)
            await env.inner.write_file("f.txt", "other\n")
            await env.machine.write_file("go", "")
            await running
            return await env.read_file("f.txt")

    with caplog.at_level(logging.WARNING, "stead.wrappers.staged"):
        assert asyncio.run(main()) == b"other\n"
    assert "'f.txt' was changed in the store while a command ran" in caplog.text
    assert "kept as 'f.txt.conflict-" in caplog.text


async def names(env):
    return [entry.path.rpartition("/")[2] async for entry in env.list_files(".")]


def test_the_examples_of_the_how_to_work(folder):
    """The tables of the how-to page, read as one file with a store of this machine, make what the page says."""
    page = Path(__file__).parents[1] / "docs/how-to/combine-environments.md"
    text = "\n".join(re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
    store = 'backend = "s3"\nbucket = "agent-results"\nsecret_key = { env = "S3_SECRET" }\n'
    assert store in text
    config = loaded(text.replace(store, 'backend = "memory"\n'))
    assert [problem.message for problem in problems(config)] == []
    (folder / "machine").mkdir()

    async def main():
        async with config.create_environment() as env:
            await env.write_file("results/r", "1")
            await env.write_file("/shared/team-a/t", "2")
            await env.write_file("w", "3")
            assert (await env.execute("ls")).stdout == "w\n"
        async with config.create_environment("analysis") as env:
            await env.write_file("data/deep/in", "4")
            await env.write_file("notes", "5")
            assert (await env.execute("find . -type f -not -path './.stead/*'")).stdout == "./data/deep/in\n"
        async with config.create_environment("view") as env:
            with pytest.raises(AccessDenied):
                await env.write_file("f", "6")

    asyncio.run(main())
