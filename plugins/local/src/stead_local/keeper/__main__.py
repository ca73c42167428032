"""Starts the first keeper: `python -I -S .../stead_local/keeper/__main__.py DESCRIPTOR`."""

import os
import sys

if not __package__:
    # Run by its path. The modules of the keeper import each other by their full names; the package's own __init__,
    # which loads more, is left out.
    package = type(sys)("stead_local")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["stead_local"] = package

from stead_local.keeper.parent import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
