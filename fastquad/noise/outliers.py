"""Measurements of which some may be anything: broken sensors, cosmic rays, wrong entries."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastquad.noise.base import Noise, parameter, real
from fastquad.noise.gaussian import Gaussian
from fastquad.noise.messages import Messages, Mixture
from fastquad.typing import Float

# The share of outliers that is assumed before it is learnt, the least and the largest that is.
_SHARE, _FEWEST, _MOST = 0.1, 0.01, 0.4
# How much broader than the noise outliers are at least, in standard deviations of sound ones.
_BROAD = 10.0
_STEPS = 20
# The least σ that is learnt, as a share of the largest measurement: far below rounding, and its square is a number.
_LEAST = 1e-20
# The least share of its weight that a measurement keeps in a step.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Outliers(Noise):
    """Measurements with noise, of which up to 40 % may be wrong by any amount; `outliers=True` is `Outliers()`.

    Parameters
    ----------
    share : float, optional
        The share of outliers. Default: it is estimated.
    sigma : float or array of shape (m,), optional
        The standard deviation of the noise of the other measurements. Default: it is estimated.
    of : Noise, optional
        The noise of the other measurements, if it is not Gaussian. `noise=Poisson()` with `outliers=True` means
        `Outliers(of=Poisson())`.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.simulate(m=200, n=30, k=5, noise=0.05, outliers=0.1, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, noise=fq.noise.Outliers())
    >>> solution.success, len(solution.outliers) >= 15
    (True, True)
    """

    share: float | None = None
    sigma: float | Float | None = None
    of: Noise | None = None

    def __post_init__(self) -> None:
        parameter(self, "share", optional=True)
        if self.share is not None and (np.ndim(self.share) or not 0 < self.share < 1):
            raise ValueError(f"`share` must be a number between 0 and 1, got {self.share!r}.")
        parameter(self, "sigma", optional=True)
        if self.of is not None and not isinstance(self.of, Noise):
            raise TypeError(f"`of` must be a fastquad.noise.Noise, got {type(self.of).__name__}.")
        if self.of is not None and self.sigma is not None:
            raise ValueError("`sigma` must be None if `of` says what the noise of sound measurements is.")

    @property
    def sound(self) -> Noise:
        return Gaussian(self.sigma) if self.of is None else self.of

    def _broad(self, y: Float) -> Float:
        """The log density of an outlier: Gaussian, of the width of y and ten times that of the noise at least."""
        y = real(y)
        width = max(3.0 * float(np.sqrt(np.mean(y**2))), _BROAD * self.sound.level(y), 1e-300)
        return -0.5 * (y / width) ** 2 - math.log(width) - 0.5 * math.log(2 * math.pi)

    def soundness(self, y: Float, z: Float) -> Float:
        share = _SHARE if self.share is None else self.share
        odds = math.log1p(-share) - math.log(share) + self.sound.log_likelihood(y, z) - self._broad(y)
        return 1 / (1 + np.exp(-np.clip(odds, -700, 700)))

    def downweight(self, y: Float, z: Float) -> Float:
        return np.maximum(self.soundness(y, z), _NOTHING) * self.sound.downweight(y, z)

    def log_likelihood(self, y: Float, z: Float) -> Float:
        share = _SHARE if self.share is None else self.share
        return np.logaddexp(math.log1p(-share) + self.sound.log_likelihood(y, z), math.log(share) + self._broad(y))

    def score(self, y: Float, z: Float) -> Float:
        return self.soundness(y, z) * self.sound.score(y, z)

    def weight(self, y: Float, z: Float) -> Float:
        return self.sound.weight(y, z)

    def learn(self, y: Float, z: Float, freedom: float) -> Outliers:
        y, z = real(y), real(z)
        found, least = self, max(_LEAST * float(np.abs(y).max(initial=0.0)), 1e-150)
        if not self.sound.given:
            # Start from the median of all residuals but those that the fit took.
            r = np.sort(np.abs(y - z))
            rank = min(r.size - 1, int((r.size + freedom + 1) // 2))
            found = replace(found, sigma=max(float(r[rank]) / 0.6745, least))
        for _ in range(_STEPS):
            weight = found.soundness(y, z)
            count = float(weight.sum())
            if not self.sound.given:
                left = float(weight @ (y - z) ** 2)
                found = replace(found, sigma=max(math.sqrt(left / max(1.0, count - freedom)), least))
            if self.share is None:
                found = replace(found, share=float(np.clip(1 - count / y.size, _FEWEST, _MOST)))
        return found

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        """What the noise says of the sound measurements alone."""
        kept = np.flatnonzero(self.soundness(y, z) > 0.5)
        if kept.size <= freedom:
            return 0.0
        return self.sound.rows(kept).explains(real(y)[kept], real(z)[kept], freedom)

    @property
    def given(self) -> bool:
        return self.sound.given

    @property
    def exact(self) -> bool:
        return self.sound.exact

    @property
    def symmetric(self) -> bool:
        return self.sound.symmetric

    @property
    def unequal(self) -> bool:
        return self.sound.unequal

    @property
    def robust(self) -> bool:
        return True

    def with_level(self, sigma: float | None, share: float | None = None) -> Outliers:
        found = self if self.share is not None or not share else replace(self, share=share)
        return found if self.of is not None or self.given or sigma is None else replace(found, sigma=sigma)

    def with_outliers(self) -> Outliers:
        return self

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        return self.sound.deviations(y, z)

    def messages(self, y: Float, centred: Float) -> Messages:
        return Mixture(centred, _SHARE if self.share is None else self.share)

    @property
    def bare(self) -> Outliers:
        return self if self.of is None else replace(self, of=self.of.bare)

    def check(self, y: Float) -> None:
        self.sound.check(y)

    @property
    def background(self) -> Float | float:
        return self.sound.background

    @property
    def positive(self) -> bool:
        return self.sound.positive

    def shifted(self, y: Float | float, z: Float | float) -> Noise:
        sound = self.sound.shifted(y, z)
        return self if self.of is None and np.array_equal(y, z) else replace(self, sigma=None, of=sound)

    def scaled(self, by: Float) -> Noise:
        return self if not self.sound.given else replace(self, sigma=None, of=self.sound.scaled(by))
