"""What few degrees of freedom, and coordinates too small to be found, add to an error.

With no more measurements than unknowns nothing tells the small coordinates of a signal from noise of an unknown level.
How many there are is seen from those just above the least size t that is found. Sizes that decay are spread evenly over
scales: of c coordinates between t and 4t, the density at size u is c/(u ln 4), and those below t have the square

    ∫_0^t u² c/(u ln 4) du = 0.36 c t².

A flat density, as a slab of one width has there, makes 0.11 c t² of it: an error estimate by such a slab contains this.
Each of the s coordinates that are found has also adapted to what is left of m measurements: as in generalised
cross-validation, an error that is predicted from what is left grows by 1/(1 − s/m).
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.typing import Float

# The chance with which an answer may be further than three of its errors from x: what a success claims.
_TAIL = 1e-3
# The number of standard errors from which on coordinates are found.
_FOUND = 5.0
# 0.36 − 0.11, as above.
_BELOW = 0.25


def with_small_ones(error: float, x: Float, stderr: Float, m: int) -> float:
    """A relative error of x, with what the coordinates that were not found of m measurements add to it."""
    found = x != 0
    count = int(np.count_nonzero(found))
    if count == 0:
        return error
    least = _FOUND * math.sqrt(float(np.median(stderr[found] ** 2)))
    size = np.abs(x[found])
    few = int(np.count_nonzero((size > least) & (size < 4 * least)))
    hidden = math.sqrt(_BELOW * few) * least / float(np.linalg.norm(x))
    return math.hypot(error, hidden) / max(1 - count / m, 1e-3)


def student(f: float, freedom: float) -> float:
    """By how much the error of f values is larger than that of their covariance, so that three errors are exceeded once
    in a thousand. `freedom` are the degrees by which the level of the noise is known."""
    from scipy.special import chdtri, fdtri

    if not min(f, freedom) > 0:
        return 1.0
    quantile = chdtri(f, _TAIL) / f if math.isinf(freedom) else fdtri(f, freedom, 1 - _TAIL)
    return max(1.0, math.sqrt(float(quantile)) / 3)
