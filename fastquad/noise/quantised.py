"""Measurements that were rounded to multiples of a step, as a converter of few bits leaves them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastquad.noise.base import Noise, chance, parameter, real
from fastquad.noise.messages import Linear, Messages, Unequal
from fastquad.typing import Float

# The variance of the square of a number that is uniform on (−½, ½), times 144: 4/5, where a Gaussian one has 2.
_SPREAD = 0.8


@dataclass(frozen=True, eq=False, repr=False)
class Quantised(Noise):
    """y_i is z_i rounded to the nearest multiple of `step`.

    If y spans several steps, rounding acts like independent noise with the standard deviation step/√12, and x is
    found by least squares. `Solution.noise` is that number.

    Parameters
    ----------
    step : float or array of shape (m,)
        In the units of y: the range of a converter of b bits, divided by 2^b.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=100, n=30, k=5, rng=0)
    >>> step = np.ptp(problem.y) / 2**8
    >>> y = step * np.round(problem.y / step)
    >>> solution = fq.solve(problem.A, y, noise=fq.noise.Quantised(step))
    >>> solution.success, bool(solution.error < 0.01)
    (True, True)
    """

    step: float | Float

    def __post_init__(self) -> None:
        parameter(self, "step", above=True)

    @property
    def _sigma(self) -> Float | float:
        return self.step / math.sqrt(12)

    def log_likelihood(self, y: Float, z: Float) -> Float:
        """That of Gaussian noise of the same variance: the true one is flat, and −inf beyond half a step."""
        return -0.5 * ((real(y) - z) / self._sigma) ** 2 - np.log(self._sigma) - 0.5 * math.log(2 * math.pi)

    def score(self, y: Float, z: Float) -> Float:
        return (real(y) - z) / np.square(self._sigma)

    def weight(self, y: Float, z: Float) -> Float:
        return np.broadcast_to(1 / np.square(self._sigma), np.shape(y))

    def explains(self, y: Float, z: Float, freedom: float) -> float:
        degrees = np.size(y) - freedom
        return chance(float(np.sum(((real(y) - z) / self._sigma) ** 2)), degrees, _SPREAD * degrees)

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def unequal(self) -> bool:
        return np.ndim(self.step) > 0

    @property
    def reweighs(self) -> bool:
        return False

    def deviations(self, y: Float, z: Float | None = None) -> Float:
        return np.broadcast_to(real(self._sigma), np.shape(y))

    def messages(self, y: Float, centred: Float) -> Messages:
        sigma = self._sigma
        return Unequal.of(sigma, centred) if isinstance(sigma, np.ndarray) else Linear(sigma)

    def shifted(self, y: Float | float, z: Float | float) -> Noise:
        return self if np.array_equal(y, z) else super().shifted(y, z)

    def scaled(self, by: Float) -> Quantised:
        return Quantised(by * self.step)
