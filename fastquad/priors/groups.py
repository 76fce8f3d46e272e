"""The denoiser of coordinates that are zero together: Re and Im of a complex number, or groups that the user knows.

As in `fastquad.priors.spike_slab`, with one weight a group of g coordinates:

    π = sigmoid(log ρ/(1−ρ) + ½ g log(c/s2) + ½ Σ_j b_j μ_j)

and ρ the share of groups that are not zero.
"""

from __future__ import annotations

import numpy as np

from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Denoiser, Estimate, Posterior
from fastquad.priors.spike_slab import SpikeSlab
from fastquad.typing import Float


class GroupSpikeSlab(SpikeSlab):
    """The posterior where each group is zero with probability 1 − ρ, and normal with variance s2 else."""

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
        n, count, total = self.groups.n, self.groups.count, float(posterior.weight.sum())
        if self.learns:
            share = float(np.sum(posterior.weight / self.groups.spread(self.groups.sizes))) / count
            self.rho = float(np.clip(share, 2 / count, 1 - 1e-4))
        expected = phi2 / (n * self.rho)
        second = float(np.sum(posterior.variance + posterior.mean**2)) / max(total, 1e-300)
        self.s2 = float(np.clip(second, 0.5 * expected, 2 * expected))

    def estimate(self, S: Float, D: float, at: Estimate, phi2: float, keep: float, inner: int) -> None:
        Denoiser.estimate(self, S, D, at, phi2, keep, inner)


def spike_slab(n: int, groups: Groups | None, rho: float, phi2: float, learns: bool = True) -> SpikeSlab:
    """The denoiser of a sparse signal, of n coordinates each by itself, or in groups."""
    return SpikeSlab(n, rho, phi2, learns) if groups is None else GroupSpikeSlab(groups, rho, phi2, learns)
