"""Gaussian noise whose standard deviation is known of each measurement.

Scaling each measurement by 1/σ_i is right for least squares, and wrong for AMP, whose rows must be of one size. Here
the estimate's own error τ adds to the noise of each,

    g_i = r_i/(τ + σ_i²),    τ = Σ w (r² − σ²)/Σ w  with  w = (τ + σ²)^−2, a few times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastquad.noise.base import Noise, Score
from fastquad.typing import Float

_STEPS = 8
# τ is at least this share of the mean square of y.
_FLOOR = 1e-6


@dataclass
class Unequal(Noise):
    """`N(0, σ_i²)` with σ_i given, (m,); `scale` is the mean square of y without noise."""

    sigma: Float
    scale: float = 1.0

    def fresh(self) -> Unequal:
        return self

    def score(self, r: Float) -> Score:
        known, square = self.sigma**2, r**2
        least = _FLOOR * self.scale
        tau = max(float(np.mean(square)), least)
        for _ in range(_STEPS):
            w = (tau + known) ** -2
            tau = max(float(w @ (square - known)) / float(w.sum()), least)
        inverse = 1 / (tau + known)
        g, alpha = r * inverse, float(inverse.mean())
        # In expectation mean(g²) is α: a small τ must not make the estimate surer than the noise allows.
        return Score(g, alpha, max(float(np.mean(g**2)), alpha) / alpha**2, tau, np.ones(r.size))

    def mean_square(self, y: Float) -> float:
        w = 1 / (float(np.median(y**2)) + self.sigma**2) ** 2
        return self.floor(float(w @ (y**2 - self.sigma**2)) / float(w.sum()), y[self.sigma <= np.median(self.sigma)])

    def weights(self, r: Float) -> Float:
        return float(self.sigma.min()) / self.sigma

    def explained(self, r: Float, y: Float) -> float:
        weight = 1 / (self.scale + self.sigma**2)
        return 1 - float(weight @ r**2) / float(weight @ y**2)
