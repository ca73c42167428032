"""The tests of the Daytona plugin that need no sandbox; all others are in `tests/sandboxes`."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3] / "tests")]
