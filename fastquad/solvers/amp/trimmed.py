"""The hand-over if there may be outliers: find the sound measurements, and fit them by Levenberg–Marquardt.

Measurements I with P(sound) > 1/2 are fitted, on at most .7 |I| coordinates; then I becomes those whose residual is
within three standard deviations, estimated from the median, and so on. The fit is exact if

    m' = #{|r_i| < 1e-9 φ²},   m' > m/2,   30 (m' − s) >= log2 (m choose m') + log2 (n choose s) + s + 20:

no choice of measurements and coordinates fits m' measurements by chance.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.problem import Problem
from fastquad.engine.steps import End, Outcome
from fastquad.measurements.contractions import Products
from fastquad.numerics.levenberg_marquardt import Rule
from fastquad.solvers.amp.ensemble import Ensemble
from fastquad.solvers.amp.hand_over import SparseHandOver
from fastquad.solvers.amp.run import Walk
from fastquad.solvers.parts.descent import Fit, GrowingBlock, fit
from fastquad.typing import Asks, Float, Indices

_RULE = Rule(max_steps=10)
_ROUNDS = 12
# The weight of a measurement that is left out: as good as zero.
_NOTHING = 1e-9
# The share of φ² below which a residual is rounding.
_ROUNDING = 1e-9
# The bits of evidence in a residual that vanishes.
_BITS = 30
# The bits of evidence that must be left.
_SPARE = 20
# The largest number of coordinates, as a share of the sound measurements.
_SHARE = 0.7
# The residual below which a fit may lack only small coordinates.
_NEARLY = 0.1
# How often such a fit is enlarged.
_LARGER = 2

Flags = NDArray[np.bool_]


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
        found = yield from fit(problem, x, support, _RULE, cache, np.where(sound, 1.0, _NOTHING))
        # Take the median of all but the s measurements that the fit explains by itself.
        rank = min(problem.m - 1, -(-(problem.m + support.size + 1) // 2) - 1)
        deviation = float(np.partition(np.abs(found.r), rank)[rank]) / 0.6745
        within = np.abs(found.r) <= max(3 * deviation, _ROUNDING * scale)
        x = found.x
        if (within == sound).all():
            break
        sound = within
    return found, sound


def agreeing(problem: Problem, found: Fit, scale: float) -> Indices:
    """The measurements that a fit explains to rounding."""
    return np.flatnonzero(np.abs(found.r) < _ROUNDING * scale)


def certified(problem: Problem, found: Fit, scale: float) -> bool:
    """Whether a fit explains more measurements than any choice of rows and coordinates could by chance."""
    m, n, s = problem.m, problem.n, int(np.count_nonzero(found.x))
    count = agreeing(problem, found, scale).size
    needed = _log2_choices(m, count) + _log2_choices(n, s) + s + _SPARE
    return 2 * count > m and count > s + 2 and _BITS * (count - s) >= needed


def describe(m: int, count: int, s: int) -> str:
    """A sentence on what is proven."""
    return (
        f"Exact for {count} of {m} measurements: x has {s} free coordinates and fits {count} measurements to 1e-9, of "
        f"which chance could fit {s}. The other {m - count} contradict it (`solution.outliers`). Certified up to sign, "
        "if more than half of the measurements are sound."
    )


def _log2_choices(n: int, s: int) -> float:
    """log2 of (n choose s)."""
    return (math.lgamma(n + 1) - math.lgamma(s + 1) - math.lgamma(n - s + 1)) / math.log(2)
