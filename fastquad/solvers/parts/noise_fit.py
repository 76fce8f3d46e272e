"""When nothing fits exactly: which coordinates the data speak for, and how noisy they are.

A support of s coordinates with residual sum of squares RSS is scored by

    m ln(σ̂²/var(y)) + s (ln m + 2 ln n),      σ̂² = RSS/(m − s),

the BIC with the price of choosing each coordinate among n, relative to that of a constant y; the unbiased σ̂² in the
place of RSS/m keeps large supports from looking good. (For k = 3 and n = 100 the error at this price is within 2% of
the least.) Adding the coordinate with the largest gain and dropping the one that costs least, while the score falls,
leads to the support. Its least-squares fit has the norm of x without the bias that the noise puts into φ.

A fit is taken for signal in noise where two things hold. Its score is below −0.35 m and below −20, with at most m/4
coordinates: y is then explained far beyond what a choice of coordinates could do by chance. And what is left looks like
noise: a fit that lacks a part δ of the signal leaves r ≈ −2 W δ with W the products of the fit, so that r leans towards
columns of W, however many coordinates δ has (see `share_left_out`).
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome
from fastquad.engine.trust.evidence import against_chance
from fastquad.engine.trust.tolerances import SPARE_BITS
from fastquad.measurements.contractions import Diagonals, Products
from fastquad.numerics import quartic
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float, Indices

_REFIT = Rule(max_steps=30)
_MAX_CHANGES = 40
#: The evidence beyond all choices that makes an answer found, in nats: 20 bits, one chance in a million.
FOUND = SPARE_BITS * math.log(2)
# The largest number of coordinates, as a share of m, at which a fit can be distinguished from overfitting.
MAX_SHARE = 1 / 4
# How far the score must fall below that of a constant, for each measurement.
CONVINCING = 0.35
# How far it must fall at least: odds of e^10.
CONVINCING_AT_LEAST = 20.0
# The largest share of the residual that may be signal.
_MAX_LEFT_OUT = 1 / 2
# The share of y's standard deviation below which a fit lacks at most a small part of x.
_MOSTLY_EXPLAINED = 0.3
# The number of standard deviations at which a missing part must be ruled out, if a fit leaves more.
_DEVIATIONS = 2.5

Proposal = Asks[tuple[Indices, Float] | None]


def beyond_chance(problem: Problem, s: int, r: Float) -> float:
    """The nats by which a fit on s coordinates that leaves r explains y beyond any choice of support and valley.

    A fit with as many free numbers as measurements explains nothing, whatever it leaves.
    """
    spare = problem.m - s + problem.turning
    if spare <= 0:
        return -math.inf
    nats, by_chance = against_chance(problem, s, float(np.linalg.norm(r)) / math.sqrt(spare))
    return nats - by_chance


def explaining_more(problem: Problem, found: Fit, best: Fit | None) -> Fit:
    """The fit that explains more beyond chance, and of those that explain nothing the one that leaves less."""

    def rank(fit: Fit) -> tuple[float, float]:
        return beyond_chance(problem, fit.support.size, fit.r), -fit.residual

    return found if best is None or rank(found) > rank(best) else best


def promising(problem: Problem, found: Fit) -> bool:
    """Whether a fit as it is explains y beyond any choice: nothing is read for it."""
    return beyond_chance(problem, found.support.size, found.r) > FOUND


def conclusion(
    problem: Problem, entries: Entries, found: Fit, method: str, cache: GrowingBlock
) -> Asks[Outcome | None]:
    """The outcome with which a fit ends the solve: it is exact, or signal in noise; or None."""
    exact, s = found.exact(problem, entries, method, cache), found.support.size
    if exact is not None:
        return exact
    # Where A has a structure of its own, what chance can fit is not known: a noise level must be given.
    if (entries.independent or problem.sigma) and (yield from convincing(problem, found)):
        level = sigma(problem, found.residual, s)
        note = f"The fit on {s} coordinates leaves noise with a standard deviation of {level:.3g}."
        return Outcome(found.x, found.residual, End.CONVERGED, s, note, noise=level, method=method, entries=entries)
    return None


def score(problem: Problem, residual: float, s: int) -> float:
    """The BIC of a fit with s coordinates, relative to that of a constant y."""
    m, n = problem.m, problem.n
    if s >= m:
        return math.inf
    spread = _spread(problem)
    variance = max(residual, EXACT_RESIDUAL) ** 2 * m / (m - s)
    return m * math.log(variance / max(spread, 1e-300)) + s * (math.log(m) + 2 * math.log(n))


def sigma(problem: Problem, residual: float, s: int) -> float:
    """The standard deviation of the noise that a fit with s coordinates leaves."""
    return residual * float(np.linalg.norm(problem.y)) / math.sqrt(max(1, problem.m - s))


def convincing(problem: Problem, found: Fit) -> Asks[bool]:
    """Whether this is signal in noise: by the score, and by the noise level or else the look of the residual."""
    m, s = problem.m, found.support.size
    if problem.noiseless or not _beyond_chance(problem, found.residual, s):
        return False
    if problem.noise.given:
        limit = problem.sigma * math.sqrt(within_noise(m - s))
        return found.residual * float(np.linalg.norm(problem.y)) <= limit
    return (yield from complete(problem, found))


def complete(problem: Problem, found: Fit) -> Asks[bool]:
    """Whether what a fit leaves looks like noise, and not like signal outside of its support."""
    everything = found.support.size == problem.n
    return everything or (yield from share_left_out(problem, found)) < _max_left_out(problem, found)


def within_noise(degrees: int) -> float:
    """The largest χ² of this many degrees of freedom that noise explains: three standard deviations above its mean."""
    return degrees + 3 * math.sqrt(2 * degrees)


def _max_left_out(problem: Problem, found: Fit) -> float:
    """How large `share_left_out` may be: well below 1, and safely so where half of x may be left out."""
    if found.residual < _MOSTLY_EXPLAINED * math.sqrt(_spread(problem)):
        return _MAX_LEFT_OUT
    s = found.support.size
    deviation = math.sqrt(2 * (problem.n - s)) / (problem.m - s)
    return min(_MAX_LEFT_OUT, 1 - _DEVIATIONS * deviation)


def _spread(problem: Problem) -> float:
    """The variance of y, relative to its mean square."""
    return float(np.var(problem.y)) / float(np.mean(problem.y**2))


def _beyond_chance(problem: Problem, residual: float, s: int) -> bool:
    if s == problem.n:  # nothing was chosen
        return dense_score(problem, residual, s) < 0
    return s <= MAX_SHARE * problem.m and score(problem, residual, s) < -enough(problem)


def enough(problem: Problem) -> float:
    """How far the score of a fit must fall below that of a constant to be beyond chance."""
    return max(CONVINCING * problem.m, CONVINCING_AT_LEAST)


def share_left_out(problem: Problem, found: Fit) -> Asks[float]:
    """The share of ‖r‖² that is signal outside of the support: about 0 for noise, 1 where a part of x is left out.

    P has the other N columns of W, without their components in the span of the support's (r is orthogonal to it) and
    of unit length: vectors in M = m − s dimensions. For noise, `u = r/‖r‖` has a random direction, and ‖P^T u‖² the
    mean N/M with a standard deviation of about sqrt(2N)/M. For r = P δ it is larger by about 1, whatever the number of
    coordinates that δ has.
    """
    W = yield Products(found.x)
    P = _apart(np.delete(W, found.support, axis=1), found.W)
    P /= np.maximum(np.linalg.norm(P, axis=0), 1e-300)
    return float(np.sum((found.r @ P) ** 2)) / float(found.r @ found.r) - P.shape[1] / (problem.m - found.support.size)


def sparsified(problem: Problem, found: Fit, cache: GrowingBlock) -> Asks[Fit]:
    """A fit on too many coordinates, reduced to those that stand out of their standard errors; the better one by score.

    The errors of a fit have the variances `σ̂² ((4 W^T W)^{-1})_jj`.
    """
    inverse = np.diagonal(np.linalg.pinv(found.W.T @ found.W, hermitian=True))
    errors = sigma(problem, found.residual, found.support.size) ** 2 * inverse / 4
    price = math.log(problem.m) + 2 * math.log(problem.n)
    support = found.support[found.x[found.support] ** 2 > price * errors]
    if support.size in (0, found.support.size):
        return found
    x = np.zeros_like(found.x)
    x[support] = found.x[support]
    fewer = yield from fit(problem, x, support, _REFIT, cache)
    fewer = yield from stepwise(problem, fewer, cache)
    better = score(problem, fewer.residual, fewer.support.size) < score(problem, found.residual, found.support.size)
    return fewer if better else found


def stepwise(problem: Problem, found: Fit, cache: GrowingBlock) -> Asks[Fit]:
    """Add and drop single coordinates, with a refit each, while the score falls."""
    diagonals = yield Diagonals()
    best = score(problem, found.residual, found.support.size)
    for _ in range(_MAX_CHANGES):
        change = None
        for propose in (_dropped, _added):
            proposal = yield from propose(problem, found, diagonals)
            if proposal is None:
                continue
            support, x = proposal
            tried = yield from fit(problem, x, support, _REFIT, cache)
            value = score(problem, tried.residual, support.size)
            if value < best:
                best, change = value, tried
        if change is None:
            return found
        found = change
    return found


def _dropped(problem: Problem, found: Fit, diagonals: Float) -> Proposal:
    """The support without the coordinate that costs least: `z_j²/((4 W^T W)^{-1})_jj`."""
    if found.support.size < 2:
        return None
    yield from ()
    inverse = np.diagonal(np.linalg.pinv(found.W.T @ found.W, hermitian=True))
    worst = int(np.argmin(found.x[found.support] ** 2 / np.maximum(inverse, 1e-300)))
    x = found.x.copy()
    x[found.support[worst]] = 0.0
    return np.delete(found.support, worst), x


def _added(problem: Problem, found: Fit, diagonals: Float) -> Proposal:
    """The support with the coordinate of the largest gain."""
    if found.support.size >= min(MAX_SHARE * problem.m, problem.n):
        return None
    return (yield from grown(problem, found, diagonals))


def grown(problem: Problem, found: Fit, diagonals: Float) -> Asks[tuple[Indices, Float]]:
    """The support with the coordinate of the largest gain, however large it is, and x with a value there."""
    W = yield Products(found.x)
    gains, values = quartic.gains(-found.r, W, diagonals)
    # To first order, but with the values on the support following: what counts for a small coordinate.
    P = _apart(W, found.W)
    squares = np.maximum(np.einsum("ij,ij->j", P, P), 1e-300)
    along = found.r @ P
    following = along**2 / squares > gains
    gains, values = np.where(following, along**2 / squares, gains), np.where(following, -along / (2 * squares), values)
    gains[found.support] = gains[problem.known] = -np.inf
    best = int(np.argmax(gains))
    x = found.x.copy()
    x[best] = values[best]
    return np.sort(np.append(found.support, best)), x


def _apart(W: Float, columns: Float) -> Float:
    """The columns of W without their components in the span of others."""
    span, _ = np.linalg.qr(columns)
    return W - span @ (span.T @ W)


def stationary(found: Fit, tolerance: float = 1e-6) -> bool:
    """Whether the gradient vanishes: the residual is orthogonal to the columns of the Jacobian."""
    if found.steepness is not None:
        return found.steepness <= tolerance
    gradient = float(np.linalg.norm(found.r @ found.W))
    return gradient <= tolerance * float(np.linalg.norm(found.W) * np.linalg.norm(found.r))


def dense_score(problem: Problem, residual: float, s: int) -> float:
    """The BIC, plus m/3, of a fit on s coordinates that were not chosen by looking at y; below 0 it is convincing.

    It is infinite for m < 2 s: there the wrong valleys of ‖r‖² fit almost as well as the right one.
    """
    m = problem.m
    if m < 2 * s:
        return float("inf")
    spread = max(float(np.var(problem.y)) / float(np.mean(problem.y**2)), 1e-300)
    variance = max(residual, EXACT_RESIDUAL) ** 2 * m / (m - s)
    return m * float(np.log(variance / spread)) + s * float(np.log(m)) + m / 3
