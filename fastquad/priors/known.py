"""Some coordinates have known values: what a denoiser says of the others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fastquad.priors.base import Denoiser, Posterior
from fastquad.typing import Float, Indices


class Clamped(Denoiser):
    """A denoiser of the other coordinates, beside values that are known and have no variance."""

    #: The known values alone keep z from zero.
    floor: ClassVar[float] = 0.0

    def __init__(self, others: Denoiser, n: int, known: Indices, values: Float) -> None:
        self.others, self.known, self.values = others, known, values
        self.free = np.setdiff1d(np.arange(n), known)
        self.learns = others.learns

    def denoise(self, b: Float, a: float) -> Posterior:
        mean, variance, weight = np.zeros_like(b), np.zeros_like(b), np.ones_like(b)
        mean[self.known] = self.values
        posterior = self.others.denoise(np.ascontiguousarray(b[self.free]), a)
        for whole, part in zip((mean, variance, weight), posterior, strict=True):
            whole[self.free] = part
        return Posterior(mean, variance, weight)

    def learn(self, posterior: Posterior, phi2: float) -> None:
        rest = max(phi2 - float(self.values @ self.values), 1e-3 * phi2)
        self.others.learn(Posterior(*(part[self.free] for part in posterior)), rest)
