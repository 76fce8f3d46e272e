"""A deadline for tests of what must not wait, such as a FIFO in place of a file."""

import signal
from contextlib import contextmanager


@contextmanager
def deadline(seconds):
    """Fail a test that takes longer in this block: an alarm interrupts it."""

    def fail(*_):
        raise AssertionError("it hung")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
