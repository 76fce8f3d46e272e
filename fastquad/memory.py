"""How much memory a solve may use, and how it is shared out.

Of a budget M the reads ahead of the computation take a quarter at most, and the rows of A that are kept another (see
`fastquad.measurements.streamed`). Solvers have the rest for what they keep of A: pursuit M/8 for its pairs and M/4 for
its rows, Levenberg–Marquardt M/16 for its block, which takes up to three times that while it grows. What has to be
there in any case, a few arrays of shape (m, n), is not counted.
"""

from __future__ import annotations

import math
import os
import re
import time
from typing import Any

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# To ask the system takes a twentieth of a small solve: one answer does for so many seconds.
_FRESH = 0.1
_last = (-math.inf, 0)
# The limit of this process's container or job, and what is used of it.
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")


def budget(memory: Any) -> int:
    """A budget in bytes: as given ("4 GB", 4e9), or by default half of what this process can have."""
    if memory is None:
        return available() // 2
    expected = "`memory` must be a number of bytes, or a string such as '4 GB'"
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]i?)?b?\s*", memory.lower())
        try:
            size = float(match[1]) * _UNITS[match[2] or ""] if match else 0.0
        except ValueError:
            size = 0.0
    elif isinstance(memory, (int, float)) and not isinstance(memory, bool):
        size = float(memory)
    else:
        raise TypeError(f"{expected}, got {memory!r}.")
    if not 1 <= size < 2**63:
        raise ValueError(f"{expected}, got {memory!r}.")
    return int(size)


def available() -> int:
    """Bytes that this process can still have, within the limits of its container or job, as of a moment ago."""
    global _last
    now = time.monotonic()
    if now - _last[0] > _FRESH:
        _last = now, _available()
    return _last[1]


def _available() -> int:
    free = _free_on_the_machine()
    limit, used = map(_number, _CGROUP)
    if limit is not None and used is not None:
        free = min(free, max(0, limit - used))
    return max(free, 64 << 20)


def _free_on_the_machine() -> int:
    try:
        said = re.search(rb"MemAvailable:\s*(\d+) kB", _content("/proc/meminfo"))
    except OSError:
        said = None
    if said:
        return int(said[1]) << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # not on this platform
        return 4 << 30


def _number(path: str) -> int | None:
    """The number in a file, or None where there is none."""
    try:
        return int(_content(path))
    except (OSError, ValueError):
        return None


def _content(path: str) -> bytes:
    """The first 4 kB of a file: without the layers of `open`, because every solve asks."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)
