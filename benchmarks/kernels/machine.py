"""The machine's own limits, as rivals in a race: reading memory and multiplying in registers; and its description."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import fastquad._kernels.bandwidth as bandwidth
import numpy as np
from numpy.typing import NDArray

from fastquad._kernels import packed as kernels
from fastquad.measurements.dense import prefetch
from fastquad.system import threads

#: How many cache lines ahead the reading loops prefetch, 0 in the plain loop, and whether past the caches.
AHEAD = ((0, False), (16, False), (32, False), (128, False), (80, True), (128, True), (160, True))

#: Resolution of the time that the system books for processes, in seconds.
TICK = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.0

_CHUNK = (4 << 20) // 8
_PACKAGES = ("numpy", "scipy", "torch", "jax", "numba")


def reading_loops(array: NDArray, n_threads: int) -> dict[str, Callable[[], None]]:
    """Loops that read the bytes of an array, the ones that a kernel reads too, as a sum of doubles."""
    data = array.reshape(-1).view(np.float64)
    chunks = threads.chunks(data.size, _CHUNK)
    sums = np.zeros(len(chunks))

    def loop(ahead: int, once: bool) -> Callable[[], None]:
        tasks = [(data, ahead, once, sums, task, *chunk) for task, chunk in enumerate(chunks)]
        return lambda: threads.run(bandwidth.read, tasks, threads.worthwhile(n_threads, array.nbytes))

    def name(ahead: int, once: bool) -> str:
        return f"read, {ahead} lines ahead{', not kept' if once else ''}" if ahead else "read, plain"

    return {name(*how): loop(*how) for how in AHEAD}


def multiply_adds(count: float, n_threads: int) -> Callable[[], None]:
    """`count` fused multiply-adds of doubles, from registers alone."""
    tasks = 8 * n_threads
    rounds = int(count / (bandwidth.per_round * tasks)) + 1
    sums = np.zeros(tasks)
    arguments = [(rounds, 0.999, 0.001, sums, task) for task in range(tasks)]
    return lambda: threads.run(bandwidth.multiply, arguments, n_threads)


def busy_elsewhere() -> float:
    """Seconds for which others have used the cores that this process may use; 0 where the system does not tell."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for name, *fields in map(str.split, lines):
        if name in cores:
            user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks * TICK - time.process_time()


def describe() -> dict[str, object]:
    """What the report says about the machine and the versions."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "missing"
    return {
        "architecture": platform.machine(),
        "processor": prefetch.machine(),
        "simd": kernels.simd,
        "cores": os.cpu_count(),
        "cache": _last_level_cache(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _last_level_cache() -> str:
    levels = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    return (levels[-1] / "size").read_text().strip() if levels else "unknown"
