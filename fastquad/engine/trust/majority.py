"""Whether another signal fits most of the measurements to rounding, and contradicts the others: outliers, of which
nobody was told.

Least trimmed squares: fit the half of the measurements that fit best, and choose them anew, until they stay the same.
Noise leaves something of every half; measurements without noise, some of which are of something else, do not.
"""

from __future__ import annotations

import numpy as np

from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust.challenge import CHALLENGE
from fastquad.numerics.levenberg_marquardt import on_block
from fastquad.typing import Float

# How many more measurements than unknowns must fit, so that it is no chance.
_TO_SPARE = 8
# The largest number of times that the half is chosen.
_ROUNDS = 12
# What fits to rounding, relative to the largest measurement.
_FITS = 1e-7


def fits_most(y: Float, x: Float, block: Float, unknowns: int, *, turning: bool) -> str:
    """A sentence if a signal near x fits most measurements to rounding; empty if not.

    `block` is all of `Ã_i`, (m, n, n); `turning` says that x holds Re and Im in turn.
    """
    m, z = len(y), x
    count = max(m // 2 + 1, unknowns + _TO_SPARE)
    chosen = np.zeros(0, dtype=np.intp)
    for _ in range(_ROUNDS if count < m else 0):
        left = np.abs((block @ z) @ z - y)
        before, chosen = chosen, np.sort(np.argpartition(left, count)[:count])
        if np.array_equal(before, chosen):
            return ""
        if np.count_nonzero(y[chosen]) < unknowns + _TO_SPARE:
            return ""  # a signal of zero fits zeros
        descent = on_block(y[chosen], z, np.ascontiguousarray(block[chosen]), CHALLENGE, turning=turning)
        z = descent.z
        if descent.residual < EXACT_RESIDUAL:
            fits = int(np.count_nonzero(np.abs((block @ z) @ z - y) < _FITS * float(np.abs(y).max())))
            return f"Another signal fits {fits} of {m} measurements to rounding: outliers=True may find it."
    return ""
