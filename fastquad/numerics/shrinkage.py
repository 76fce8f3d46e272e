"""The operators that make an iterate sparse.

A shrinkage operator T_τ sets to zero what is at most τ in absolute value and moves the rest by at most τ:

    T_τ(a) = 0 where |a| <= τ,      |T_τ(a) − a| <= τ where |a| > τ.

Soft thresholding moves everything by τ towards zero, hard thresholding leaves what is larger as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastquad.numerics.grouping import Groups
from fastquad.typing import Float

Shrinkage = Callable[[Float, float], Float]


def soft(a: Float, tau: float) -> Float:
    """`sign(a) max(|a| − τ, 0)`."""
    # Clipping to [−τ, τ] is what soft thresholding takes away: one operation instead of three.
    return a - np.minimum(np.maximum(a, -tau), tau)


def hard(a: Float, tau: float) -> Float:
    """`a` where |a| > τ, 0 elsewhere."""
    return np.where(np.abs(a) > tau, a, 0.0)


SHRINKAGES: dict[str, Shrinkage] = {"soft": soft, "hard": hard}


def shrinkage(threshold: str | Shrinkage) -> Shrinkage:
    """The operator with this name, or the user's own function of (a, τ), whose results are checked."""
    if callable(threshold):
        return _checked(threshold)
    if not isinstance(threshold, str) or threshold not in SHRINKAGES:
        raise ValueError(f"`threshold` must be 'soft', 'hard' or a function of (a, tau), got {threshold!r}.")
    return SHRINKAGES[threshold]


def grouped(shrink: Shrinkage, groups: Groups, beta: float) -> Shrinkage:
    """Apply the operator to the norms of groups, keeping their directions, with a threshold for each size of group.

    A single normal number passes the threshold, `sqrt(β)` times its scale, with probability `P(χ²_1 > 2β)`. The square
    of the norm of a group of g is a χ² with g degrees of freedom, so its β' solves `P(χ²_g > 2β') = P(χ²_1 > 2β)`:
    noise passes with the same probability.
    """
    from scipy.special import chdtrc, chdtri  # takes a moment to load

    sizes = np.unique(groups.sizes)
    raised = chdtri(sizes, chdtrc(1, 2 * beta)) / (2 * beta) if beta > 0 else np.ones(sizes.size)
    factors = np.sqrt(raised)

    def shrunk(a: Float, tau: float) -> Float:
        norms = groups.norms(a)
        left = np.empty_like(norms)
        for size, factor in zip(sizes, factors, strict=True):
            which = groups.sizes == size
            left[which] = shrink(norms[which], float(factor) * tau)
        return a * groups.spread(np.divide(left, norms, out=np.zeros_like(norms), where=norms > 0))

    return shrunk


def _checked(function: Shrinkage) -> Shrinkage:
    def checked(a: Float, tau: float) -> Float:
        # A copy, because the function may work in place or keep what it returns.
        result = np.array(function(a.copy(), tau), dtype=np.float64)
        if result.shape != a.shape or not np.isfinite(result).all():
            raise ValueError(f"`threshold` must return {a.size} finite numbers, got {result}.")
        return result

    return checked
