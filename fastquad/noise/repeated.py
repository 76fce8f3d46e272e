"""Gaussian noise of one unknown level, of which measurements that were made again have shown something.

Solvers see this model in the place of `Gaussian()` if equal rows were merged: the mean of c of them has the noise
σ/√c, and their spread tells σ without knowing x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastquad.noise.base import Noise, real
from fastquad.noise.gaussian import Gaussian
from fastquad.noise.messages import Linear, Messages
from fastquad.typing import Float


@dataclass(frozen=True, eq=False, repr=False)
class Repeated(Noise):
    """`y_i = z_i + N(0, σ²/count_i)`; the spread about the means was `square`, with `degrees` degrees of freedom."""

    count: Float
    square: float
    degrees: int
    sigma: float | None = None

    def _sigma(self) -> Float:
        return (self.sigma or 1.0) / np.sqrt(self.count)

    def log_likelihood(self, y: Float, z: Float) -> Float:
        sigma = self._sigma()
        return -0.5 * ((real(y) - z) / sigma) ** 2 - np.log(sigma) - 0.5 * math.log(2 * math.pi)

    def score(self, y: Float, z: Float) -> Float:
        return (real(y) - z) * self.weight(y, z)

    def weight(self, y: Float, z: Float) -> Float:
        return 1 / np.square(self._sigma())

    def learn(self, y: Float, z: Float, freedom: float) -> Repeated:
        left = float(np.sum(self.count * (real(y) - z) ** 2)) + self.square
        degrees = max(1.0, np.size(y) - freedom + self.degrees)
        return replace(self, sigma=math.sqrt(max(left / degrees, 1e-300)))

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        """By an F test of what is left against the spread."""
        from scipy.special import fdtrc

        degrees = np.size(y) - freedom
        if degrees <= 0 or not self.degrees:
            return 1.0
        left = float(np.sum(self.count * (real(y) - z) ** 2))
        return float(fdtrc(degrees, self.degrees, left / degrees / max(self.square / self.degrees, 1e-300)))

    @property
    def repeats(self) -> tuple[float, int]:
        return (0.0, 0) if self.sigma is None else (self.square / self.sigma**2, self.degrees)

    @property
    def disturbed(self) -> bool:
        return self.square > 0

    @property
    def given(self) -> bool:
        return self.sigma is not None

    @property
    def unequal(self) -> bool:
        return False

    @property
    def reweighs(self) -> bool:
        return False

    def with_level(self, sigma: float | None, share: float | None = None) -> Repeated:
        if self.given or sigma is None:
            return self
        return replace(self, sigma=sigma / math.sqrt(float(np.mean(1 / self.count))))

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        return np.zeros(np.shape(y)) if self.sigma is None else self._sigma()

    def messages(self, y: Float, centred: Float) -> Messages:
        return Linear(None)

    @property
    def bare(self) -> Noise:
        return Gaussian(self.sigma)
