"""A toy model of the noise: `y_i = z_i + b·(Laplace noise)`, with a corner of the likelihood that is rounded off."""

import math
from dataclasses import dataclass

import numpy as np

from fastquad.noise.base import Noise


@dataclass(frozen=True, eq=False, repr=False)
class Laplace(Noise):
    """Noise with the density exp(−|t|)/(2b), t = (y − z)/b, but for |t| near `corner`."""

    scale: float
    corner: float = 0.1

    def _t(self, y, z):
        return (np.asarray(y, float) - z) / self.scale

    def log_likelihood(self, y, z):
        return -(np.sqrt(self._t(y, z) ** 2 + self.corner**2) - self.corner) - math.log(2 * self.scale)

    def score(self, y, z):
        t = self._t(y, z)
        return t / np.sqrt(t**2 + self.corner**2) / self.scale

    def weight(self, y, z):
        return np.full(np.shape(y), 1 / self.scale**2)

    def downweight(self, y, z):
        return 1 / np.sqrt(self._t(y, z) ** 2 + self.corner**2)
