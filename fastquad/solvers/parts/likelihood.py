"""From a signal in some valley to the bottom of the likelihood, whatever the noise is.

With the weights `w = weight·downweight` of the noise at the current `z = A(xx^T)` (see `fastquad.noise.base`), one
round of least squares

    min_x Σ w_i (x^T Ã_i x − t_i)²,    t = z + score/w,

has the gradient of the log likelihood at x. So where rounds change nothing any more, `Jᵀ score = 0`, whatever positive
weights were used; the weights only make the way short. Of Gaussian noise one round is enough. A round that makes the
likelihood smaller is taken back, and repeated with steps that are damped more. What the model leaves open (a σ, a share
of outliers) is learnt after each round.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.noise import Noise
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float, Indices

# The steps of the first round, which has weights from y alone, and of each later one: two leave less of a round undone
# than its weights are wrong (guesses).
_FIRST = Rule(max_steps=20)
_ROUND = Rule(max_steps=2)
_ALL_THE_WAY = Rule()
# The largest number of rounds, and the gain in ln p below which another is not worth its passes: x is then within about
# a hundredth of its error of the bottom.
_ROUNDS = 40
_ARRIVED = 1e-4
# The change of the level of the residuals, as a share of it, below which rounds by their median end. (A guess.)
_SETTLED = 1e-3
# The largest ratio of two weights: beyond it a measurement counts as exact.
_RATIO = 1e12


class Bottom(NamedTuple):
    """The bottom of the likelihood: the fit there, the model with what was learnt, and Σ ln p."""

    fit: Fit
    noise: Noise
    log_likelihood: float

    def z(self, problem: Problem) -> Float:
        """The values of the fit, (m,)."""
        return problem.y + self.fit.r

    def sigma(self, problem: Problem) -> Float:
        """The standard deviations by the information of each measurement, (m,)."""
        return 1 / np.sqrt(np.maximum(self.noise.weight(problem.y, self.z(problem)), 1e-300))


def bottom(
    problem: Problem, x: Float, support: Indices, cache: GrowingBlock | None = None, rule: Rule = _ALL_THE_WAY
) -> Asks[Bottom]:
    """Go from x to the bottom of the likelihood on a support; `rule` stops the descent where one round is enough."""
    y, noise = problem.y, problem.noise
    s = len(support) - problem.turning
    first = None
    if not noise.reweighs:
        first = _relative(noise.weight(y, y))
    elif noise.given and noise.unequal:
        sigma = noise.deviations(y)
        first = _relative(1 / np.square(np.maximum(sigma, 1e-12 * float(sigma.max()))))
    if first is not None and float(first.min()) == 1.0:
        first = None
    found = yield from fit(problem, x, support, _FIRST if noise.reweighs else rule, cache, first)
    best = _learnt(problem, found, s)
    if not noise.reweighs:
        return best
    if noise.robust:
        settled = yield from _settled(problem, found, support, cache, s)
        best = max(best, _learnt(problem, settled, s), key=lambda each: each.log_likelihood)
    damped = 1.0
    for _ in range(_ROUNDS):
        z = best.z(problem)
        w = best.noise.weight(y, z) * best.noise.downweight(y, z) * damped
        target = z + best.noise.score(y, z) / np.maximum(w, 1e-300)
        tried = yield from fit(replace(problem, y=target), best.fit.x, support, _ROUND, cache, _relative(w))
        r = tried.r + target - y
        tried = tried._replace(r=r, residual=float(np.linalg.norm(r) / np.linalg.norm(y)))
        gain = float(np.sum(best.noise.log_likelihood(y, y + r))) - best.log_likelihood
        if gain > 0:
            best, damped = _learnt(problem, tried, s), max(1.0, damped / 4)
        else:
            damped *= 4
        if abs(gain) < _ARRIVED or damped > 1e3:
            break
    return best


def _settled(problem: Problem, found: Fit, support: Indices, cache: GrowingBlock | None, s: int) -> Asks[Fit]:
    """The fit with weights 1/(1 + (r/τ)²), and τ from the median of |r|, which wrong measurements do not move.

    At a fit of all measurements the likelihood takes what is left for noise of that size, and its own weights say the
    same again: many wrong ones, on one side, are never noticed. If σ_i are given, r and the weights are in their units.
    """
    given = problem.noise.deviations(problem.y) if problem.noise.given else np.ones(problem.m)
    unit, level = np.maximum(given, 1e-12 * float(given.max())), math.nan
    for _ in range(_ROUNDS):
        r = np.abs(found.r) / unit
        rank = min(r.size - 1, (r.size + s + 1) // 2)
        before, level = level, max(float(np.partition(r, rank)[rank]) / 0.6745, 1e-300)
        if abs(level - before) <= _SETTLED * before:
            break
        weights = _relative(1 / (1 + (r / level) ** 2) / unit**2)
        found = yield from fit(problem, found.x, support, _ROUND, cache, weights)
    return found


def _learnt(problem: Problem, found: Fit, s: int) -> Bottom:
    """A fit with the model that is learnt at it."""
    z = problem.y + found.r
    noise = problem.noise.learn(problem.y, z, s)
    return Bottom(found, noise, float(np.sum(noise.log_likelihood(problem.y, z))))


def _relative(w: Float) -> Float:
    """What least squares multiplies each equation with, at most 1, for these weights of squares."""
    largest = float(w.max())
    return np.sqrt(np.maximum(w, largest / _RATIO) / largest)
