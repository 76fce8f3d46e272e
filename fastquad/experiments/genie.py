"""Approximate the Bayes optimum: the posterior mean of a Gibbs chain that starts at the true signal.

It is given x as the start, σ and |x|² = 1; the share of nonzeros follows the samples. No method can know as much, so
only chance beats it.
"""

from __future__ import annotations

import numpy as np

from fastquad._kernels import gibbs, growth
from fastquad.typing import Float

# The number of sweeps between two samples.
_SWEEPS = 8
# The share of the rounds before the first sample.
_BURN_IN = 0.2


def posterior_mean(A: Float, y: Float, x: Float, sigma: float, rng: np.random.Generator, rounds: int = 200) -> Float:
    """The posterior mean under a spike-and-slab prior and noise of standard deviation σ, for x of norm 1."""
    m, n = len(A), x.size
    length = -(-m // growth.MULTIPLE) * growth.MULTIPLE
    rows, columns = np.tril_indices(n)
    pairs = np.zeros((rows.size, length), dtype=np.float32)
    for i in range(m):
        pairs[:, i] = (A[i, rows, columns] + A[i, columns, rows]) / 2
    data = np.zeros(length, dtype=np.float32)
    data[:m] = y
    z, work = np.array(x, dtype=np.float64), np.empty((n + 1, length), dtype=np.float32)
    chain = gibbs.Chain(pairs, data, z, work, rho=np.count_nonzero(x) / n, norm2=1.0)
    mean, first = np.zeros(n), int(_BURN_IN * rounds)
    betas = np.full(_SWEEPS, 1 / (2 * sigma**2))
    for t in range(rounds):
        order = rng.permuted(np.tile(np.arange(n), (_SWEEPS, 1)), axis=1)
        chain.anneal(betas, order, rng.random((_SWEEPS, n)), rng.standard_normal((_SWEEPS, n)))
        if t >= first:
            mean += z * np.sign(z @ x)
    return mean / (rounds - first)
