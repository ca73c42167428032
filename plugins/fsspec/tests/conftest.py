"""The tests of the fsspec backend and of the base of object stores."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]
