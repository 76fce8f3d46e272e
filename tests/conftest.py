"""Puts `helpers` on the path, for what tests share; and lets Ctrl-C reach them."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

# What a shell that is not interactive runs in the background ignores Ctrl-C, and so would the tests' own processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
