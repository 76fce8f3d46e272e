"""Gaussian noise: of one standard deviation, learnt or given, or of one for each measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastquad.noise.base import LEAST, Noise, chance, parameter, real
from fastquad.noise.messages import Linear, Messages, Unequal
from fastquad.typing import Float, Indices

# Data of equal rows that differ by no more, relative to the largest, are exact or were copied.
_COPIED = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Noise):
    """`y_i = z_i + N(0, σ_i²)`.

    Parameters
    ----------
    sigma : float or array of shape (m,), optional
        The standard deviation, in the units of y: one for all measurements, or one for each. 0 means that there is
        no noise. Default: one number, which is estimated.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=100, n=30, k=5, noise=0.1, rng=0)
    >>> fq.solve(problem.A, problem.y, noise=fq.noise.Gaussian(0.1)).success
    True
    """

    sigma: float | Float | None = None

    def __post_init__(self) -> None:
        parameter(self, "sigma", optional=True)

    def _sigma(self, y: Float) -> Float | float:
        """σ_i, above zero; 1 if it is not known."""
        if self.sigma is None or not np.any(self.sigma):
            return 1.0
        return np.maximum(self.sigma, LEAST * float(np.max(self.sigma)))

    def log_likelihood(self, y: Float, z: Float) -> Float:
        sigma = self._sigma(y)
        return -0.5 * ((real(y) - z) / sigma) ** 2 - np.log(sigma) - 0.5 * math.log(2 * math.pi)

    def score(self, y: Float, z: Float) -> Float:
        return (real(y) - z) * self.weight(y, z)

    def weight(self, y: Float, z: Float) -> Float:
        return np.broadcast_to(1 / np.square(self._sigma(y)), np.shape(y))

    def learn(self, y: Float, z: Float, freedom: float) -> Gaussian:
        if self.sigma is not None:
            return self
        left = float(np.linalg.norm(real(y) - z))
        return Gaussian(left / math.sqrt(max(1.0, np.size(y) - freedom)))

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        if not self.given:
            return 1.0
        degrees = np.size(y) - freedom
        return chance(float(np.sum(((real(y) - z) / self._sigma(y)) ** 2)), degrees, 2 * degrees)

    @property
    def given(self) -> bool:
        return self.sigma is not None

    @property
    def exact(self) -> bool:
        return self.sigma is not None and not np.any(self.sigma)

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def unequal(self) -> bool:
        return isinstance(self.sigma, np.ndarray)

    @property
    def reweighs(self) -> bool:
        return False

    def with_level(self, sigma: float | None, share: float | None = None) -> Gaussian:
        return self if self.given or sigma is None else Gaussian(sigma)

    def with_outliers(self) -> Noise:
        from fastquad.noise.outliers import Outliers

        return Outliers(sigma=self.sigma)

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        return np.broadcast_to(real(0.0 if self.sigma is None else self.sigma), np.shape(y))

    def level(self, y: Float, z: Float | None = None) -> float:
        return 0.0 if self.sigma is None else float(np.sqrt(np.mean(np.square(self.sigma))))

    def messages(self, y: Float, centred: Float) -> Messages:
        if isinstance(self.sigma, np.ndarray):
            return Unequal.of(self.sigma, centred)
        return Linear(None if self.sigma is None else float(self.sigma))

    @property
    def each_level(self) -> Float | None:
        return None if not isinstance(self.sigma, np.ndarray) else np.asarray(self._sigma(self.sigma))

    def pooled(self, Y: Float, of: Indices, by: Float) -> tuple[Float, Float, Noise] | None:
        weights = np.broadcast_to(np.square(by / self._sigma(by)), by.shape)
        sums = np.bincount(of, weights)
        share = weights / sums[of] / by
        means = np.array([np.bincount(of, share * y) for y in Y])
        if self.given:
            sigma = 1 / np.sqrt(sums)
            equal = float(np.ptp(sigma)) <= 1e-9 * float(sigma.max())
            return means, share, Gaussian(float(sigma[0]) if equal else sigma)
        left = Y - by * means[:, of]
        if float(np.abs(left).max()) <= _COPIED * float(np.abs(Y).max()):
            return means, share, self
        if len(Y) > 1:  # each has a level of its own
            return None
        from fastquad.noise.repeated import Repeated

        return means, share, Repeated(real(sums), float(np.sum(left**2)), of.size - sums.size)

    def shifted(self, y: Float | float, z: Float | float) -> Noise:
        return self if np.array_equal(y, z) else super().shifted(y, z)

    def scaled(self, by: Float) -> Gaussian:
        return self if self.sigma is None or self.exact else Gaussian(by * self.sigma)
