"""What is true of the whole repository: sizes, layers, imports, public names."""

import ast
import importlib
import pkgutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stead

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    p
    for d in ("core/src", *(f"plugins/{p.name}/src" for p in (ROOT / "plugins").iterdir()))
    for p in (ROOT / d).rglob("*.py")
)
PLUGIN_FILES = {"__init__", "plugin", "config", "environment", "files", "commands", "errors"}


# The one public `**options`, its adapters, and `Executor.submit`, whose signature the standard library gives.
OPEN_SIGNATURES = {"create_environment", "create", "environment", "submit", "ask", "call"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_stead_loads_nothing_heavy():
    """`import stead` brings no pydantic, SDK, plugin manager, entry points, tools or configuration."""
    loaded = set(python("import sys, stead; print(*sys.modules)").split())
    heavy = {"pydantic", "pluggy", "numpy", "typer", "rich", "stringzilla", "tiktoken", "zstandard", "importlib.metadata", "stead.tools", "stead.config", "stead.registry", "stead.reducer", "stead.sync", "stead_local"}  # fmt: skip

    assert loaded & heavy == set()


def test_importing_stead_costs_at_most_twice_asyncio():
    """Measured in pairs in the same run: stead, which itself needs asyncio, against asyncio alone."""

    def seconds(module: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - start

    bare = statistics.median(seconds("sys") for _ in range(7))
    ratios = []
    for _ in range(9):
        asyncio_cost, ours = seconds("asyncio") - bare, seconds("stead") - bare
        ratios.append(ours / max(asyncio_cost, 0.001))
    assert statistics.median(ratios) <= 2


def test_listing_backends_loads_no_backend():
    """Asking what is installed imports plugin modules only: no SDK, and not what a plugin would run."""
    loaded = set(
        python("import sys; from stead.registry import list_backends; list_backends(); print(*sys.modules)").split()
    )
    sdks = {"s3fs", "gcsfs", "fsspec", "aiobotocore", "e2b", "daytona", "numpy", "rich", "typer"}

    assert "stead_local.plugin" in loaded
    assert loaded & {"stead_local.environment", "stead_local.commands", *sdks} == set()


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_readable(path):
    """No file over 400 lines, no function over 60, no public function with **kwargs or more than 8 parameters."""
    text = path.read_text()
    tree = ast.parse(text)

    assert text.count("\n") <= 400
    nested = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, FUNCTIONS)
        for inner in ast.walk(outer)
        if inner is not outer
    }
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            docstring = ast.get_docstring(node, clean=False) or ""
            assert node.end_lineno - node.lineno - docstring.count("\n") <= 60, node.name
            if node not in nested and not node.name.startswith("_") and node.name not in OPEN_SIGNATURES:
                assert node.args.kwarg is None, f"{node.name} takes **{node.args.kwarg and node.args.kwarg.arg}"


def test_modules_export_what_exists():
    """Each public module of the core has an `__all__` whose names all exist; ruff keeps it sorted."""
    for module in pkgutil.walk_packages(stead.__path__, "stead."):
        if "conformance" in module.name or module.name.startswith("stead.cli"):
            continue  # need their extras; their own tests import them
        if module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        assert hasattr(loaded, "__all__"), module.name
        assert all(hasattr(loaded, name) for name in loaded.__all__), module.name


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_layers():
    """The core knows no plugin; reading does no I/O; only tools, config and their like use pydantic."""
    core = ROOT / "core/src/stead"
    for path in core.rglob("*.py"):
        where = str(path.relative_to(core))
        names = imports_of(path)
        assert not {n for n in names if n.startswith("stead_")} or where.startswith(("cli/demo", "cli/new_backend")), (
            where
        )
        if where.startswith("reading/"):
            assert names & {"os", "io", "pathlib", "asyncio", "threading"} <= {"threading"}, where
        if not where.startswith(("tools/", "config", "cli/", "registry", "conformance/")):
            assert not {n for n in names if n.partition(".")[0] == "pydantic"}, where


def test_plugins_have_the_same_file_names():
    """Each backend plugin has the files that the layout names; commands.py only where commands exist."""
    for plugin in (ROOT / "plugins").iterdir():
        package = next((plugin / "src").iterdir())
        names = {path.stem for path in package.glob("*.py")}
        assert names >= PLUGIN_FILES - {"commands"}, plugin.name
        assert (package / "py.typed").exists(), plugin.name
        assert {"README.md", "pyproject.toml"} <= {p.name for p in plugin.iterdir()}, plugin.name


def test_no_registry_host_and_no_lock_file():
    """Pins are in constraints.txt; nothing records where packages come from."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    hosts = ("pypi" + ".org", "pythonhosted" + ".org", "deb." + "debian.org", "npmjs" + ".org", "--index" + "-url")

    assert "uv.lock" not in tracked
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yml", ""} and path.is_file():
            assert not [host for host in hosts if host in path.read_text(errors="replace")], name
