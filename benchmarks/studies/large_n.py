"""Tensors larger than memory, and tensors that are never stored: what `make bench-large` measures.

    stored      a packed float32 tensor of 40 GB on disk, n = 2000, m = 5000, solved with a budget of 4 GB: a signal
                with k = 20 nonzeros by the default call, and a dense one, of which every pass is a full one
    computed    `GaussianTensor` n = 20,000, m = 2000, k = 10 (1.6 TB if stored), and n = 100,000, m = 500, k = 5
    products    one pass over a `GaussianTensor` against one over the same tensor packed in memory, n = 500

Each prints a line of JSON for what it measured, with its target, and the exit code is 1 where one is missed. `stored`
asks before it takes the room on the disk, and removes what it made, whatever happens. Solves run in processes of their
own, so that their peak of memory is theirs.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastquad as fq
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.disk.folder import BLOCKS, Folder
from fastquad.measurements.disk.reader import Ranges
from fastquad.measurements.disk.streamed import StreamedTensor

SEED = 1
BUDGET = 4 * 10**9
M, N, K = 5000, 2000, 20
#: What `dd` reads, before and after the solves.
DD_BYTES = 8 << 30


class Timed(StreamedTensor):
    """Notes the bytes and seconds of every full pass, from the first read to the last result."""

    def __init__(self, folder: Folder, memory: int) -> None:
        super().__init__(folder, memory)
        self.passes: list[tuple[int, float]] = []

    def _parts(self, ranges: Ranges | None = None) -> Iterator[tuple[slice, PackedTensor]]:
        start, before = time.perf_counter(), self.bytes_read
        yield from super()._parts(ranges)
        if ranges is None:
            self.passes.append((self.bytes_read - before, time.perf_counter() - start))


# -- what is measured ---------------------------------------------------------------------------------------------


def stored(folder: Path, scale: int) -> Iterator[dict[str, Any]]:
    """The tensor on disk: packed, then solved twice."""
    m, n = M // scale, N // scale
    path = folder / "A.fq"
    start = time.perf_counter()
    A = fq.pack(fq.GaussianTensor(m, n, seed=SEED), path, dtype="float32")
    seconds = time.perf_counter() - start
    yield {
        "what": "pack",
        "gigabytes": A.nbytes / 1e9,
        "seconds": seconds,
        "gigabytes_per_second": A.nbytes / 1e9 / seconds,
    }
    budget = min(BUDGET, A.nbytes // 2)
    speeds = [dd(path / BLOCKS)]
    found = {}
    for name, k in (("sparse", K), ("dense", n)):
        found[name] = in_a_process("solve_stored", path, budget, min(k, n))
        yield {"what": f"solve, {name}"} | found[name]
        speeds.append(dd(path / BLOCKS))
    yield {"what": "dd iflag=direct", "gigabytes_per_second": speeds}
    disk = statistics.mean(speeds)
    passes = [speed for solve in found.values() for speed in solve["pass_gigabytes_per_second"]]
    for name, solve in found.items():
        yield target(f"{name}: solved", solve["distance"], 1e-6, below=True)
        yield target(f"{name}: peak memory, GB", solve["peak_gigabytes"], 1.5 * BUDGET / 1e9, below=True)
        yield target(f"{name}: passes", solve["n_passes"], 15, below=True)
    yield target("sparse: bytes read over those of the tensor", found["sparse"]["bytes_read"] / A.nbytes, 4, below=True)
    yield target("speed of full passes over the disk's", statistics.median(passes) / disk, 0.7, below=False)


def computed(folder: Path, scale: int) -> Iterator[dict[str, Any]]:
    """Tensors that take no storage."""
    for m, n, k in ((2000, 20_000, 10), (500, 100_000, 5)):
        found = in_a_process("solve_computed", m // scale, n // scale, k)
        yield {"what": f"GaussianTensor n = {n // scale}, m = {m // scale}, k = {k}"} | found
        yield target(f"n = {n // scale}: solved", found["distance"], 1e-6, below=True)
        yield target(f"n = {n // scale}: seconds", found["seconds"], 120, below=True)


def products(folder: Path, scale: int) -> Iterator[dict[str, Any]]:
    """One pass, by turns over the tensor as it is made and as it is stored."""
    m, n = 800 // scale, 500
    A = fq.GaussianTensor(m, n, seed=SEED)
    packed = fq.pack(A, dtype="float32")
    x = np.random.default_rng(0).standard_normal(n)
    W = np.empty((m, n))
    seconds: dict[str, list[float]] = {"made": [], "stored": []}
    for _ in range(7):
        seconds["made"].append(timed(lambda: A.products(x, out=W)))
        seconds["stored"].append(min(timed(lambda: packed.products(x, out=W)) for _ in range(5)))
    best = {name: min(times) for name, times in seconds.items()}
    yield {
        "what": f"products, n = {n}, m = {m}",
        "seconds": best,
        "gigabytes_per_second": packed.nbytes / 1e9 / best["stored"],
    }
    yield target("made over stored, seconds", best["made"] / best["stored"], 12, below=True)


# -- in processes of their own ------------------------------------------------------------------------------------


def solve_stored(path: str, budget: str, k: str) -> dict[str, Any]:
    """The default call on the tensor on disk."""
    folder = Folder.open(path)
    A = Timed(folder, int(budget))
    # The same entries, of which a sparse signal makes only its rows.
    x, y = sparse_signal(fq.GaussianTensor(folder.m, folder.n, seed=SEED), int(k))
    said = solved(A, x, y)
    whole = [(size, seconds) for size, seconds in A.passes if size >= A.nbytes]
    speeds = [size / 1e9 / seconds for size, seconds in whole]
    return said | {"bytes_read": A.bytes_read, "full_passes": len(whole), "pass_gigabytes_per_second": speeds}


def solve_computed(m: str, n: str, k: str) -> dict[str, Any]:
    """The default call on a tensor that is never stored."""
    A = fq.GaussianTensor(int(m), int(n), seed=SEED)
    return solved(A, *sparse_signal(A, int(k)))


def solved(A: fq.Measurements, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """What came of a solve."""
    start, cpu = time.perf_counter(), time.process_time()
    solution = fq.solve(A, y)
    return {
        "status": solution.status.name.lower(),
        "method": solution.method,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "n_passes": solution.n_passes,
        "distance": float(fq.distance(solution.x, x)),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    }


def sparse_signal(A: fq.GaussianTensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A signal with k normal nonzeros, and its measurements."""
    rng = np.random.default_rng(SEED)
    x = np.zeros(A.n)
    x[rng.choice(A.n, k, replace=False)] = rng.standard_normal(k)
    return x, fq.measure(A, x)


