"""A fit on many coordinates under noise: weighted least squares, bad measurements, standard errors.

With given standard deviations σ_i, Σ (r_i/σ_i)² is minimised; at the minimum x has the covariance
`C = (4 W^T diag(1/σ²) W)^{-1}`, and a residual the variance `σ_i² (1 − h_i)`, with `h_i = 4 W_i C W_i^T/σ_i²`, the
leverage of its own measurement on the fit. If σ is not given, it is one number, estimated from r.

Bad measurements (`outliers=True`) are found as power engineers do: the one with the largest normalised residual
|r_i|/(σ_i √(1 − h_i)) is left out if that is above 4, and the fit is repeated until none is. An error in a measurement
that no other one checks, h_i near 1, cannot be found. A fit in another valley than that of x has many large residuals;
it must not be made to fit by leaving them out, so at most a tenth of the measurements are left out, and only if most
residuals are noise.

A fit is *converged* if the given noise explains it, `Σ (r_i/σ_i)² <= d + 3 √(2d)` with d = m' − s for the m' that are
kept, or, if no noise was given, if it is far better than chance with m >= 2 s.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import End, Outcome
from fastquad.measurements.contractions import Factors, Verbs
from fastquad.noise import Noise
from fastquad.noise.bend import BENT, bend
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.numerics.transform import sampled_variances
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.solvers.parts.likelihood import bottom
from fastquad.solvers.parts.noise_fit import dense_score, promising, stationary, within_noise
from fastquad.typing import Asks, Float, Indices

_REFIT = Rule(max_steps=30)
# The normalised residual of a bad measurement: a sound one exceeds it less than once in ten thousand.
_BAD = 4.0
# The largest share of measurements that may be left out: too few to make a fit in another valley look good.
_MOST = 0.1
# The largest median of the normalised residuals in the valley of x, before any is left out.
_PLAUSIBLE = 3.0
# The weight of a measurement that is left out: as good as zero, but its row of W is still known.
_NOTHING = 1e-7
# The p-value below which a given noise does not explain what is left: that of three standard deviations above the mean
# of a χ² of many degrees.
_CHANCE = 1e-3
# The probability of being sound from which on a measurement is.
_SOUND = 0.5
# The leverage above which no other measurement checks this one.
_UNCHECKED = 1 - 1e-6


class Weighed(NamedTuple):
    """A fit, the standard deviations (m,) that it was made with, and the measurements that were left out."""

    fit: Fit
    sigma: Float
    left_out: Indices
    leverage: Float
    #: The variances of x on the support.
    variances: Float
    #: The model of the noise, with what was learnt.
    model: Noise | None = None

    @property
    def kept(self) -> Indices:
        """The measurements that were not left out."""
        return np.delete(np.arange(self.sigma.size), self.left_out)


def weigh(problem: Problem, found: Fit, cache: GrowingBlock) -> Asks[Weighed]:
    """The weighted fit that starts from another one, without bad measurements if outliers are allowed."""
    m, s = problem.m, found.support.size
    if problem.noise.reweighs:
        return (yield from _most_likely(problem, found, cache))
    given = problem.noise.deviations(problem.y) if problem.sigma else None
    if given is not None and np.ptp(given) > 0:
        found = yield from fit(problem, found.x, found.support, _REFIT, cache, _weights(given, ()))
    elif not stationary(found):  # the search for x stopped before the minimum
        found = yield from fit(problem, found.x, found.support, _REFIT, cache)
    left_out: list[int] = []
    while True:
        sigma = _estimated(found, m, s, left_out, problem.outliers) if given is None else given
        leverage, variances = yield from _influences(problem, found, sigma, left_out)
        normalised = np.abs(found.r) / (sigma * np.sqrt(np.maximum(1 - leverage, 1e-12)))
        normalised[leverage > _UNCHECKED] = 0.0
        normalised[left_out] = 0.0
        worst = int(np.argmax(normalised))
        hopeless = float(np.median(np.abs(found.r) / sigma)) > _PLAUSIBLE
        enough = hopeless or len(left_out) >= _MOST * m or m - len(left_out) <= s
        if not problem.outliers or normalised[worst] < _BAD or enough:
            return Weighed(found, sigma, np.array(sorted(left_out), dtype=np.intp), leverage, variances)
        left_out.append(worst)
        found = yield from fit(problem, found.x, found.support, _REFIT, cache, _weights(sigma, left_out))


def _most_likely(problem: Problem, found: Fit, cache: GrowingBlock) -> Asks[Weighed]:
    """The bottom of the likelihood; the model tells which measurements are sound."""
    ended = yield from bottom(problem, found.x, found.support, cache)
    sigma, z = ended.sigma(problem), ended.z(problem)
    left_out = np.flatnonzero(ended.noise.soundness(problem.y, z) < _SOUND)
    leverage, variances = yield from _influences(problem, ended.fit, sigma, left_out.tolist())
    return Weighed(ended.fit, sigma, left_out, leverage, variances, ended.noise)


def _influences(problem: Problem, found: Fit, sigma: Float, left_out: list[int]) -> Asks[tuple[Float, Float]]:
    """The leverages (m,) and the variances of x (s,) of a fit, by matrices or by a transform."""
    if found.steepness is None:
        return _influence(found, sigma, left_out)
    return (yield from _sampled_influence(problem, found, sigma, left_out))


def _evident(problem: Problem, model: Noise, z: Float, s: int) -> bool:
    """Whether the likelihood of a fit is far above that of a constant y: as `dense_score`, for any noise.

    `2 ln p(z)/p(constant) > s ln m + m/3`, for m >= 2 s.
    """
    m, y = problem.m, problem.y
    constant = np.full(m, float(np.median(y)))
    null = problem.noise.learn(y, constant, 1)
    gain = float(np.sum(model.log_likelihood(y, z))) - float(np.sum(null.log_likelihood(y, constant)))
    return m >= 2 * s and 2 * gain > s * math.log(m) + m / 3


def verdict(problem: Problem, entries: Entries, weighed: Weighed, method: str, agreed: bool = False) -> Outcome | None:
    """The outcome if the fit is signal in noise; None if it is not convincing, unless another start agreed."""
    found, sigma, kept = weighed.fit, weighed.sigma, weighed.kept
    s, count = found.support.size, kept.size
    if count <= s:
        return None
    if weighed.model is not None:
        model, z = weighed.model, problem.y + found.r
        if problem.noise.given and model.explains(problem.y, z, s - problem.turning) < _CHANCE:
            return None
        if not problem.noise.given and not _evident(problem, model, z, s):
            return None
    elif problem.noise.given:
        chi2 = float(np.sum((found.r[kept] / sigma[kept]) ** 2))
        if problem.noiseless or chi2 > within_noise(count - s):
            return None
    elif not stationary(found) or not (agreed or _convincing(problem, found, kept)):
        return None
    stderr = np.zeros(problem.n)
    stderr[found.support] = np.sqrt(np.maximum(weighed.variances, 0.0))
    error = float(np.linalg.norm(stderr) / np.linalg.norm(found.x))
    level = float(np.sqrt(np.mean(sigma[kept] ** 2)))
    note = f"The fit on {s} coordinates leaves noise with a standard deviation of {level:.3g}."
    # Leave each measurement out, as `bend` assumes: the fit has taken its part of the residual.
    alone = -found.r / (1 - np.minimum(weighed.leverage, _UNCHECKED))
    tested = not (problem.noise.given or problem.noise.reweighs or problem.outliers) and found.steepness is None
    bent = bend(problem.y, alone) if tested else 0.0
    if bent:
        note, error, stderr = f"{note} {BENT}", math.hypot(error, bent), np.hypot(stderr, bent * found.x)
    return Outcome(
        found.x, found.residual, End.CONVERGED, free=s, noise=level, error=error, stderr=stderr, method=method,
        outliers=weighed.left_out if problem.outliers else None, entries=entries,
        note=note, model=weighed.model,
    )  # fmt: skip


def _convincing(problem: Problem, found: Fit, kept: Indices) -> bool:
    """Whether a fit is far better than chance."""
    if problem.matrix_free:
        return promising(problem, found)
    return dense_score(problem, _residual(problem, found, kept), found.support.size) < 0


def _residual(problem: Problem, found: Fit, kept: Indices) -> float:
    return float(np.linalg.norm(found.r[kept]) / np.linalg.norm(problem.y[kept]))


def _weights(sigma: Float, left_out: list[int] | tuple[()]) -> Float:
    """1/σ_i, scaled so that the largest is 1; as good as zero for the measurements that are left out."""
    floor = 1e-12 * float(sigma.max())
    weights = 1 / np.maximum(sigma, floor)
    weights[list(left_out)] *= _NOTHING
    return weights / weights.max()


def _estimated(found: Fit, m: int, s: int, left_out: list[int], robust: bool) -> Float:
    """One σ for all measurements: from the residuals' mean square, or from their median if some may be bad."""
    r = np.abs(np.delete(found.r, left_out))
    if robust:
        rank = min(r.size - 1, (r.size + s + 1) // 2)
        level = float(np.partition(r, rank)[rank]) / 0.6745
    else:
        level = float(np.sqrt(np.sum(r**2) / max(1, r.size - s)))
    return np.full(m, max(level, 1e-300))


def _influence(found: Fit, sigma: Float, left_out: list[int]) -> tuple[Float, Float]:
    """The leverages (m,) and the variances of x (s,) of a fit."""
    floor = 1e-12 * float(sigma.max())
    J = 2 * found.W / np.maximum(sigma, floor)[:, None]
    J[left_out] = 0.0
    size = float(np.abs(J).max(initial=0.0)) or 1.0  # scale J: its square may overflow
    covariance = np.linalg.pinv((J / size).T @ (J / size), rcond=1e-13, hermitian=True) / size / size
    return np.einsum("ij,jk,ik->i", J, covariance, J, optimize=True), np.diagonal(covariance)


def _sampled_influence(problem: Problem, found: Fit, sigma: Float, left_out: list[int]) -> Asks[tuple[Float, Float]]:
    """The same of a fit by a transform or by functions, estimated from draws of the noise."""
    weights = 1 / np.maximum(sigma, 1e-12 * float(sigma.max()))
    weights[left_out] = 0.0
    forms = yield Verbs() if problem.matrix_free else Factors()
    variances, leverage = sampled_variances(forms.jacobian(found.x, weights), problem.rng)
    yield Reread(forms.uncharged())
    return leverage, variances
