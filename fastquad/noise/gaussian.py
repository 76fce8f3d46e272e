"""Gaussian noise of one standard deviation, which is learnt or given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastquad.noise.base import Noise, Score
from fastquad.typing import Float


@dataclass
class Gaussian(Noise):
    """`N(0, σ²)`: the residual's mean square holds it by itself; a σ that is given is its least value."""

    sigma: float | None = None
    linear: ClassVar[bool] = True

    def fresh(self) -> Gaussian:
        return self

    def score(self, r: Float) -> Score:
        square = max(float(r @ r) / r.size, 1e-300)  # zero where y is constant and A has a common mean
        power = max(square, (self.sigma or 0.0) ** 2)
        return Score(r / square, 1 / square, power, square, np.ones(r.size))

    def mean_square(self, y: Float) -> float:
        return self.floor(float(np.mean(y**2)) - (self.sigma or 0.0) ** 2, y)

    def explained(self, r: Float, y: Float) -> float:
        return 1 - float(r @ r) / float(y @ y)
