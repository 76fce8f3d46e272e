"""How long Levenberg–Marquardt may stand still: where it converges in 200 steps, does the default's stage too?

    python benchmarks/studies/descents.py [--trials 60] [--seed 0]

Descents on exact data from random, spectral and near starts, over Gaussian, correlated, rank-1 and rank-3 A, complex
coded diffraction, and, where PYPOWER is installed, the IEEE grids from starts around the flat one. The stage is the
rule that the default method goes by: one where entries are independent, a more patient one where they are not.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from fastquad.numerics.eigen import leading_eigenvector
from fastquad.numerics.levenberg_marquardt import Rule, on_block
from fastquad.solvers.independent import SPECTRAL
from fastquad.solvers.plan import PATIENT

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

LONG = Rule(max_steps=200, patience=200)
REAL = ("gaussian", "correlated", "rank one", "rank three")
GRIDS = ("case9", "case14", "case30", "case57")


def real_tensor(kind, m, n, rng):
    """Symmetric matrices (m, n, n) of a kind."""
    if kind == "gaussian":
        A = rng.standard_normal((m, n, n))
    elif kind == "correlated":
        root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))))
        A = root @ rng.standard_normal((m, n, n)) @ root.T
    else:
        B = rng.standard_normal((m, n, 1 if kind == "rank one" else 3))
        A = B @ B.transpose(0, 2, 1)
    return np.ascontiguousarray((A + A.transpose(0, 2, 1)) / 2)


def as_real(H):
    """Hermitian matrices (m, n, n) as symmetric ones (m, 2n, 2n), for Re x and Im x in turn."""
    m, n, _ = H.shape
    A = np.empty((m, n, 2, n, 2))
    A[:, :, 0, :, 0] = A[:, :, 1, :, 1] = H.real
    A[:, :, 0, :, 1], A[:, :, 1, :, 0] = -H.imag, H.imag
    return A.reshape(m, 2 * n, 2 * n)


def coded(side, masks, rng):
    """Coded diffraction of side × side pictures: |F D x|² with random phases D."""
    n = side * side
    fourier = np.fft.fft2(np.eye(n).reshape(n, side, side)).reshape(n, n).T / side
    a = np.concatenate([fourier * 1j ** rng.integers(0, 4, n) for _ in range(masks)])
    return as_real(np.einsum("ij,ik->ijk", a.conj(), a))


def problem(kind, rng):
    """Ã (m, n, n), x, and whether x is complex, in pairs."""
    if kind in REAL:
        n = int(rng.integers(20, 50))
        A = real_tensor(kind, int(n * rng.uniform(1.3, 3.5)), n, rng)
        return A, rng.standard_normal(n), False
    if kind == "coded":
        A = coded(int(rng.integers(4, 6)), int(rng.integers(4, 7)), rng)
        return A, rng.standard_normal(A.shape[1]), True
    import grids

    grid = grids.load(kind)
    sets = list(grids.SETS.values())
    H = np.stack([matrix.toarray() for matrix in grids.matrices(grid, sets[int(rng.integers(len(sets)))])])
    return as_real(H), grid.V.view(np.float64).copy(), True


def start(kind, A, y, x, rng):
    """Where a descent begins."""
    n, length = x.size, np.linalg.norm(x)
    if kind in GRIDS:
        flat = np.tile([1.0, 0.0], n // 2)
        return flat + rng.choice([0.0, 0.1, 0.3]) * rng.standard_normal(n)
    which = rng.integers(3)
    if which == 0:
        return length * leading_eigenvector(np.einsum("i,ijk->jk", y, A))
    z = rng.standard_normal(n) * length / np.sqrt(n)
    return z if which == 1 else x + rng.uniform(0.7, 1.4) * z


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds = [*REAL, "coded"]
    try:
        import pypower  # noqa: F401

        kinds += GRIDS
    except ImportError:
        print("PYPOWER is not installed: without the grids.")
    print("| A | descents | LM converges in 200 | the stage too | its steps where LM does not |")
    print("| --- " * 5 + "|")
    totals = np.zeros(2, dtype=int)
    for number, kind in enumerate(kinds):
        good = stage = 0
        lost = []
        for t in range(options.trials):
            rng = np.random.default_rng([2026_14, options.seed, 7, number, t])
            A, x, turning = problem(kind, rng)
            y = np.einsum("ijk,j,k->i", A, x, x)
            z = start(kind, A, y, x, rng)
            long = on_block(y, z.copy(), A, LONG, turning=turning)
            short = on_block(y, z.copy(), A, SPECTRAL if kind == "gaussian" else PATIENT, turning=turning)
            if long.residual < 1e-9:
                good, stage = good + 1, stage + (short.residual < 1e-9)
            else:
                lost.append(len(short.curve) - 1)
        totals += good, stage
        print(f"| {kind} | {options.trials} | {good} | {stage} | {np.median(lost or [0]):.0f} |", flush=True)
    print(f"\n{totals[1]} of {totals[0]}: {totals[1] / totals[0]:.3f}")


if __name__ == "__main__":
    main()