def in_a_process(name: str, *arguments: Any) -> dict[str, Any]:
    """What a function of this file returns, called in a new process."""
    command = [sys.executable, __file__, "--call", name, *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


# -- the machine, and the report ----------------------------------------------------------------------------------


def dd(path: Path) -> float:
    """Gigabytes a second at which the disk reads a file from one end to the other, past the page cache."""
    count = max(1, min(path.stat().st_size, DD_BYTES) >> 22)
    command = ["dd", f"if={path}", "of=/dev/null", "bs=4M", "iflag=direct", f"count={count}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stderr
    match = re.search(r"(\d+) bytes .* copied, ([0-9.e-]+) s", said)
    assert match is not None, said
    return int(match[1]) / 1e9 / float(match[2])


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def target(what: str, measured: float, limit: float, *, below: bool) -> dict[str, Any]:
    """A measure, its target, and whether it was met."""
    met = measured <= limit if below else measured >= limit
    return {"target": what, "measured": measured, ("at most" if below else "at least"): limit, "met": met}


def room_for(folder: Path, scale: int, sure: bool) -> None:
    """Ask for the room on the disk; end here where there is none, or the answer is no."""
    needed = M // scale * (N // scale) ** 2 * 2 / 1e9 * 1.02
    free = shutil.disk_usage(folder).free / 1e9
    if free < needed + 5:
        sys.exit(
            f"large_n: {needed:.1f} GB are needed in {folder}, and 5 to spare; {free:.1f} GB are free: use --folder."
        )
    if sure:
        return
    if not sys.stdin.isatty():
        sys.exit("large_n: say --yes, or run it in a terminal: it asks before it takes room on the disk.")
    answer = input(f"This takes {needed:.1f} GB in {folder} ({free:.1f} GB are free) until it ends. Go on? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        sys.exit("large_n: nothing was done.")


PARTS = {"stored": stored, "computed": computed, "products": products}


def main() -> int:
    """Measure; 1 where a target was missed."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; default all")
    words.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the tensor is put")
    words.add_argument("--yes", action="store_true", help="do not ask for the room on the disk")
    words.add_argument("--scale", type=int, default=1, help="divide m and n by this, to try it out")
    options = words.parse_args()
    parts = options.parts or list(PARTS)
    if "stored" in parts:
        room_for(options.folder, options.scale, options.yes)
    missed = False
    # A scheduler's way to say stop: the folder is removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("large_n: stopped."))
    with tempfile.TemporaryDirectory(prefix="fastquad-large-", dir=options.folder) as folder:
        for part in parts:
            for line in PARTS[part](Path(folder), options.scale):
                print(json.dumps(line), flush=True)
                missed |= not line.get("met", True)
    return int(missed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        print(json.dumps(globals()[sys.argv[2]](*sys.argv[3:])))
    else:
        sys.exit(main())
