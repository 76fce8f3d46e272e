"""The kernels of packed tensors against the limits of one core, in processor time: also on a machine that is shared.

`[FASTQUAD_SIMD=v3] python benchmarks/kernels/limits.py [--blocks 60] [--rounds 5]` prints a row for each kernel. A
kernel and what it is held against take turns; a ratio is the median over the ratios of neighbours, with its quartiles.
Other processes still take their share of the memory's bandwidth and of the caches: compare rows of one run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from time import thread_time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import fastquad._kernels.bandwidth as bandwidth
import numpy as np
from machine import AHEAD
from numpy.typing import NDArray

from fastquad._kernels import packed as kernels
from fastquad.measurements.dense.layout import LANES, aligned_empty
from fastquad.measurements.dense.packed import PackedTensor

SIGNALS = 16


def seconds(run: Callable[[], object]) -> float:
    start = thread_time()
    run()
    return thread_time() - start


def ratio(kernel: Callable[[], object], rival: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """The time of the rival over that of the kernel: lower quartile, median, upper quartile."""
    kernel(), rival()
    found = []
    for _ in range(rounds):
        mine = seconds(kernel)
        found.append(seconds(rival) / mine)
    low, middle, high = quantiles(found, n=4, method="inclusive")
    return low, middle, high


def packed(n: int, blocks: int, dtype: str) -> PackedTensor:
    """A tensor of numbers that repeat: as long to read as any, and quickly made."""
    data = aligned_empty((blocks, kernels.entries(n), LANES), np.dtype(dtype))
    pattern = np.resize(np.linspace(-1, 1, 509).astype(dtype), data[0].shape)
    for block in data:
        block[...] = pattern
    return PackedTensor(data, blocks * LANES, n)


def reading(A: PackedTensor) -> Callable[[], None]:
    """The fastest loop that reads the bytes of A."""
    data, sums = A.blocks.reshape(-1).view(np.float64), np.zeros(1)
    loops = [lambda how=how: bandwidth.read(data, *how, sums, 0, 0, data.size) for how in AHEAD]
    return min(loops, key=lambda loop: min(seconds(loop) for _ in range(2)))


def multiplying(count: float) -> Callable[[], None]:
    """`count` multiply-adds of doubles in registers."""
    sums, rounds = np.zeros(1), int(count / bandwidth.per_round) + 1
    return lambda: bandwidth.multiply(rounds, 0.999, 0.001, sums, 0)


class Table:
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def row(self, what: str, kernel: Callable[[], object], rival: Callable[[], object], *, inverse=False) -> None:
        low, middle, high = ratio(kernel, rival, self.rounds)
        if inverse:
            low, middle, high = 1 / high, 1 / middle, 1 / low
        print(f"| {what} | {middle:.2f} | {low:.2f} to {high:.2f} |", flush=True)


def passes(table: Table, blocks: int) -> None:
    for dtype, n, precise in (("float64", 500, True), ("float32", 784, True), ("float32", 784, False)):
        A = packed(n, blocks if dtype == "float64" else blocks * 4 // 5, dtype)
        x, W = np.linspace(0.5, 1, n), np.empty((A.m, n))
        how = "double" if precise else "float"
        kernel = lambda A=A, x=x, W=W, precise=precise: A.products(x, out=W, precise=precise, n_threads=1)  # noqa: E731
        table.row(f"packed pass over reading, {dtype} in {how}, n = {n}", kernel, reading(A))
        symmetric = np.full((A.m * n, n), 0.5, dtype=dtype)
        narrow = x.astype(dtype)
        blas = lambda symmetric=symmetric, narrow=narrow: symmetric @ narrow  # noqa: E731
        table.row(f"against BLAS, {dtype} in {how}", kernel, blas)
        if dtype == "float32" and not precise:
            half = packed(n, A.blocks.shape[0], "float16")
            short = lambda half=half, x=x, W=W: half.products(x, out=W, precise=False, n_threads=1)  # noqa: E731
            table.row("packed pass over reading, float16 in float", short, reading(half))
            table.row("float16 against BLAS of float32", short, blas)
            double = lambda A=A, x=x, W=W: A.products(x, out=W, n_threads=1)  # noqa: E731
            table.row("float16 against the float32 pass in double", short, double)


def batches(table: Table, blocks: int) -> None:
    A = packed(500, max(2, blocks // 4), "float64")
    X, W = np.linspace(0.5, 1, 500 * SIGNALS).reshape(500, SIGNALS), np.empty((A.m, 500, SIGNALS))
    peak = multiplying(2 * SIGNALS * A.blocks.size)
    table.row(f"{SIGNALS} signals over the multiply-adds, float64", lambda: A.products(X, out=W, n_threads=1), peak)
    table.row(
        f"{SIGNALS} signals against {SIGNALS} passes, float64",
        lambda: A.products(X, out=W, n_threads=1), lambda: single_passes(A, X),
    )  # fmt: skip
    count = A.m * SIGNALS * (500 * 501 / 2 + SIGNALS * 500)
    name = f"compression to {SIGNALS} over the multiply-adds, float64"
    table.row(name, lambda: A.compress(X, n_threads=1), multiplying(count))
    B = packed(784, max(2, blocks // 5), "float32")
    X, W = np.linspace(0.5, 1, 784 * SIGNALS).reshape(784, SIGNALS), np.empty((B.m, 784, SIGNALS))
    name = f"{SIGNALS} signals in float against {SIGNALS} passes in double, float32"
    table.row(name, lambda: B.products(X, out=W, precise=False, n_threads=1), lambda: single_passes(B, X))


def single_passes(A: PackedTensor, X: NDArray[np.float64]) -> None:
    """The products of each column of X, one after the other."""
    x, w = np.ascontiguousarray(X[:, 0]), np.empty((A.m, A.n))
    for _ in range(X.shape[1]):
        A.products(x, out=w, n_threads=1)


def sparse(table: Table, blocks: int) -> None:
    A, support = packed(500, blocks, "float64"), np.random.default_rng(1).choice(500, 10, replace=False)
    x, few, W = np.ones(500), np.zeros(500), np.empty((A.m, 500))
    few[support] = 1.0
    full = lambda: A.products(x, out=W, n_threads=1)  # noqa: E731
    name = "signal with 10 nonzeros against the full pass, float64"
    table.row(name, lambda: A.products(few, out=W, n_threads=1), full)


def sweeps(table: Table, blocks: int) -> None:
    for dtype, n, count in (
        ("float64", 500, blocks), ("float64", 200, 6 * blocks), ("float32", 784, blocks), ("float16", 784, blocks),
    ):  # fmt: skip
        A = packed(n, count, dtype)
        z, v, c = np.linspace(0.5, 1, n), np.ones(n), np.ones(A.m)
        for precise in (True, False) if dtype != "float64" else (True,):
            how = "double" if precise else "float"
            name = f"sweep in reads, {dtype} in {how}, n = {n}"
            sweep = lambda A=A, z=z, v=v, c=c, p=precise: A.sweep(z, v, c, precise=p, n_threads=1)  # noqa: E731
            table.row(name, sweep, reading(A), inverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=60, help="blocks of 8 measurements (60: 480 MB of float64)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    table = Table(options.rounds)
    print(f"| {kernels.simd}, one thread, processor time | median | quartiles |\n| --- | --- | --- |")
    for part in (passes, batches, sparse, sweeps):
        part(table, options.blocks)


if __name__ == "__main__":
    main()
