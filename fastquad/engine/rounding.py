"""What a residual means: rounding of A's entries, noise of the given level, or more; and what may be kept in memory."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust.tolerances import LOOK_ENTRIES

# How many arrays of shape (m, n) the methods and the certificate have at a time.
_PRODUCTS = 6
# The relative residual that is rounding, whatever the sizes of the rows: nothing is left to fit.
_ROUNDED = 1e-14


def products_affordable(problem: Problem) -> bool:
    """Whether a few arrays of the products of x, (m, n), fit in the memory."""
    return 8 * _PRODUCTS * problem.m * problem.n <= problem.memory


def small(problem: Problem) -> bool:
    """Whether matrices tell more of an answer than verbs or a transform do, and cost little."""
    return problem.m * problem.n**2 <= LOOK_ENTRIES


def exact_enough(problem: Problem, residual: float) -> bool:
    """Whether a residual is so small that a search ends: it may have been computed in the precision of A."""
    return residual < max(EXACT_RESIDUAL, _rounding(problem)) and not problem.noise.disturbed


def rounded(problem: Problem, residual: float) -> bool:
    """Whether a residual is the rounding of A and y, which leaves 0.2 to 0.45 eps, and not noise."""
    return exact_enough(problem, residual) and residual < max(EXACT_RESIDUAL, _eps(problem.dtype))


def nothing_left(problem: Problem, residual: float) -> bool:
    """Whether a residual is rounding, so that there is no noise to weigh coordinates by, nor any of a given level."""
    return residual < max(_ROUNDED, _eps(problem.dtype)) and not problem.noise.given


def explained(problem: Problem, free: int) -> float:
    """The relative residual that the rounding of A, or the given noise, explains.

    ‖noise‖² is σ² χ²_m: three standard deviations above its mean. Free coordinates take a part of it away; few of
    them, found by shrinkage, take less than their number.
    """
    d = problem.m if 2 * free <= problem.m else problem.m - free
    if not problem.noise.given or d <= 0:
        return _rounding(problem)
    level = problem.sigma / float(np.linalg.norm(problem.y))
    return max(_rounding(problem), level * math.sqrt(d + 3 * math.sqrt(2 * d)))


def _rounding(problem: Problem) -> float:
    """The relative residual that the rounding of A's entries explains."""
    # Rounding leaves about eps/5; allow eight eps. For 16-bit entries that would be nearly a percent, which may be
    # noise: allow half an eps.
    return (0.5 if problem.dtype == np.float16 else 8.0) * _eps(problem.dtype)


@cache
def _eps(dtype: np.dtype) -> float:
    """The relative rounding of numbers of a type; NumPy takes as long to tell as for a small sum."""
    return float(np.finfo(dtype).eps)
