"""Improve AMP's estimate by the likelihood itself, if measurements differ in noise, or if it is not Gaussian.

AMP's own weights do not use the most precise measurements fully. So the likeliest coordinates are fitted to the bottom
of the likelihood; their number minimises `−2 ln p + s (ln m + 2 ln n)`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.solvers.amp.belief import Belief
from fastquad.solvers.parts.descent import GrowingBlock
from fastquad.solvers.parts.likelihood import Bottom, bottom
from fastquad.typing import Asks

# The sizes of support that are tried, relative to AMP's.
_OTHER_SIZES = (-1, 0, 1, 2)
# The least σ_i, as a share of the largest: an exact measurement must not be the only one that counts.
_LEAST = 1e-6


def polished(problem: Problem, best: Belief, cache: GrowingBlock) -> Asks[Belief]:
    """The belief with its x, error and standard errors from the best weighted fit."""
    order = np.argsort(-(best.z**2 + best.v * best.weight), kind="stable")
    sizes = {int(np.clip(best.size + d, 1, min(problem.m - 1, problem.n))) for d in _OTHER_SIZES}
    ends: list[Bottom] = []
    for size in sorted(sizes):
        x = np.zeros(problem.n)
        x[order[:size]] = best.z[order[:size]]
        ends.append((yield from bottom(problem, x, np.sort(order[:size]), cache)))
    best_end = min(ends, key=lambda each: _score(problem, each))
    found, sigma = best_end.fit, best_end.sigma(problem)
    sigma = np.maximum(sigma, _LEAST * float(sigma.max()))
    J = 2 * found.W / sigma[:, None]
    variances = np.diagonal(np.linalg.pinv(J.T @ J, hermitian=True))
    stderr = np.zeros(problem.n)
    stderr[found.support] = np.sqrt(np.maximum(variances, 0.0))
    error = float(np.linalg.norm(stderr) / np.linalg.norm(found.x))
    return replace(best, residual=found.residual, error=error, answer=found.x, deviations=stderr, model=best_end.noise)


def _score(problem: Problem, ended: Bottom) -> float:
    """−2 ln p plus the price of each coordinate."""
    price = math.log(problem.m) + 2 * math.log(problem.n)
    return -2 * ended.log_likelihood + ended.fit.support.size * price
