"""Approximate message passing for products of two vectors, `y_i = u^T B_i v`, before Levenberg–Marquardt.

For B_i of independent entries with the variance s², and residuals r from which the last step's own part is taken out
(the Onsager term, with the factor o), the matrix

    R = û v̂^T + Σ_i r_i B_i/(m s²),      r_i = y_i − û^T B_i v̂ + o r_i^before

is u v^T in Gaussian noise of variance `ω = mean r²/(m s²)` for each entry. Each of the two vectors is then seen through
the other: u by `b_u = R v̂/ω` with the precision `a_u = ‖v̂‖²/ω`, and v likewise through û. The prior of each is a spike
and slab, whose share ρ of nonzeros and variance are learned for each vector by itself. After a step

    o = (‖v̂‖² Σ var u + ‖û‖² Σ var v)/(ω m s²)

and the scales are balanced, ‖û‖ = ‖v̂‖. A step is one sweep over A. It starts from the singular vectors of Σ y_i B_i, of
its largest rows and columns alone, and from random ones; likely nonzeros are then fitted by Levenberg–Marquardt.
Where u and v are not sparse and there are enough measurements, descents from several starts come next, then pursuit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fastquad.engine.problem import Problem
from fastquad.engine.trust.evidence import log_choices
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Diagonals, Sweep, WeightedSum
from fastquad.priors.base import Posterior
from fastquad.priors.spike_slab import SpikeSlab
from fastquad.solvers import structured
from fastquad.solvers.amp.hand_over import SparseHandOver
from fastquad.solvers.parts import noise_fit, weighing
from fastquad.solvers.parts.descent import Fit, fit
from fastquad.solvers.plan import Desk
from fastquad.solvers.structured import Stage
from fastquad.typing import Asks, Float

# The share of nonzeros that a run begins with.
_SHARE = 0.3
_MAX_STEPS = 60
# The relative residual at which a run ends.
_CLOSE = 1e-2
# The ratio of residuals that counts as progress.
_PROGRESS = 0.98
# The number of steps without progress after which a run ends.
_PATIENCE = 15
# The share of y above which a run has found nothing.
_HOPELESS = 0.8
_RANDOM_STARTS = 4
# The share of y below which the residual of a fit may be noise.
_EXPLAINED = 0.3
# The largest number of coordinates that are added to a fit one by one, if that makes it exact.
_UNSEEN = 2
# The share of y below which no better fit is looked for.
_NEARLY = 0.1
# The shares of rows and columns that starts are made of.
_LARGEST = (0.1, 0.25)


def pursue(desk: Desk) -> Stage:
    """Pursuit on all levels, if no fit is nearly exact."""
    problem = desk.problem
    if not (problem.noiseless or desk.best is None or desk.best.residual > _NEARLY):
        return None
    from fastquad.solvers.independent import pursue

    return (yield from pursue(desk))


def message_passing(desk: Desk) -> Stage:
    """AMP from several starts, and Levenberg–Marquardt on what each holds for nonzero.

    An exact fit ends it. What another start comes to as well, or no start improves on, may be signal in noise.
    """
    problem = desk.problem
    S = (yield WeightedSum(problem.y))[: problem.bilinear, problem.bilinear :]
    # `gain` is 1/(2 · variance of an entry of Ã), and those are B/2.
    variance = 2 / desk.entries.gain
    hand_over = SparseHandOver(problem, desk.cache)
    best: Fit | None = None
    for u, v in _starts(S, problem.rng):
        run = _Run(problem, variance, u, v)
        yield from run.settle()
        if run.gap > _HOPELESS:
            continue
        found = yield from _handed_over(desk, hand_over, run)
        if not exact_enough(problem, found.residual) and 2 * found.support.size > problem.m:
            continue  # as many coordinates fit noise as well
        outcome = yield from desk.judge(found, "amp")
        if outcome is not None and outcome.noise is None:
            return outcome
        if found.residual > _EXPLAINED or not _convincing(problem, found):
            continue
        if problem.noise.given or (best is not None and structured.same(best, found)):
            outcome = yield from _in_noise(desk, found)
            if outcome is not None:
                return outcome
        best = found if best is None or found.residual < best.residual else best
    return None if best is None else (yield from _in_noise(desk, best))


def _handed_over(desk: Desk, hand_over: SparseHandOver, run: _Run) -> Asks[Fit]:
    """The fit that a run leads to: an exact one on a few coordinates more, else one on those that are likely."""
    problem = desk.problem
    # Take a few more than the likely ones: small coordinates are not seen yet.
    found = yield from hand_over.largest(run.x, run.x**2, int(np.count_nonzero(run.weight > 0.1)) + 2)
    likely = np.flatnonzero(run.weight > 0.5)
    if exact_enough(problem, found.residual) or not 0 < likely.size < problem.m:
        return found
    return (yield from fit(problem, run.x, likely, desk.rule, desk.cache))


def _in_noise(desk: Desk, found: Fit) -> Stage:
    """The outcome where a fit on a few coordinates is signal in noise, or lacks only coordinates that were not seen."""
    if not desk.problem.noise.given:
        outcome = yield from _completed(desk, found)
        if outcome is not None:
            return outcome
    if desk.problem.noiseless:
        return None
    weighed = yield from weighing.weigh(desk.problem, found, desk.cache)
    return weighing.verdict(desk.problem, desk.entries, weighed, "amp")


def _completed(desk: Desk, found: Fit) -> Stage:
    """The outcome where a coordinate or two more make the fit exact: AMP takes very small ones for noise."""
    problem = desk.problem
    diagonals = yield Diagonals()
    for _ in range(_UNSEEN):
        if 2 * (found.support.size + 1) > problem.m or found.support.size == problem.n:
            return None
        support, x = yield from noise_fit.grown(problem, found, diagonals)
        found = yield from fit(problem, x, support, desk.rule, desk.cache)
        if exact_enough(problem, found.residual):
            return (yield from desk.judge(found, "amp"))
    return None


def _convincing(problem: Problem, found: Fit) -> bool:
    """Whether chance does not fit so well with as many coordinates, which were chosen by looking at y.

    The score is that of `noise_fit`, with the price of the choices that there were on each side: none where all are
    nonzero. Where the noise is given, the fit is held against that; it must have room to fail.
    """
    m, s, p = problem.m, found.support.size, problem.bilinear
    if problem.noise.given or m <= s:
        return m >= 2 * s
    on_u = int(np.count_nonzero(found.support < p))
    choices = sum(log_choices(*side) for side in ((p, on_u), (problem.n - p, s - on_u)))
    spread = float(np.var(problem.y) / np.mean(problem.y**2))
    score = m * math.log(found.residual**2 * m / ((m - s) * spread)) + s * math.log(m) + 2 * choices
    return score < -max(noise_fit.CONVINCING * m, noise_fit.CONVINCING_AT_LEAST)


def _starts(S: Float, rng: np.random.Generator) -> Iterator[tuple[Float, Float]]:
    """Directions of u and v, the likeliest first, from S = Σ y_i B_i."""
    left, _, right = np.linalg.svd(S, full_matrices=False)
    yield left[:, 0], right[0]
    for share in _LARGEST:
        for part in (_largest_rows(S, share), _largest_rows(S.T, share).T):
            u, _, v = np.linalg.svd(part, full_matrices=False)
            yield u[:, 0], v[0]
    for j in range(1, min(3, len(right))):
        yield left[:, j], right[j]
    for direction in rng.standard_normal((_RANDOM_STARTS, S.shape[1])):
        yield S @ direction, direction


def _largest_rows(S: Float, share: float) -> Float:
    """S with all but its largest rows set to zero."""
    size = np.einsum("jk,jk->j", S, S)
    kept = np.argsort(-size, kind="stable")[: max(2, round(share * len(S)))]
    out = np.zeros_like(S)
    out[kept] = S[kept]
    return out


@dataclass
class _Run:
    """One run of AMP: what is believed of u and of v."""

    problem: Problem
    variance: float
    u: Float
    v: Float
    gap: float = np.inf
    x: Float = field(init=False)
    weight: Float = field(init=False)

    def __post_init__(self) -> None:
        problem, p = self.problem, self.problem.bilinear
        # ‖u‖² = ‖v‖² = φ², as mean y² = s² ‖u‖² ‖v‖².
        self.phi2 = float(np.sqrt(np.sum(problem.y**2) / (problem.m - 1) / self.variance))
        self.u = self.u * np.sqrt(0.5 * self.phi2) / np.linalg.norm(self.u)
        self.v = self.v * np.sqrt(0.5 * self.phi2) / np.linalg.norm(self.v)
        self.priors = SpikeSlab(p, _SHARE, self.phi2), SpikeSlab(problem.n - p, _SHARE, self.phi2)
        self.x, self.weight = np.concatenate([self.u, self.v]), np.ones(problem.n)

    def settle(self) -> Asks[None]:
        """Steps until it fits, or gets no further."""
        problem, zero = self.problem, np.zeros(self.problem.n)
        y, count, p = problem.y, problem.m - 1, problem.bilinear
        size = float(np.linalg.norm(y))
        r, onsager, since, weight = np.zeros(problem.m), 0.0, 0, self.weight
        for _ in range(_MAX_STEPS):
            z, before = np.concatenate([self.u, self.v]), onsager * r
            r, S = yield Sweep(z, zero, y + before)
            gap = float(np.linalg.norm((r - before)[:-1])) / size
            since = 0 if gap < _PROGRESS * self.gap else since + 1
            if gap < self.gap:
                self.gap, self.x, self.weight = gap, z, weight
            if self.gap < _CLOSE or since >= _PATIENCE:
                return
            omega = max(float(r[:-1] @ r[:-1]) / count / self.variance, 1e-14 * self.phi2**2) / count
            R = np.outer(self.u, self.v) + 2 * S[:p, p:] / (count * self.variance)
            seen = self._seen(R, omega)
            if seen is None:
                return
            of_u, of_v = seen
            weight = np.concatenate([of_u.weight, of_v.weight])
            spread = self.v @ self.v * of_u.variance.sum() + self.u @ self.u * of_v.variance.sum()
            onsager = min(float(spread) / (omega * count), 1.0)

    def _seen(self, R: Float, omega: float) -> tuple[Posterior, Posterior] | None:
        """u and v anew, each seen in R through the other; None where nothing is seen."""
        of_u = self._through(self.v, R @ self.v, omega, self.priors[0])
        if of_u is None:
            return None
        of_v = self._through(of_u.mean, of_u.mean @ R, omega, self.priors[1])
        if of_v is None:
            return None
        scale = float(np.sqrt(np.linalg.norm(of_v.mean) / np.linalg.norm(of_u.mean)))
        self.u, self.v = of_u.mean * scale, of_v.mean / scale
        return of_u._replace(variance=of_u.variance * scale**2), of_v._replace(variance=of_v.variance / scale**2)

    def _through(self, other: Float, field: Float, omega: float, prior: SpikeSlab) -> Posterior | None:
        """One vector, seen through the other; None where it is zero."""
        belief = prior.denoise(field / omega, float(other @ other) / omega)
        prior.learn(belief, self.phi2)
        return belief if float(belief.mean @ belief.mean) > 1e-12 * self.phi2 else None
