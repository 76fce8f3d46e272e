"""The Bayes optimum, as near as a sampler gets: the posterior mean of a chain that starts at the true signal.

It is told x to start from, σ and |x|² = 1; the share of nonzeros follows the samples. What it knows no method can know,
so nothing but chance beats it.
"""

from __future__ import annotations

import numpy as np

from fastquad._kernels import gibbs
from fastquad.typing import Float

# Samples are taken after this many sweeps each, and after this share of the rounds.
_SWEEPS, _BURN_IN = 8, 0.2
# The kernel's measurements come in lanes.
_LANES = 16


def posterior_mean(A: Float, y: Float, x: Float, sigma: float, rng: np.random.Generator, rounds: int = 60) -> Float:
    """The posterior mean under a spike-and-slab prior and noise of standard deviation σ, for x of norm 1."""
    m, n = len(A), x.size
    length = -(-m // _LANES) * _LANES
    rows, columns = np.tril_indices(n)
    pairs = np.zeros((rows.size, length), dtype=np.float32)
    for i in range(m):
        pairs[:, i] = (A[i, rows, columns] + A[i, columns, rows]) / 2
    data = np.zeros(length, dtype=np.float32)
    data[:m] = y
    z, work = np.array(x, dtype=np.float64), np.empty((n + 1, length), dtype=np.float32)
    mean, rho, first = np.zeros(n), np.count_nonzero(x) / n, int(_BURN_IN * rounds)
    betas = np.full(_SWEEPS, 1 / (2 * sigma**2))
    for t in range(rounds):
        order = rng.permuted(np.tile(np.arange(n), (_SWEEPS, 1)), axis=1)
        random = np.stack([rng.random((_SWEEPS, n)), rng.standard_normal((_SWEEPS, n))], axis=2)
        _, _, rho = gibbs.anneal(pairs, data, betas, rho, 1.0, order, random, z, work)
        if t >= first:
            mean += z * np.sign(z @ x)
    return mean / (rounds - first)
