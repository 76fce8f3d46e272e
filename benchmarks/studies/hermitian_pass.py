"""The packed Hermitian pass: bytes over read bandwidth, and against NumPy's BLAS on the same Hermitian array.

Run as `python benchmarks/studies/hermitian_pass.py [GB]`; the packed tensor has that many gigabytes, 1 unless given.
Each figure is given by the clock and by the time of all processors: the latter is what to look at where other programs
share the machine. It is fair to BLAS with OPENBLAS_NUM_THREADS=1, whose threads wait busily else.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))

from machine import reading_loops

import fastquad as fq

N, N_THREADS, ROUNDS = 500, 2, 7


def seconds(function, *arguments, **options):
    """How long a call takes, by the clock and by the processors."""
    start = np.array([time.perf_counter(), time.process_time()])
    function(*arguments, **options)
    return np.array([time.perf_counter(), time.process_time()]) - start


def hermitian(m, dtype):
    """m Hermitian matrices: eight different ones, repeated."""
    rng = np.random.default_rng(0)
    some = rng.standard_normal((8, N, N), dtype=np.float32) + 1j * rng.standard_normal((8, N, N), dtype=np.float32)
    return np.tile(((some + some.transpose(0, 2, 1).conj()) / 2).astype(dtype), (m // 8, 1, 1))


def compare(dtype, size):
    """Time a pass, a read of as many bytes and BLAS in turns: what else runs on the machine meets all of them."""
    m = int(np.ceil(size * 1e9 / (N * N * np.dtype(dtype).itemsize / 2) / 8)) * 8
    A = hermitian(m, dtype)
    packed = fq.pack(A)
    rng = np.random.default_rng(1)
    x = rng.standard_normal(N) + 1j * rng.standard_normal(N)
    W, rows, single = np.empty((m, N), dtype=complex), A.reshape(m * N, N), x.astype(dtype)
    loops = reading_loops(packed.blocks, N_THREADS).values()
    read_all = min(loops, key=lambda loop: min(seconds(loop)[0] for _ in range(3)))
    packed.products(x, out=W, n_threads=N_THREADS)
    assert np.allclose(W[:8], A[:8].astype(complex) @ x, rtol=1e-4, atol=1e-4)
    times = np.array(
        [
            (
                seconds(packed.products, x, out=W, n_threads=N_THREADS),
                seconds(read_all),
                seconds(np.matmul, rows, single),
            )
            for _ in range(ROUNDS)
        ]
    )
    for by, (ours, read, blas) in zip(("clock", "processors"), times.transpose(2, 1, 0), strict=True):
        speed, limit = (packed.nbytes / np.median(part) / 1e9 for part in (ours, read))
        print(
            f"{np.dtype(dtype).name}, {packed.nbytes / 1e9:.2f} GB packed, by the {by}: {speed:.1f} GB/s, "
            f"reading {limit:.1f}, {np.median(read / ours):.2f} of it; "
            f"BLAS on the array takes {np.median(blas / ours):.2f} times as long"
        )


if __name__ == "__main__":
    for kind in (np.complex128, np.complex64):
        compare(kind, float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
