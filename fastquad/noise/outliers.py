"""Measurements of which some may be anything: a mixture of sound residuals and of outliers.

A residual is `N(0, τ)` where its measurement is sound, and the measurement itself is `N(0, B²)` where it is not. The
share ε of outliers, τ and B² are learnt from the residuals by EM:

    w_i = P(sound | r_i),   τ = Σ w r²/Σ w,   ε = mean(1 − w),   B² = Σ (1−w) y²/Σ (1−w)
    g = w r/τ,              α = mean(w/τ − w(1−w) r²/τ²)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fastquad.noise.base import Noise, Score
from fastquad.typing import Float

# The number of EM steps after each pass.
_STEPS = 6
# The least share of outliers that is learnt.
_FEWEST = 0.01
# The largest share of outliers that is learnt.
_MOST = 0.4
# The least mean derivative of the score, as a share of that without outliers.
_LEAST_SLOPE = 0.3


@dataclass
class Outliers(Noise):
    """Sound measurements with noise of an unknown σ, and a share of up to 40 % that may be anything."""

    y: Float
    share: float = 0.1
    #: (τ, B²) as learnt so far; None before the first residual.
    learnt: list[float] = field(default_factory=list)

    @property
    def typical(self) -> float:
        """A mean square of y that outliers do not move."""
        return max((1.4826 * float(np.median(np.abs(self.y)))) ** 2, 1e-300)

    def fresh(self) -> Outliers:
        return Outliers(self.y)

    def score(self, r: Float) -> Score:
        square, data = r**2, self.y**2
        tau, broad = self.learnt or [self.typical, 25 * self.typical]
        for _ in range(_STEPS):
            weight = self._sound(square, tau, broad)
            sound = float(weight.sum())
            tau = max(float(weight @ square) / max(sound, 1e-300), 1e-300)
            self.share = float(np.clip(1 - sound / r.size, _FEWEST, _MOST))
            broad = max(float((1 - weight) @ data) / max(r.size - sound, 1e-300), self.typical)
        self.learnt = [tau, broad]
        g = weight * r / tau
        slope = float(np.mean(weight / tau - weight * (1 - weight) * square / tau**2))
        alpha = max(slope, _LEAST_SLOPE * sound / (r.size * tau))
        return Score(g, alpha, float(np.mean(g**2)) / alpha**2, tau, weight)

    def _sound(self, square: Float, tau: float, broad: float) -> Float:
        """P(sound) of each measurement."""
        odds = np.log(self.share / (1 - self.share)) + 0.5 * np.log(tau / broad)
        odds = odds + 0.5 * square / tau - 0.5 * self.y**2 / broad
        return 1 / (1 + np.exp(np.clip(odds, -700, 700)))

    def mean_square(self, y: Float) -> float:
        return self.typical
