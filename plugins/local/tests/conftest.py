"""The tests of the local backend import their helpers by name."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores it, and so would everything that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
