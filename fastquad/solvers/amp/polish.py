"""Improve AMP's estimate by weighted least squares, if measurements differ in noise.

AMP's own weights do not use the most precise measurements fully. So the likeliest coordinates are fitted with weights
1/σ_i; their number minimises `Σ r²/σ² + s (ln m + 2 ln n)`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.amp.belief import Belief
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float

_RULE = Rule(max_steps=20)
# The sizes of support that are tried, relative to AMP's.
_OTHER_SIZES = (-1, 0, 1, 2)
# The least σ_i, as a share of the largest: an exact measurement must not be the only one that counts.
_LEAST = 1e-6


def polished(problem: Problem, best: Belief, cache: GrowingBlock) -> Asks[Belief]:
    """The belief with its x, error and standard errors from the best weighted fit."""
    sigma = problem.noise.deviations(problem.y)
    sigma = np.maximum(sigma, _LEAST * float(sigma.max()))
    weights = float(sigma.min()) / sigma
    order = np.argsort(-(best.z**2 + best.v * best.weight), kind="stable")
    sizes = {int(np.clip(best.size + d, 1, min(problem.m - 1, problem.n))) for d in _OTHER_SIZES}
    fits: list[Fit] = []
    for size in sorted(sizes):
        x = np.zeros(problem.n)
        x[order[:size]] = best.z[order[:size]]
        fits.append((yield from fit(problem, x, np.sort(order[:size]), _RULE, cache, weights)))
    found = min(fits, key=lambda each: _score(problem, each, sigma))
    J = 2 * found.W / sigma[:, None]
    variances = np.diagonal(np.linalg.pinv(J.T @ J, hermitian=True))
    stderr = np.zeros(problem.n)
    stderr[found.support] = np.sqrt(np.maximum(variances, 0.0))
    error = float(np.linalg.norm(stderr) / np.linalg.norm(found.x))
    return replace(best, residual=found.residual, error=error, answer=found.x, deviations=stderr)


def _score(problem: Problem, found: Fit, sigma: Float) -> float:
    """χ² plus the price of each coordinate."""
    price = math.log(problem.m) + 2 * math.log(problem.n)
    return float(np.sum((found.r / sigma) ** 2)) + found.support.size * price
