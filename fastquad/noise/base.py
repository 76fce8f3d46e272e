"""What AMP has to know of the noise: see `fastquad.noise`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from fastquad.typing import Float


class Score(NamedTuple):
    """What a residual says under a model of the noise: see `fastquad.noise`."""

    g: Float
    alpha: float
    power: float
    tau: float
    weight: Float


class Noise(ABC):
    """A model of the noise; it may keep what it has learnt of one run, so each run has its own (`fresh`)."""

    #: Whether g is r times one number: then r and S come of one pass.
    linear: ClassVar[bool] = False

    @abstractmethod
    def fresh(self) -> Noise:
        """One that has learnt nothing yet."""

    @abstractmethod
    def score(self, r: Float) -> Score:
        """What the residual r of a prediction says, (m,)."""

    @abstractmethod
    def mean_square(self, y: Float) -> float:
        """The mean square that y would have without noise: never below a hundredth of what it has."""

    def weights(self, r: Float) -> Float | None:
        """What least squares multiplies each equation with, given residuals r; None where all count the same."""
        return None

    def explained(self, r: Float, y: Float) -> float:
        """R² = 1 − |r|²/|y|², in the units that this noise weighs measurements with."""
        weight = self.score(r).weight
        return 1 - float(weight @ r**2) / max(float(weight @ y**2), 1e-300)

    @staticmethod
    def floor(mean_square: float, y: Float) -> float:
        """At least a hundredth of the mean square of y."""
        return max(mean_square, 0.01 * float(np.mean(y**2)))
