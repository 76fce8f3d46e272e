"""Approximate the Bayes optimum: the posterior mean of a Gibbs chain that starts at the true signal.

It is given x as the start, its share of nonzeros, |x|² = 1 and σ. No method can know as much, so only chance beats it,
or the true distribution of the nonzeros, which it takes for Gaussian.
"""

from __future__ import annotations

import numpy as np

from fastquad._kernels import gibbs, growth
from fastquad.typing import Float

# The share of the sweeps before the first sample.
_BURN_IN = 0.2


def posterior_mean(A: Float, y: Float, x: Float, sigma: float, rng: np.random.Generator, sweeps: int = 800) -> Float:
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
    mean, first = np.zeros(n), int(_BURN_IN * sweeps)
    share, beta = min(np.count_nonzero(x) / n, 0.999), np.array([1 / (2 * sigma**2)])
    for t in range(sweeps):
        # A chain learns the share of nonzeros from its samples; a new one for each sweep keeps the true share.
        chain = gibbs.Chain(pairs, data, z, work, rho=share, norm2=1.0)
        chain.anneal(beta, rng.permutation(n)[None], rng.random((1, n)), rng.standard_normal((1, n)))
        if t >= first:
            mean += z * np.sign(z @ x)
    return mean / (sweeps - first)
