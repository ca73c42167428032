"""The shell scripts of this package, put together from the files in `scripts/`."""

from functools import cache
from importlib.resources import files

__all__ = ["NAMES", "script"]

_PARTS = {
    "hello": ("common", "hello"),
    "stat": ("common", "walk", "stat"),
    "read": ("common", "walk", "piece", "read"),
    "lines": ("common", "walk", "piece", "lines"),
    "list": ("common", "walk", "list"),
    "check": ("common", "walk", "target", "check"),
    "commit": ("common", "walk", "target", "commit"),
    "delete": ("common", "walk", "delete"),
    "start": ("common", "walk", "job", "start"),
    "wait": ("common", "job", "wait"),
    "follow": ("common", "piece", "job", "follow"),
    "stop": ("common", "tree", "job", "stop"),
    "clean": ("common", "clean"),
    "supervise": ("common", "tree", "supervise"),
}

NAMES = (
    "STEAD_AGAIN", "STEAD_CWD", "STEAD_DIR", "STEAD_DROP", "STEAD_ID", "STEAD_JOB", "STEAD_LEASE", "STEAD_LIMIT",
    "STEAD_MARK", "STEAD_ROOT", "STEAD_SCRATCH", "STEAD_SCRIPT", "STEAD_SPILL_BLOCKS", "STEAD_SPILL_JSON",
    "STEAD_STATE", "STEAD_STDIN", "STEAD_SUPERVISE", "STEAD_TIMEOUT", "STEAD_WAIT", "STEAD_WORDS",
    "STEAD_WORDS_FILE",
)  # fmt: skip
"""Variables that a command must not see."""


@cache
def script(name: str) -> str:
    """Returns the text of a script, without its comments."""
    folder = files("stead.posix") / "scripts"
    texts = [(folder / f"{part}.sh").read_text(encoding="utf-8") for part in _PARTS[name]]
    lines = (line for text in texts for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))
