"""Whether measurements bend: y is no multiple of x^T A x, because a sensor saturates, say.

The residual r of AMP is that of predictions p = y − r which were not made with their own measurement: whatever the
noise, its mean at a given p is zero. Where y is f(x^T A x) in truth, x takes the length that fits best, and r is left
with the shape of f,

    r ≈ b1 p + b2 p|p|,    T = b2 over its standard error.

The standard error allows for noise that grows with p (White's, with leverages). In 50 problems with noise T had the
mean 0 and the deviation 1, in 23 with y = tanh the mean −10, in 22 with y|y| 14.
"""

from __future__ import annotations

import numpy as np

from fastquad.typing import Float

# So many standard errors are no chance, …
_CLEAR = 5.0
# … where there are at least this many measurements.
_ENOUGH = 30
# No measurement is taken for more than this much of the fit.
_LEVERAGE = 0.9


def bend(y: Float, r: Float) -> float:
    """The relative error that a bend brings to the length of x; 0 where there is none, or one that may be chance.

    From small p to the typical one y/p changes by b2 rms(p), and the length of x by half of that.
    """
    p = y - r
    if r.size < _ENOUGH or not p.any():
        return 0.0
    X = np.stack([p, p * np.abs(p)], axis=1)
    G = np.linalg.pinv(X.T @ X, hermitian=True)
    b = G @ (X.T @ r)
    leverage = np.einsum("ij,jk,ik->i", X, G, X)
    left = (r - X @ b) / (1 - np.minimum(leverage, _LEVERAGE))
    along = X @ G[1]
    deviation = float(np.linalg.norm(along * left))
    if abs(b[1]) <= _CLEAR * deviation:
        return 0.0
    return 0.5 * abs(float(b[1])) * float(np.sqrt(np.mean(p**2)))
