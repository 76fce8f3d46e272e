"""The belief of an AMP run that has settled: its estimate of x, how far off it is, and whether to trust it.

AMP predicts each measurement without using it, so its residual r is as if every measurement had been held out:

    R²  = 1 − |r|²/|y|²                       of several runs, the one with the largest R² is taken
    σ̂²  = |r|²/m − (2qV + V²)/gain             q = |z|², V = Σv: what is left beside the posterior's own spread
    est = sqrt(V/(q + V)) (1 + 1/sqrt m)      the relative error of z; more for m <= n and an unknown level of noise:
                                              see `fastquad.numerics.small`
    ev  = (m − 10) ln(1 − R²) + 2 ln (n choose s),   s = #{π > 0.5}

A run has *found* x if it has settled, ev < −20, and some of the residual is noise. If est < 0.25 sqrt(1 − s/m) as well,
the answer is a success, with its error; if not, the data are too noisy for one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Belief as Believed
from fastquad.engine.trust.evidence import log_choices
from fastquad.engine.verdict import TRUSTED
from fastquad.noise import Noise
from fastquad.numerics.small import with_small_ones
from fastquad.solvers.amp.amp import Walk, cosine
from fastquad.typing import Float

# The least probability of being nonzero at which a coordinate is reported.
_REPORTED = 0.3
# The evidence that a run needs: twice the log of the odds against chance.
_EVIDENCE = 20.0
# The least share of |r|² that must be noise.
_NOISE_SHARE = 0.1
# The cosine of two estimates above which their runs agree.
_AGREE = 0.95


@dataclass(frozen=True)
class Belief:
    """The estimate x, its error, and the figures of the module's docstring."""

    z: Float
    v: Float
    weight: Float
    residual: float
    r2: float
    error: float
    sigma: float
    evidence: float
    found: bool
    #: P(sound) of each measurement.
    sound: Float
    #: The residual r.
    r: Float
    #: Whether the weights do not say which coordinates are nonzero.
    dense: bool = False
    #: The degrees of freedom that the estimate has taken.
    freedom: float = 0.0
    #: x and its standard errors, if these were polished.
    answer: Float | None = None
    deviations: Float | None = None
    #: The model of the noise as it was learnt then.
    model: Noise | None = None

    @property
    def x(self) -> Float:
        """The posterior mean where it is likely to be nonzero."""
        if self.answer is not None:
            return self.answer
        return self.z if self.dense else np.where(self.weight > _REPORTED, self.z, 0.0)

    @property
    def stderr(self) -> Float:
        """The standard deviations of the coordinates."""
        return np.sqrt(np.maximum(self.v, 0.0)) if self.deviations is None else self.deviations

    @property
    def size(self) -> int:
        """The number of coordinates that are more likely nonzero than zero."""
        return int(np.count_nonzero(self.weight > 0.5))

    @property
    def trusted(self) -> bool:
        """Whether the answer is a success; with nearly as many coordinates as data, its error must be smaller."""
        spare = max(1 - self.freedom / self.sound.size, 1e-3)
        return self.found and self.error < TRUSTED * math.sqrt(spare)

    def of_unsure_length(self, share: float) -> Belief:
        """The belief with the length of x uncertain by this share."""
        return replace(
            self, error=math.hypot(self.error, share), answer=self.x, deviations=np.hypot(self.stderr, share * self.x)
        )

    def report(self) -> Believed:
        """The belief for the engine, which returns it if a budget ends the solve."""
        return Believed(self.x, self.residual, self.error, self.sigma, self.stderr)

    def agrees(self, other: Belief) -> bool:
        """Whether two runs ended at one estimate."""
        return cosine(self.z, other.z) > _AGREE


def belief(problem: Problem, entries: Entries, walk: Walk) -> Belief | None:
    """The belief of a run, or None if it had no pass yet."""
    if walk.swept is None or not np.isfinite(walk.r).all():
        return None
    z, v, weight = walk.swept.z, walk.swept.v, walk.swept.weight
    m, n, gain = problem.m, problem.n, walk.ensemble.gain
    sound = walk.score.weight
    count = float(sound.sum())
    q, V = float(z @ z), float(v.sum())
    mean_square = float(sound @ walk.r**2) / max(count, 1e-300)
    variance = mean_square - (2 * q * V + V * V) / gain
    size = int(np.count_nonzero(weight > 0.5))
    # What b = a x + √a N(0, I) moves of the estimate: Σ ∂x/∂(b/a) = a Σ v.
    freedom = min(float(size), q / walk.D * V) if walk.denoiser.dense else float(size)
    r2 = min(walk.r2, 1 - 1e-15)
    evidence = (count - 10) * math.log(1 - r2) + 2 * log_choices(n, size)
    if walk.noise.sorts:
        # Count the choice of sound measurements, too.
        evidence += 2 * log_choices(m, min(round(count), m))
    noisy = walk.noise.told or variance > _NOISE_SHARE * mean_square
    found = walk.settled and walk.denoiser.learns and entries.independent and noisy and evidence < -_EVIDENCE
    error = math.sqrt(V / max(q + V, 1e-300)) * (1 + 1 / math.sqrt(m))
    if not problem.noise.given and m <= problem.unknowns and not walk.denoiser.dense:
        error = with_small_ones(error, np.where(weight > 0.5, z, 0.0), np.sqrt(np.maximum(v, 0.0)), m)
    return Belief(
        z.copy(), v.copy(), weight.copy(), walk.residual, r2, error, math.sqrt(max(variance, 0.0)), evidence,
        found and _within_noise(problem, walk), sound, walk.r, walk.denoiser.dense, freedom,
    )  # fmt: skip


def _within_noise(problem: Problem, walk: Walk) -> bool:
    """Whether the residual of the estimate, without the memory term, is within the given noise level, if any."""
    if not problem.noise.given:
        return True
    if problem.noise.exact:
        return False
    m = problem.m
    scaled = (walk.r - walk.memory) / np.maximum(problem.noise.deviations(problem.y), 1e-300)
    return float(walk.score.weight @ scaled**2) <= m + 3 * math.sqrt(2 * m)
