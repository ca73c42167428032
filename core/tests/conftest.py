"""Fixtures that several test files share."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The tests import their helpers by name.
sys.path.insert(0, str(Path(__file__).parent))

REMOTE = {"s3", "gcs", "fsspec", "e2b", "daytona"}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores it, and so would everything that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def no_remote_backends() -> Iterator[None]:
    """Hides the remote backends of this project, so that the core's tests say the same wherever they are installed."""
    from stead import registry

    found = registry.entry_points
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda **where: [p for p in found(**where) if p.name not in REMOTE])
        registry._points.cache_clear()
        yield
    registry._points.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Installs a made-up distribution for one test: `install("acme", {"stead.backends": {"acme": "acme.plugin"}})`.

    Modules are given as text by their path. Returns the folder that is on `sys.path`.
    """
    from stead import observers, registry

    caches = (registry._points, registry._load, observers._manager)

    def forget() -> None:
        for cache in caches:
            cache.cache_clear()

    def add(name: str, points: dict[str, dict[str, str]], modules: dict[str, str] | None = None) -> Path:
        site = tmp_path / f"site-{name}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        sections = (
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in items.items()) for group, items in points.items()
        )
        (info / "entry_points.txt").write_text("\n".join(sections))
        for path, text in (modules or {}).items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        monkeypatch.syspath_prepend(site)
        forget()
        return site

    yield add
    monkeypatch.undo()
    forget()
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
