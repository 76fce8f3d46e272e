"""Fit the coordinates that the first weighted sum shows, and those that the residual leans to, before any sweep.

S0 is xx^T plus noise, so that AMP's first estimate, which reads nothing, already shows most of the large coordinates of
a sparse signal. Levenberg–Marquardt on them reads their block alone. What is missing of x then shows in the residual: a
part δ of it leaves `r ≈ −2 W δ`, with W the products of the fit. Of a coordinate that is zero,

    t_j² = m (r^T W_j)²/(|W_j|² |r|²)

is about the square of a standard normal number; every coordinate where it is larger than 4.5 joins the fit. By chance
one of thirty others does too, which is harmless while they are fewer than the measurements: their values end at zero.
Where at most a fifth of the coordinates are nonzero, and m is not far below n, a few rounds lead to an exact fit, with
one to five passes over A; a descent on all coordinates takes seven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.problem import Problem
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Products
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.amp.ensemble import Ensemble
from fastquad.solvers.amp.run import Attempt, Setting, Walk
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float, Indices

# When a descent stops: what it could still gain is less than what the missing coordinates will.
_RULE = Rule(max_steps=20, patience=5, factor=1.01, bottom=0.05)
# The number of inner steps of the estimate: it has one weighted sum only, and should take from it what there is.
_INNER = 30
# The t² from which on a coordinate joins the fit.
_LEANS = 4.5
# The largest share of the coordinates, at first and after growing: beyond, a descent on all of them takes less time.
_FEW_AT_FIRST = 1 / 6
_FEW = 1 / 3
# The largest share of the measurements: more coordinates would fit anything.
_DETERMINED = 0.6
# The ratio of residuals that counts as progress.
_PROGRESS = 0.8
# The relative residual that the first fit must reach: otherwise the estimate has not turned towards x.
_EXPLAINS = 0.6


@dataclass
class Likely:
    """AMP's first estimate: a start for all coordinates, and the best fit on some of them, if x looks sparse.

    `stands_still` says that more coordinates hardly improve the fit: what it leaves may be noise.
    """

    x: Float
    fit: Fit | None = None
    stands_still: bool = False


def likely(problem: Problem, ensemble: Ensemble, attempt: Attempt, cache: GrowingBlock) -> Asks[Likely]:
    """Estimate x from the first weighted sum, and fit a growing support."""
    walk = Walk(problem, ensemble, attempt._replace(setting=Setting(inner=_INNER)))
    walk.estimate()
    support = np.flatnonzero(walk.weight > 0.5)
    length = max(float(np.linalg.norm(walk.z)), 1e-300)
    at = Likely(walk.z * (math.sqrt(ensemble.phi2) / length))
    few = _FEW_AT_FIRST
    while _affordable(problem, support, few, cache):
        found = yield from fit(problem, at.x, support, _RULE, cache)
        before = _EXPLAINS if at.fit is None else _PROGRESS * at.fit.residual
        if not found.residual < before:
            at.stands_still = at.fit is not None
            break
        at.x, at.fit, few = found.x, found, _FEW
        if exact_enough(problem, found.residual):
            break
        W = yield Products(found.x)
        chosen = _leaning(found.r, W)
        chosen[found.support] = True
        support = np.flatnonzero(chosen)
        if support.size == found.support.size:
            at.stands_still = True
            break
    return at


def _affordable(problem: Problem, support: Indices, few: float, cache: GrowingBlock) -> bool:
    """Whether a support is small enough: for the time of a descent, for what m measurements determine, for memory."""
    return 0 < support.size <= min(few * problem.n, _DETERMINED * problem.m) and cache.affordable(support)


def _leaning(r: Float, W: Float) -> NDArray[np.bool_]:
    """Whether the residual leans to the products of each coordinate."""
    squares = np.maximum(np.einsum("ij,ij->j", W, W), 1e-300)
    return r.size * (r @ W) ** 2 > _LEANS * squares * float(r @ r)
