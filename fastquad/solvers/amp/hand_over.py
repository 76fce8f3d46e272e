"""Hand AMP's estimate over to a descent, in the coordinates that it shows, for an exact fit.

**Sparse.** Levenberg–Marquardt on the largest coordinates; if that nearly fits, small ones are missing, and those that
explain most of the residual are added.

**A prior with coordinates of its own.** The prior names them, and the missing ones as well:

    rounds        the nearest signal of the prior, and its products
    nonnegative   Levenberg–Marquardt on a support with z >= 0
    a matrix U    Levenberg–Marquardt on `U^T Ã_i U`
    otherwise     Levenberg–Marquardt on a support

**Outliers.** Measurements I with P(sound) > 1/2 are fitted, on at most 0.7 |I| coordinates; then I becomes those whose
residual is within three standard deviations, estimated from the median, and so on. The fit is exact if

    m' = #{|r_i| < 1e-9 φ²},   m' > m/2,   30 (m' − s) >= log2 (m choose m') + log2 (n choose s) + s + 20:

no choice of measurements and coordinates fits m' measurements by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL, End, Outcome, Step
from fastquad.engine.trust.evidence import log_choices
from fastquad.engine.verdict import exact_enough
from fastquad.measurements.contractions import Compress, Products
from fastquad.numerics.levenberg_marquardt import Rule, on_block
from fastquad.numerics.nonnegative import NonnegativeDescent
from fastquad.priors.base import Prior
from fastquad.solvers.amp.amp import Ensemble, Walk, cosine, tight
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.solvers.parts.noise_fit import stationary
from fastquad.typing import Asks, Float, Indices

# When a descent stops: it either converges within a few steps, or is in the wrong valley.
_RULE = Rule(max_steps=20, patience=4, bottom=1e-3)
# The same where a complex signal has nearly as many unknowns as there are measurements: valleys are long, but in the
# right one the residual falls by a sixth in every four steps (all but one or two of 44 descents at n = 64, m = 128).
_TIGHT_RULE = Rule(max_steps=60, patience=4, factor=1.4, bottom=1e-3)
# The residual below which a fit may lack only small coordinates.
_NEARLY = 0.1
# The ratio of residuals below which a fit is enlarged again: enlarging does not remove noise.
_BETTER = 0.8
# The share of its largest possible value below which the gradient shows the bottom of a valley.
_LEVEL = 0.1
# The residual above which such a bottom is not just rounding.
_NOT_ROUNDING = 1e-6
# The cosine of a start with the bottom of a valley from which on it would lead there.
_SAME_VALLEY = 0.9
# The largest share of coordinates up to which all groups that may be nonzero are taken: their block costs under a pass.
_GENEROUS = 0.75
# A descent in the coordinates of a prior goes down to rounding.
_STRUCTURED = Rule(max_steps=20, patience=4)
_TRIMMED = Rule(max_steps=10)
_ROUNDS = 12
# The weight of a measurement that is left out: as good as zero.
_NOTHING = 1e-9
# The share of φ² below which a residual is rounding.
_AGREES = 1e-9
# The bits of evidence in a residual that vanishes.
_BITS = 30
# The bits of evidence that must be left.
_SPARE = 20
# The largest number of coordinates, as a share of the sound measurements.
_SHARE = 0.7
# How often such a fit is enlarged.
_LARGER = 2

Flags = NDArray[np.bool_]


# -- sparse -----------------------------------------------------------------------------------------------------------


@dataclass
class SparseHandOver:
    """Levenberg–Marquardt on the largest coordinates, and on more of them if that nearly fits."""

    problem: Problem
    cache: GrowingBlock
    #: The residual of the last fit that was enlarged.
    enlarged: float = np.inf
    #: The bottoms of valleys: the ends of descents without an exact fit.
    bottoms: list[Fit] = field(default_factory=list)

    def __call__(self, walk: Walk) -> Asks[Fit]:
        """Fit the coordinates that AMP estimates to be nonzero."""
        groups = self.problem.groups
        size = int(np.count_nonzero(walk.weight > 0.1)) + 2
        if groups is not None:
            largest = 2 * int(groups.sizes.max())
            size += largest - 2
            if size > _GENEROUS * self.problem.n:
                # Take fewer groups: enough, and far cheaper where most are not zero.
                size = int(1.1 * np.count_nonzero(walk.weight > 0.5)) + largest
        return (yield from self.largest(walk.z.copy(), walk.z**2 + walk.v * walk.weight, size))

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        """The outcome if a fit is exact."""
        determined = found.support.size - self.problem.turning < self.problem.m
        if not determined or not exact_enough(self.problem, found.residual):
            return None
        known = found.known(self.cache)
        return Outcome(found.x, found.residual, free=found.support.size, method="amp", known=known)

    def largest(self, x: Float, importance: Float, size: int) -> Asks[Fit]:
        """Fit the most important coordinates, from x."""
        m, n = self.problem.m, self.problem.n
        size = min(size, m - 1 + self.problem.turning, n)
        support = self._largest(importance, size)
        known = self._bottom(x, support)
        if known is not None:
            return known
        result = yield from self._fit(x, support)
        if not EXACT_RESIDUAL <= result.residual < min(_NEARLY, _BETTER * self.enlarged):
            return result
        self.enlarged = result.residual
        for larger in (1.25 * size, 0.8 * m):
            target = min(int(larger), m - 1 + self.problem.turning, n)
            if result.residual >= EXACT_RESIDUAL and target > result.support.size:
                result = self._bottom(result.x, np.arange(n)) or (yield from self._enlarge(result, target))
        return result

    def _fit(self, x: Float, support: Indices) -> Asks[Fit]:
        """Levenberg–Marquardt on a support, remembering where it ends."""
        rule = _TIGHT_RULE if tight(self.problem, support.size) else _RULE
        result = yield from fit(self.problem, x, support, rule, self.cache)
        self.at_bottom(result)
        return result

    def at_bottom(self, found: Fit) -> bool:
        """Whether a descent ended at the bottom of a valley without an exact fit; if so, it is remembered."""
        bottom = found.residual > _NOT_ROUNDING and stationary(found, _LEVEL)
        if bottom:
            self.bottoms.append(found)
        return bottom

    def _bottom(self, x: Float, support: Indices) -> Fit | None:
        """The end of an earlier descent, on this support or a larger one, that x would lead to as well."""
        if tight(self.problem, support.size):
            return None  # valleys are close together
        for found in self.bottoms:
            if cosine(found.x, x, self.problem.turning) > _SAME_VALLEY and np.isin(support, found.support).all():
                return found
        return None

    def _enlarge(self, result: Fit, size: int) -> Asks[Fit]:
        """Fit again with the coordinates whose columns of the Jacobian explain most of the residual."""
        W = yield Products(result.x)
        score = (result.r @ W) ** 2 / (np.einsum("ij,ij->j", W, W) + 1e-300)
        score[result.support] = np.inf
        support = self._largest(score, size)
        return (yield from self._fit(result.x, support))

    def _largest(self, importance: Float, size: int) -> Indices:
        """The most important coordinates, or groups of them."""
        if self.problem.groups is not None:
            return self.problem.groups.largest(importance, size)
        return np.sort(np.argsort(-importance, kind="stable")[:size])


# -- outliers ---------------------------------------------------------------------------------------------------------


class RobustHandOver(SparseHandOver):
    """The hand-over to measurements that agree; exact if they are more than chance could fit."""

    def __call__(self, walk: Walk) -> Asks[Fit]:
        sound = int(np.count_nonzero(walk.score.weight > 0.5))
        support = self.support(walk, max(1, min(int(_SHARE * sound), self.problem.n)))
        return (yield from trimmed(self.problem, walk, support, self.cache))

    def support(self, walk: Walk, most: int) -> Indices:
        """The coordinates to fit, at most `most`."""
        size = min(int(np.count_nonzero(walk.weight > 0.1)) + 2, most)
        return np.sort(np.argsort(-(walk.z**2 + walk.v * walk.weight), kind="stable")[:size])

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        scale = ensemble.phi2 / math.sqrt(ensemble.gain)
        if not certified(self.problem, found, scale):
            return None
        m, agree = self.problem.m, agreeing(self.problem, found, scale)
        outliers = np.setdiff1d(np.arange(m), agree)
        note = describe(m, agree.size, found.support.size) if outliers.size else ""
        return Outcome(
            found.x, found.residual, End.AGREES if outliers.size else End.STAGNATED, found.support.size, note,
            error=0.0, outliers=outliers, method="amp",
        )  # fmt: skip


def trimmed(problem: Problem, walk: Walk, support: Indices, cache: GrowingBlock) -> Asks[Fit]:
    """The fit to the measurements that agree with it, from a support that grows."""
    sound = walk.score.weight > 0.5
    scale = walk.ensemble.phi2 / math.sqrt(walk.ensemble.gain)
    found, sound = yield from _alternate(problem, walk.z.copy(), support, sound, scale, cache)
    for _ in range(_LARGER):
        # Add the coordinates that explain most of the residual of the sound measurements: small ones may be missing.
        target = min(int(1.25 * support.size) + 1, int(_SHARE * np.count_nonzero(sound)), problem.n)
        left = float(np.linalg.norm(found.r[sound])) / float(np.linalg.norm(problem.y[sound]))
        if certified(problem, found, scale) or left > _NEARLY or target <= support.size:
            break
        W = yield Products(found.x)
        score = np.abs(found.r[sound] @ W[sound]) / np.sqrt(np.einsum("ij,ij->j", W[sound], W[sound]) + 1e-300)
        score[support] = np.inf
        support = np.sort(np.argsort(-score, kind="stable")[:target])
        found, sound = yield from _alternate(problem, found.x, support, sound, scale, cache)
    return found


def _alternate(
    problem: Problem, x: Float, support: Indices, sound: Flags, scale: float, cache: GrowingBlock
) -> Asks[tuple[Fit, Flags]]:
    """Alternate between fitting the sound measurements and taking those for sound that the fit explains."""
    for _ in range(_ROUNDS):
        found = yield from fit(problem, x, support, _TRIMMED, cache, np.where(sound, 1.0, _NOTHING))
        # Take the median of all but the s measurements that the fit explains by itself.
        rank = min(problem.m - 1, -(-(problem.m + support.size + 1) // 2) - 1)
        deviation = float(np.partition(np.abs(found.r), rank)[rank]) / 0.6745
        within = np.abs(found.r) <= max(3 * deviation, _AGREES * scale)
        x = found.x
        if (within == sound).all():
            break
        sound = within
    return found, sound


def agreeing(problem: Problem, found: Fit, scale: float) -> Indices:
    """The measurements that a fit explains to rounding."""
    return np.flatnonzero(np.abs(found.r) < _AGREES * scale)


def certified(problem: Problem, found: Fit, scale: float) -> bool:
    """Whether a fit explains more measurements than any choice of rows and coordinates could by chance."""
    m, n, s = problem.m, problem.n, int(np.count_nonzero(found.x))
    count = agreeing(problem, found, scale).size
    needed = (log_choices(m, count) + log_choices(n, s)) / math.log(2) + s + _SPARE
    return 2 * count > m and count > s + 2 and _BITS * (count - s) >= needed


def describe(m: int, count: int, s: int) -> str:
    """A sentence on what is proven."""
    return (
        f"Exact for {count} of {m} measurements: x has {s} free coordinates and fits {count} measurements to 1e-9, of "
        f"which chance could fit {s}. The other {m - count} contradict it (`solution.outliers`)."
    )


# -- coordinates of a prior -------------------------------------------------------------------------------------------


class StructuredHandOver(SparseHandOver):
    """A descent from a run's estimate, in the coordinates that its prior names."""

    @property
    def prior(self) -> Prior:
        """The prior, which is never None here."""
        assert self.problem.prior is not None
        return self.problem.prior

    def __call__(self, walk: Walk) -> Asks[Fit]:
        """From the estimate of a run."""
        return (yield from self.descend(walk.z.copy(), walk.weight.copy()))

    def outcome(self, found: Fit, ensemble: Ensemble) -> Outcome | None:
        """The outcome if a fit is exact and ends the search."""
        if not self.ends(found):
            return None
        return Outcome(found.x, found.residual, free=self.prior.freedom(found.x), method="amp")

    def ends(self, found: Fit) -> bool:
        """Whether a fit is exact and has fewer free numbers than there are measurements.

        With as many of them other signals fit as well. For m >= n nothing better can be found, and any exact fit ends
        the search.
        """
        m, n = self.problem.m, self.problem.n
        return exact_enough(self.problem, found.residual) and (m >= n or self.prior.freedom(found.x) < m)

    def descend(self, z: Float, weight: Float) -> Asks[Fit]:
        """Descend from an estimate z with the weights of its coordinates."""
        if self.prior.rounds:
            return (yield from self._rounded(self.prior.nearest(z)))
        m, n = self.problem.m, self.problem.n
        most = max(1, min(n, m - 1 if self.prior.signed else m))
        where = self.prior.coordinates(z, weight, most)
        found = yield from self._fitted(z, where)
        if not EXACT_RESIDUAL <= found.residual < min(_NEARLY, _BETTER * self.enlarged):
            return found
        self.enlarged = found.residual
        size = where.shape[-1]
        for larger in (1.25 * size, 0.8 * m, m):
            target = min(int(larger), most)
            if found.residual >= EXACT_RESIDUAL and target > where.shape[-1]:
                W = yield Products(found.x)
                where = self.prior.enlarged(where, found.x, W, W @ found.x - self.problem.y, target)
                found = yield from self._fitted(found.x, where)
        return found

    def _fitted(self, z: Float, where: Indices | Float) -> Asks[Fit]:
        """Levenberg–Marquardt from z on a support, or in the columns of a matrix."""
        if where.ndim == 2:
            return (yield from self._compressed(z, np.asarray(where, dtype=np.float64)))
        return (yield from self.fit(z, np.asarray(where, dtype=np.intp)))

    def _rounded(self, x: Float) -> Asks[Fit]:
        W = yield Products(x)
        r = W @ x - self.problem.y
        residual = float(np.linalg.norm(r) / np.linalg.norm(self.problem.y))
        yield Step(x, residual)
        return Fit(x, residual, np.flatnonzero(x), W, r)

    def _compressed(self, z: Float, U: Float) -> Asks[Fit]:
        block = yield Compress(U)
        descent = on_block(self.problem.y, U.T @ z, np.ascontiguousarray(block, dtype=np.float64), _STRUCTURED)
        x = self.prior.nearest(U @ descent.z)
        yield Step(x, descent.residual)
        return Fit(x, descent.residual, np.arange(self.prior.freedom(x)), descent.W, descent.r)

    def fit(self, z: Float, support: Indices) -> Asks[Fit]:
        """Levenberg–Marquardt on a support, with z >= 0 if the prior says so."""
        if self.prior.signed:
            return (yield from fit(self.problem, z, support, _STRUCTURED, self.cache))
        return (yield from nonnegative_fit(self.problem, z, support, self.cache))


