"""Intensities of which a prior is known: the loop of `fastquad.solvers.intensities`, and what its answers are worth.

Attempts, the first that explains y ends the stage:

    from x0, or what the prior knows of the mean: constant where x has a sign; D = 0.4
    from the spectral vectors
    again with more noise at first, which is taken away step by step
    again with shorter steps

Without noise Levenberg–Marquardt goes on from where the lengths nearly fit: on all coordinates where there are more
measurements than those, on the support of a sparse x else. In noise the answer is the posterior mean, with the error
that Stein's formula gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from fastquad.engine.requests import Reread
from fastquad.engine.steps import End, Note, Outcome, Step
from fastquad.engine.trust.tolerances import SPARE_NATS, TRUSTED
from fastquad.engine.verdict import exact_enough, products_affordable
from fastquad.measurements.contractions import Factors
from fastquad.noise import Noise
from fastquad.numerics.transform import Transform, Within
from fastquad.priors.base import Denoiser, Prior
from fastquad.priors.sparse import Sparse
from fastquad.solvers.intensities import (
    Believed,
    Estimate,
    Intensities,
    Normal,
    Setting,
    Signal,
    run,
    spectral_vectors,
)
from fastquad.solvers.parts.descent import fit
from fastquad.solvers.parts.within import fit_within, whole_support
from fastquad.solvers.plan import Desk, guided
from fastquad.solvers.reflect import reflect
from fastquad.typing import Asks, Float

Stage = Asks[Outcome | None]

# Levels of noise, in units of the median intensity, from which the true one is approached.
_SCHEDULE = (0.1, 0.05, 0.015, 0.005, 0.0015, 0.0005)
# The share of nonzeros at the start, where nothing is known of it.
_SHARE, _SHARE_POSITIVE = 0.3, 0.5
# The largest number of steps of an attempt.
_STEPS = 150
# The misfit of the lengths from which on a descent is tried without noise.
_NEAR = 0.05
# The probability of not being zero from which on a coordinate takes part in a descent.
_LIKELY = 0.3
# The misfit that noise explains, in units of it: a posterior mean leaves less than noise, a wrong one much more.
_EXPLAINED = 1.2
# The misfit of the lengths of exact data from which on it is the prior that says what they leave open.
_FITS = 1e-3


def message_passing(desk: Desk) -> Stage:
    """The loop with the prior, where A has factors."""
    problem = desk.problem
    transform = yield Factors()
    if transform is None or problem.fixed:
        return None
    search = _Search(desk, transform)
    outcome = yield from search.run()
    if outcome is None and (guided(problem) or not products_affordable(problem)):
        if guided(problem):
            return search.best_outcome()
        yield Note("The methods that need products of x, m×n numbers, were left out: they do not fit in `memory`.")
        return search.best_outcome()
    return outcome


class _Search:
    """The attempts of one solve."""

    def __init__(self, desk: Desk, transform: Transform) -> None:
        self.desk, self.problem, self.transform = desk, desk.problem, transform
        #: The coordinates that may be nonzero.
        self.allowed = np.arange(desk.problem.n) if desk.problem.support is None else desk.problem.support
        within = transform if desk.problem.support is None else Within(transform, self.allowed)
        self.data = Intensities.of(within, self.problem.y, self.problem.noise)
        n = self.allowed.size
        self.phi2 = self.data.s2 * n if self.problem.norm is None else self.problem.norm**2
        self.best: tuple[float, Estimate, bool] | None = None

    def run(self) -> Stage:
        problem, learnt = self.problem, not self.problem.noise.given
        if self.transform.symmetry:
            # The loop fails here, and would be sure of itself.
            return (yield from reflect(problem, self.transform))
        x0 = problem.x0
        if x0 is not None and (learnt or problem.noise.exact):
            outcome = yield from self._polished(x0, (x0 != 0).astype(np.float64))
            if outcome is not None:
                return outcome
        for setting in self._settings():
            learn = partial(_learnt, problem.noise) if learnt else None
            signal = self._signal()
            setting = setting._replace(start=setting.start[self.allowed])
            estimate = run(self.data, signal, setting, steps=_STEPS, close=self._close, learn=learn)
            estimate = estimate._replace(x=self._everywhere(estimate.x), v=self._everywhere(estimate.v))
            yield Reread(self.data.B.uncharged())
            yield Step(estimate.x, self._residual(estimate.x))
            outcome = yield from self._outcome(estimate, self._everywhere(signal.weight))
            if outcome is not None:
                return outcome
        return None

    # -- attempts ---------------------------------------------------------------------------------------------------

    @property
    def prior(self) -> Prior:
        assert self.problem.prior is not None
        return self.problem.prior

    def _everywhere(self, x: Float) -> Float:
        """Values of the coordinates that may be nonzero, with zeros elsewhere."""
        out = np.zeros(self.problem.n)
        out[self.allowed] = x
        return out

    def _signal(self) -> Signal:
        if self.problem.support is not None:
            return Normal(self.data.s2, self.allowed.size)
        return Believed(self._denoiser(), self.phi2)

    def _denoiser(self) -> Denoiser:
        prior, n, k = self.prior, self.problem.n, self.problem.k
        positive = isinstance(prior, Sparse) and prior.nonnegative
        rho = _SHARE_POSITIVE if positive else _SHARE
        if k is not None:
            rho = k / n
        return prior.denoiser(n, rho, self.phi2)

    def _enough(self, unknowns: int) -> bool:
        """Whether exact data determine so many unknowns without the prior."""
        return self.transform.equations > 1.05 * unknowns

    @property
    def _close(self) -> float:
        """The misfit from which Levenberg–Marquardt goes on: where it can be exact, a hundredth."""
        return 1e-2 if self._enough(self.problem.unknowns) else 1e-5 if self.prior.kind == "sparse" else 1e-6

    def _settings(self) -> Iterator[Setting]:
        x0 = self.problem.x0
        if x0 is not None:
            yield Setting(x0, 0.4)
        starts = []
        for start in self._starts():
            starts.append(start)
            yield Setting(start, 0.4)
        for start in starts:
            yield Setting(start, 0.4, schedule=_SCHEDULE)
        for start in starts:
            yield Setting(start, 0.2, unknown=0.9)

    def _starts(self) -> Iterator[Float]:
        """Directions of x, the likeliest first."""
        problem, prior = self.problem, self.prior
        # An image has a mean, as all that is never negative.
        if not problem.turning and not (prior.signed and prior.kind == "sparse"):
            yield np.ones(problem.n)
        if prior.signed:
            yield from map(self._everywhere, spectral_vectors(self.data))
            yield problem.rng.standard_normal(problem.n)

    # -- answers ----------------------------------------------------------------------------------------------------

    def _residual(self, x: Float) -> float:
        z = self.transform.lengths(self.transform.forward(x)) ** 2
        return float(np.linalg.norm(z - self.problem.y) / np.linalg.norm(self.problem.y))

    def _outcome(self, estimate: Estimate, weight: Float) -> Stage:
        """The outcome if an estimate ends the solve."""
        problem = self.problem
        if (not problem.noise.given or problem.noise.exact) and estimate.gap < _NEAR:
            outcome = yield from self._polished(estimate.x, weight)
            if outcome is not None:
                return outcome
        if problem.noise.exact:
            return self._nearly(estimate)
        return self._in_noise(estimate)

    def _polished(self, x: Float, weight: Float) -> Stage:
        """The outcome of a descent, if it is exact: on the likely coordinates of a sparse x, or on all of them."""
        problem, support = self.problem, np.arange(self.problem.n)
        if self.prior.kind == "sparse":
            support = whole_support(problem, np.flatnonzero(weight > _LIKELY))
        if not support.size or not self._enough(support.size - problem.turning):
            return None
        if support.size < problem.n:
            descent = yield from fit_within(problem, self.transform, x, support)
            x, residual = descent.B.expanded(descent.x), descent.residual  # type: ignore[attr-defined]
        else:
            found = yield from fit(problem, x, support, self.desk.rule, self.desk.cache)
            x, residual = found.x, found.residual
        if not exact_enough(problem, residual):
            return None
        return Outcome(x, residual, End.CONVERGED, free=int(np.count_nonzero(x)), method="vamp")

    def _nearly(self, estimate: Estimate) -> Outcome | None:
        """The outcome where exact data are too few without the prior, and fit as well as the loop goes."""
        if self.best is None or estimate.gap < self.best[0]:
            self.best = estimate.gap, estimate, False
        few = not self._enough(self.problem.unknowns)
        return self.best_outcome() if self.best[0] < _FITS and few else None

    def _in_noise(self, estimate: Estimate) -> Outcome | None:
        sound = estimate.settled and estimate.left < _EXPLAINED and self._evident(estimate)
        if self.best is None or (sound, -estimate.left) > (self.best[2], -self.best[0]):
            self.best = estimate.left, estimate, sound
        # What is too noisy from one start may not be so from another.
        near = estimate.square < TRUSTED**2 * float(estimate.x @ estimate.x)
        return self.best_outcome() if self.best[2] and near else None

    def _evident(self, estimate: Estimate) -> bool:
        """Whether an estimate explains y beyond chance; a given noise tells this by what it leaves."""
        problem, y = self.problem, self.problem.y
        if problem.noise.given:
            return True
        left, null = self._residual(estimate.x) * float(np.linalg.norm(y)), float(np.linalg.norm(y - y.mean()))
        nats = problem.m * math.log(max(null, 1e-300) / max(left, 1e-300))
        return nats > 0.5 * estimate.freedom * math.log(problem.m) + SPARE_NATS

    def best_outcome(self) -> Outcome:
        """The best estimate, with its error."""
        if self.best is None:
            return Outcome(np.zeros(self.problem.n), 1.0)
        _, estimate, sound = self.best
        norm = math.sqrt(float(estimate.x @ estimate.x) + estimate.square) or 1.0
        scale = math.sqrt(estimate.square / max(float(estimate.v.sum()), 1e-300))
        return Outcome(
            self._signed(estimate.x), self._residual(estimate.x), End.CONVERGED if sound else End.STAGNATED,
            free=min(round(estimate.freedom), self.problem.m - 1), error=math.sqrt(estimate.square) / norm,
            stderr=scale * np.sqrt(estimate.v), noise=None, method="vamp",
        )  # fmt: skip

    def _signed(self, x: Float) -> Float:
        return x if self.prior.signed else np.maximum(x, 0.0)


def _learnt(noise: Noise, data: Intensities, z: Float, freedom: float) -> Intensities:
    """The data with the level of noise that a fit z leaves."""
    level = noise.learn(data.y, (data.B.lengths(z) * data.norms) ** 2, min(freedom, 0.9 * data.y.size))
    return data.in_noise(level)
