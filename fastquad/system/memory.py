"""How much memory a solve may use, and how it is shared out.

Of a budget M, reading ahead takes at most a quarter, and the rows of A that a streamed tensor keeps another quarter
(see `fastquad.measurements.disk.streamed`). The rest is for what solvers keep of A: pursuit M/8 for its pairs and M/4
for its rows, Levenberg–Marquardt M/16 for its block, which takes up to three times that while it grows. A few arrays of
shape (m, n), which every solve needs, are not counted.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from fastquad.system import cgroups
from fastquad.system.cgroups import content

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# Seconds to reuse the system's last answer for: asking takes a twentieth of a small solve.
_FRESH = 0.1
_last = (-math.inf, 0)
# The least number of bytes reported as available: with less nothing can be solved, so let the system refuse it.
_LEAST = 64 << 20
# What the C library may keep of freed memory is twice this.
_KEPT = 2 << 20
# The files of each version of control groups: the limit, the use, and the name in memory.stat of what the system can
# reclaim at once (pages of files that were not used lately).
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
    2: ("memory.max", "memory.current", b"inactive_file"),
}


@cache
def keep_freed() -> None:
    """Let the C library keep the few hundred kB that a small solve frees, for the next one; once a process.

    glibc gives memory back to the system where more than twice the largest block that was ever freed, and 128 kB at
    first, is free at the end of the heap. In a program that has freed nothing larger, every small solve would get its
    arrays anew, page by page: two hundred page faults, a tenth of its time. This block is never touched.
    """
    np.empty(_KEPT, dtype=np.uint8)


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
    """The bytes that this process can still get, under its own limits and those of its container or job."""
    global _last
    now = time.monotonic()
    if now - _last[0] > _FRESH:
        _last = now, _available()
    return _last[1]


def _available() -> int:
    known = [_free_on_the_machine(), *_free_in_groups(), *_free_by_limits()]
    return max(min(known), _LEAST)


def _free_on_the_machine() -> int:
    try:
        said = re.search(rb"MemAvailable:\s*(\d+) kB", content(f"{cgroups.ROOT}proc/meminfo"))
    except OSError:
        said = None
    if said:
        return int(said[1]) << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # not on this platform
        return 4 << 30


def _free_in_groups() -> Iterator[int]:
    """The bytes left under the limit of each control group around this process."""
    for folder, version in cgroups.groups("memory"):
        limit_file, used_file, reclaimable = _FILES[version]
        limit = cgroups.number(folder, limit_file)
        # Version 1 writes "no limit" as a number near 2^63.
        if limit is None or limit >= 1 << 60:
            continue
        used = cgroups.number(folder, used_file)
        if used is not None:
            yield max(0, limit - used + _statistic(folder, reclaimable))


def _statistic(folder: str, name: bytes) -> int:
    """A number from a group's memory.stat, which has lines such as `inactive_file 4096`."""
    try:
        said = re.search(rb"^%b (\d+)$" % name, content(f"{folder}/memory.stat"), re.MULTILINE)
    except OSError:
        return 0
    return int(said[1]) if said else 0


def _free_by_limits() -> Iterator[int]:
    """The bytes left under this process's own limits: of addresses (`ulimit -v`) and of data (`ulimit -d`)."""
    try:
        import resource

        statm = [int(pages) for pages in content(f"{cgroups.ROOT}proc/self/statm").split()]
    except (ImportError, OSError):  # not on this platform
        return
    page = resource.getpagesize()
    # Fields of statm, in pages: size, resident, shared, text, lib, data, dt.
    for limit, used in ((resource.RLIMIT_AS, statm[0]), (resource.RLIMIT_DATA, statm[5])):
        soft = resource.getrlimit(limit)[0]
        if soft != resource.RLIM_INFINITY:
            yield max(0, soft - used * page)