class RobustStructuredHandOver(RobustHandOver):
    """The hand-over to the measurements that agree, on the coordinates that the prior names."""

    def support(self, walk: Walk, most: int) -> Indices:
        assert self.problem.prior is not None
        return np.asarray(self.problem.prior.coordinates(walk.z, walk.weight, most), dtype=np.intp)


def nonnegative_fit(problem: Problem, x: Float, support: Indices, cache: GrowingBlock) -> Asks[Fit]:
    """Levenberg–Marquardt on a support with x >= 0, a `Step` at its end."""
    n, s = problem.n, support.size
    # Read the block once if it fits: steps may be rejected, and each would cost a pass.
    small = cache.affordable(support)
    block = (yield from cache.on(support)) if small else None

    def products(z: Float) -> Asks[Float]:
        """The products of z on the support."""
        if block is not None:
            return (yield from block(z))
        full = np.zeros(n)
        full[support] = z
        return np.ascontiguousarray((yield Products(full))[:, support])

    z = np.maximum(x[support], 0.0)
    descent = NonnegativeDescent(problem.y, z, (yield from products(z)))
    while not descent.finished():
        proposal = descent.proposal()
        descent.advance(proposal, (yield from products(proposal)))
    full = np.zeros(n)
    full[support] = descent.z
    yield Step(full, descent.residual)
    kept = np.ones(s, dtype=bool)
    if exact_enough(problem, descent.residual):
        kept = descent.z > 0
    return Fit(full, descent.residual, support[kept], descent.W[:, kept], descent.r)
