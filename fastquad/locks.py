"""One process at a file: what packing, checkpoints and experiments keep others out with."""

from __future__ import annotations

from typing import IO


def lock(stream: IO[bytes]) -> bool:
    """Whether this process has the open file to itself from now on; True as well on a system that has no locks.

    A lock ends with its process, however that ends, or when the file is closed.
    """
    try:
        import fcntl
    except ImportError:  # not on this platform
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
