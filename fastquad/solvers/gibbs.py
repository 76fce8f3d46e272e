"""Annealed Gibbs sampling of a spike-and-slab posterior: the last resort for m <= n.

Near the limit of what is possible, AMP settles in a wrong place for almost half of the instances of n = 100, while the
posterior itself is still peaked at x. Sampling it at a falling temperature finds x where there is time enough: one
sweep draws each z_j from its conditional (kernels/gibbs.h: an exact quartic, with a point mass at zero)

    p(z) ∝ exp(−‖A(zz^T) − y‖²/(2σ²)) Π_j [(1−ρ) δ_0 + ρ N(0, φ²/(nρ))](z_j),     ρ = share of nonzeros,

while σ² falls from 0.6 to 0.03 times mean y², where a sample turns to x if it does, and quickly from there. What is
left is handed over to Levenberg–Marquardt.

A sweep moves up to n coordinates, each of which updates all products with its row of A: two passes. It works on the
packed copy of A that pursuit keeps, at a tenth of a millisecond for n = 100; what it reads is charged all the same.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from fastquad._kernels import gibbs as kernel
from fastquad.measurements.base import Float
from fastquad.solvers.base import Problem
from fastquad.solvers.driver import Step
from fastquad.solvers.pairs import PairStore
from fastquad.solvers.requests import Reread

# Sweeps between two looks at the budget.
_ROUND = 50


def temperatures(sweeps: int) -> Float:
    """σ² / mean y² at each sweep: slowly through the range where samples turn to x, then quickly down."""
    slow = int(0.85 * sweeps)
    return np.concatenate([np.geomspace(0.6, 0.03, slow), np.geomspace(0.03, 0.001, sweeps - slow)])


def anneal(problem: Problem, store: PairStore, sweeps: int) -> Generator[Any, Any, Float]:
    """A sample at the end of one annealing, (n,), from a small random start; the store must hold all pairs."""
    n, rng = problem.n, problem.rng
    # At scale one, of y and of A, nothing overflows single precision: the kernel finds x/unit.
    y = problem.y - problem.y.mean() if store.centre else problem.y
    y_scale = float(np.sqrt(np.mean(y**2)))
    unit = float(np.sqrt(y_scale / store.scale))
    y = store.padded(y / y_scale)
    work = np.empty((n + 1, store.length), dtype=np.float32)
    z = rng.standard_normal(n) * 0.3 / np.sqrt(n)
    norm2, rho = 1.0, 0.3
    schedule = temperatures(sweeps)
    for start in range(0, sweeps, _ROUND):
        betas = 1 / (2 * schedule[start : start + _ROUND])
        order = rng.permuted(np.tile(np.arange(n), (betas.size, 1)), axis=1)
        random = np.stack([rng.random((betas.size, n)), rng.standard_normal((betas.size, n))], axis=2)
        moved, square, rho = kernel.anneal(store.pairs, y, betas, rho, norm2, order, random, z, work)
        yield Reread(2 * moved / (n + 1))
        x = np.empty(n)
        x[store.order] = z * unit
        yield Step(x, float(np.sqrt(square / (y @ y))))
    return x
