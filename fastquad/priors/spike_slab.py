"""The denoiser of a sparse signal: each coordinate is zero, or normal with an unknown variance.

With prior `ρ N(0, s2) + (1−ρ) δ_0` and `b = a x + sqrt(a) N(0, 1)`:

    c = 1/(a + 1/s2),  μ = b c,  π = sigmoid(log ρ/(1−ρ) + ½ log(c/s2) + ½ b μ),  E x = π μ,  E x² = π (μ² + c)

and EM for ρ = mean π and s2 = Σ π (μ² + c)/Σ π, the latter within a factor of two of |x|²/(nρ).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fastquad._kernels import amp as kernel
from fastquad.priors.base import INNER_TOLERANCE, Denoiser, Estimate, Posterior
from fastquad.typing import Float


class SpikeSlab(Denoiser):
    """The posterior under `ρ N(0, s2) + (1−ρ) δ_0`; ρ is learnt, or kept where `learns` is False."""

    unequal: ClassVar[bool] = True

    def __init__(self, n: int, rho: float, phi2: float, learns: bool = True) -> None:
        self.learns = learns
        #: The probability that a coordinate is not zero, and its variance then.
        self.rho, self.s2 = float(rho), float(phi2 / (n * rho))

    def denoise(self, b: Float, a: float | Float) -> Posterior:
        rho, s2 = self.rho, self.s2
        c = 1 / (a + 1 / s2)
        mu = b * c
        weight = 1 / (1 + np.exp(-(np.log(rho / (1 - rho)) + 0.5 * np.log(c / s2) + 0.5 * b * mu)))
        return Posterior(weight * mu, weight * (mu**2 + c) - (weight * mu) ** 2, weight)

    def learn(self, posterior: Posterior, phi2: float) -> None:
        n, total = posterior.weight.size, float(posterior.weight.sum())
        if self.learns:
            self.rho = float(np.clip(total / n, 2 / n, 1 - 1e-4))
        expected = phi2 / (n * self.rho)
        second = float(np.sum(posterior.variance + posterior.mean**2)) / max(total, 1e-300)
        self.s2 = float(np.clip(second, 0.5 * expected, 2 * expected))

    def estimate(self, S: Float, D: float, at: Estimate, phi2: float, keep: float, inner: int) -> None:
        """The loop of the base class, compiled."""
        estimate = kernel.Estimate(at.z, at.z_old, at.v, at.weight, np.empty((3, at.z.size)))
        prior = kernel.SpikeSlab(self.rho, self.s2, self.learns)
        kernel.denoise(S, D, estimate, prior, phi2, keep, inner, INNER_TOLERANCE)
        self.rho, self.s2 = prior.rho, prior.s2
