"""Estimate how far a decoder's signal is from the one that was measured, and decide whether to trust it.

A decoder expresses no real signal exactly, so the residual of the best fit shows two things at once: how noisy y is,
and how far off x is. For A with independent centred entries and an x̂ that does not depend on A,

    E r² = ‖x̂x̂^T − xx^T‖² + σ²,

so that with the fitted norm the relative distance d has `d² = 1 − sqrt(R²)`, R² the share of y's variance that x̂
predicts. But the fit did depend on A: with the leverages h of its k numbers, r_i/(1 − h_i) is the residual that
measurement i would have if it had been left out. If A has few directions, the error is also bounded by the mean size of
W.

    v     = mean (r_i/max(1 − h_i, 0.05))²
    E²(v) = max(1 − sqrt(clip(1 − (v − σ²)/(var y − σ²), 0, 1)),  (v − σ²) n/(4t² mean ‖W_i‖²))
    V²    = Σ w ‖g' − g‖² over the valleys g' that the search ended in, w their posterior weights
    error = sqrt(E²(v) + V²/2),      bound = the same with v at the upper end of its 95 % interval

σ = 0 unless the noise is given; if it is, the posterior variance of the code is added. An answer is a success if
m >= 2k (4k with noise, and a third of y's variance explained) and `bound` is below 0.4.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.solvers.latent.search import Unknowns, Valleys
from fastquad.typing import Float

# The largest bound of the relative distance at which an answer is trusted.
TRUSTED = 0.4
# The least 1 − h_i that a residual is divided by.
_LEAST_LEFT = 0.05
# The distance below which two valleys are the same.
_SAME = 0.15
# The number of measurements for each latent number that an answer needs to be trusted, without noise.
_ENOUGH = 2
# The same with noise.
_ENOUGH_IN_NOISE = 4
# The least effective number of measurements, as a share of all: those of very different size count as fewer.
_EFFECTIVE = 0.75
# With noise, the largest share of y's variance that may be unexplained.
_MOST_LEFT = 2 / 3
# A change of the signal is one of its phase where the cosine with that is as near to one as this.
_TURNS = 1e-6
# The chance that a variance lies above the upper end of its interval.
_CHANCE = 0.05


class Estimate(NamedTuple):
    """The estimated relative distance to the signal, a bound of it, and whether to trust the answer."""

    error: float
    bound: float
    trusted: bool
    #: The number of latent numbers that the data determine; one more for a complex signal, as `Unknowns.counted`.
    rank: int


def estimate(unknowns: Unknowns, theta: Float, W: Float, ridge: float, valleys: Valleys | None = None) -> Estimate:
    """Estimate how far off the signal at θ is; W are the products of its unit signal g, `ridge` is its λ."""
    codes, t = unknowns.split(np.asarray(theta, dtype=np.float64)[None])
    decoder = unknowns.prior.range
    g, J = (part[0].astype(np.float64) for part in decoder.jacobian(codes.astype(decoder.dtype)))
    y, m, n, k = unknowns.y, *W.shape, codes.shape[1]
    q, square = W @ g, float(t[0])
    r = square * q - y
    jacobian = 2 * square * (W @ J)
    whole = np.column_stack([jacobian, q]) if unknowns.free else jacobian
    gram = whole.T @ whole
    weights = np.full(whole.shape[1], max(ridge, 1e-12 * float(gram.trace()) / len(gram)))
    weights[k:] = 0.0
    leverage = np.einsum("ij,ji->i", whole, np.linalg.lstsq(gram + np.diag(weights), whole.T, rcond=1e-14)[0])
    gamma = float(leverage.sum())
    noise = unknowns.noise
    left_out = r / np.maximum(1 - leverage, _LEAST_LEFT)
    v = float(np.mean(left_out**2))
    spread = float(np.var(y, ddof=1)) if m > 1 else 0.0
    norm = float(np.linalg.norm(g)) or 1.0
    size = np.einsum("ij,ij->i", W, W) / norm**2
    # Count measurements of very different size as fewer.
    effective = float(size.sum()) ** 2 / max(float(size @ size), 1e-300)
    seen = 4 * (square * norm**2) ** 2 * float(np.mean(size)) / n

    def distance(variance: float) -> float:
        """E²: the squared relative distance that this variance of the residual implies."""
        excess = max(variance - noise, 0.0)
        explained = 1 - excess / max(spread - noise, 0.1 * spread, 1e-300)
        return max(1 - math.sqrt(min(max(explained, 0.0), 1.0)), min(1.0, excess / max(seen, 1e-300)))

    level = float(r @ r) / max(m - gamma, 1.0)
    apart = 0.0 if valleys is None else _apart(unknowns, valleys, g / norm, level)
    free = max(min(effective, m) - gamma, 0.5)
    # chdtri(v, p) is the value that a χ² of v degrees exceeds with chance p.
    upper = free / float(chdtri(free, 1 - _CHANCE))
    posterior = _posterior(jacobian, J, norm, noise, level)
    error = math.sqrt(max(distance(v), posterior) + apart / 2)
    bound = math.sqrt(max(distance(upper * v), posterior) + apart / 2)
    enough = (_ENOUGH_IN_NOISE if noise else _ENOUGH) * k
    counts = m >= enough and effective >= _EFFECTIVE * enough
    trusted = counts and bound < TRUSTED and (not noise or v < _MOST_LEFT * spread)
    return Estimate(error, bound, bool(trusted), _rank(whole, J, turned(g) if unknowns.turning else None))


def _rank(whole: Float, J: Float, phase: Float | None) -> int:
    """How many latent numbers the data determine, and the phase: one that does nothing but turn it need not be."""
    values = np.linalg.svd(whole, compute_uv=False)
    rank = int(np.count_nonzero(values > 1e-10 * values[0]))
    if phase is not None and rank == whole.shape[1] - 1:
        unseen = np.linalg.svd(whole)[2][-1]
        change = J @ unseen[: J.shape[1]]
        rank += abs(float(change @ phase)) > (1 - _TURNS) * float(np.linalg.norm(change) * np.linalg.norm(phase))
    return rank + (phase is not None)


def judged(outcome: Outcome, found: Estimate, m: int) -> Outcome:
    """The outcome with its error; a success only if that is small."""
    if outcome.residual < EXACT_RESIDUAL:
        if outcome.free is not None and found.rank < outcome.free:
            # Some latent numbers are undetermined, so infinitely many signals fit: no success.
            return replace(outcome, free=m + 1)
        return replace(outcome, error=0.0)
    outcome = replace(outcome, error=found.error)
    if outcome.end is not End.CONVERGED or found.trusted:
        return outcome
    note = f"The signal fits, but it may be wrong by as much as {found.bound:.2g} times its norm."
    return replace(outcome, end=End.NOISY, note=f"{outcome.note} {note}".strip())


def _posterior(jacobian: Float, J: Float, norm: float, noise: float, level: float) -> float:
    """The squared relative error that the given noise leaves in the code."""
    if not noise:
        return 0.0
    covariance = level * np.linalg.inv(jacobian.T @ jacobian + level * np.eye(J.shape[1]))
    return float(np.einsum("ij,jk,ik->", J, covariance, J)) / norm**2


def _apart(unknowns: Unknowns, valleys: Valleys, g: Float, level: float) -> float:
    """V²: how far from the unit signal g the other valleys are, weighted by their posterior."""
    codes = unknowns.split(valleys.theta)[0]
    others = unknowns.prior.range(codes.astype(unknowns.prior.range.dtype)).astype(np.float64)
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    k = codes.shape[1]
    level = max(level, 1e-300)
    curvature = np.linalg.slogdet(valleys.gram[:, :k, :k] / level + np.eye(k))[1]
    weight = -(valleys.square + level * np.einsum("bk,bk->b", codes, codes)) / (2 * level) - curvature / 2
    order = np.argsort(-weight, kind="stable")
    kept: list[int] = []
    for i in order:
        if all(np.linalg.norm(others[i] - others[j]) >= _SAME for j in kept):
            kept.append(int(i))
    share = np.exp(weight[kept] - weight[kept].max())
    away = np.array([float(np.sum((others[i] - g) ** 2)) for i in kept])
    away[away < _SAME**2] = 0.0
    return float(share @ away / share.sum())
