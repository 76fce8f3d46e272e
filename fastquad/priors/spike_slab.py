"""The denoiser of a sparse signal: each coordinate is zero, or normal with an unknown variance.

With prior `ρ N(0, s2) + (1−ρ) δ_0` and `b = a x + sqrt(a) N(0, 1)`:

    c = 1/(a + 1/s2),  μ = b c,  π = sigmoid(log ρ/(1−ρ) + ½ log(c/s2) + ½ b μ),  E x = π μ,  E x² = π (μ² + c)

and EM for ρ = mean π and s2 = Σ π (μ² + c)/Σ π, the latter within a factor of two of |x|²/(nρ).

Coordinates that are zero together, Re and Im of a complex number or groups that the user knows, have one weight a group
of g coordinates, `π = sigmoid(log ρ/(1−ρ) + ½ g log(c/s2) + ½ Σ_j b_j μ_j)`, and ρ is the share of such groups.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fastquad._kernels import amp as kernel
from fastquad.numerics.grouping import Groups
from fastquad.priors.base import INNER_TOLERANCE, Denoiser, Estimate, Posterior
from fastquad.typing import Float


class SpikeSlab(Denoiser):
    """The posterior under `ρ N(0, s2) + (1−ρ) δ_0`; ρ is learnt, or kept if `learns` is False."""

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
        self._update(total / n, n, n, _second(posterior, total), phi2)

    def _update(self, share: float, count: int, n: int, second: float, phi2: float) -> None:
        """ρ is this share of what is zero together, which are `count`; s2 the mean of the squares of nonzeros, of n."""
        if self.learns:
            self.rho = float(np.clip(share, 2 / count, 1 - 1e-4))
        expected = phi2 / (n * self.rho)
        self.s2 = float(np.clip(second, 0.5 * expected, 2 * expected))

    def estimate(self, S: Float, D: float, at: Estimate, phi2: float, keep: float, inner: int) -> None:
        """The loop of the base class, compiled."""
        estimate = kernel.Estimate(at.z, at.z_old, at.v, at.weight, np.empty((3, at.z.size)))
        prior = kernel.SpikeSlab(self.rho, self.s2, self.learns)
        kernel.denoise(S, D, estimate, prior, phi2, keep, inner, INNER_TOLERANCE)
        self.rho, self.s2 = prior.rho, prior.s2


class GroupSpikeSlab(SpikeSlab):
    """The posterior if each group is zero with probability 1 − ρ, and normal with variance s2 else."""

    def __init__(self, groups: Groups, rho: float, phi2: float, learns: bool = True) -> None:
        super().__init__(groups.n, rho, phi2, learns)
        self.groups = groups

    def denoise(self, b: Float, a: float | Float) -> Posterior:
        rho, s2 = self.rho, self.s2
        c = 1 / (a + 1 / s2)
        mu = b * c
        odds = np.log(rho / (1 - rho)) + 0.5 * self.groups.sums(np.log(c / s2) + b * mu)
        weight = self.groups.spread(1 / (1 + np.exp(-odds)))
        return Posterior(weight * mu, weight * (mu**2 + c) - (weight * mu) ** 2, weight)

    def learn(self, posterior: Posterior, phi2: float) -> None:
        count = self.groups.count
        share = float(np.sum(posterior.weight / self.groups.spread(self.groups.sizes))) / count
        second = _second(posterior, float(posterior.weight.sum()))
        self._update(share, count, self.groups.n, second, phi2)

    def estimate(self, S: Float, D: float, at: Estimate, phi2: float, keep: float, inner: int) -> None:
        Denoiser.estimate(self, S, D, at, phi2, keep, inner)


def _second(posterior: Posterior, total: float) -> float:
    """The mean of the squares of nonzeros."""
    return float(np.sum(posterior.variance + posterior.mean**2)) / max(total, 1e-300)


def spike_slab(n: int, groups: Groups | None, rho: float, phi2: float, learns: bool = True) -> SpikeSlab:
    """The denoiser of a sparse signal, of n coordinates each by itself, or in groups."""
    return SpikeSlab(n, rho, phi2, learns) if groups is None else GroupSpikeSlab(groups, rho, phi2, learns)
