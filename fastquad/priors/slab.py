"""The denoiser of a sparse signal of which more is known: its sign, coordinates that go together, or are nonzero.

Each coordinate is zero, or drawn from a slab N(0, s2), or N+(μ0, s2), which is N(μ0, s2) if that is positive. With
`b = a x + sqrt(a) N(0, 1)`, `c = 1/(a + 1/s2)`, `μ = c (b + μ0/s2)`, `α = μ/√c` and `h = φ(α)/Φ(α)` the slab alone has

    N:    E x = μ,           E x² = μ² + c,              log evidence ½ log(c/s2) + ½ μ²/c
    N+:   E x = √c (α + h),  E x² = c + μ E x,           that, − ½ μ0²/s2 + log Φ(α) − log Φ(μ0/√s2)

The evidence of a group is the sum of its coordinates', and its log-odds are logit ρ more. EM learns ρ and the slab.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit, log_ndtr, logit

from fastquad.numerics.grouping import Groups
from fastquad.priors.base import Denoiser, Posterior
from fastquad.typing import Float, Indices

# P(x_j ≠ 0) of a coordinate that is known to be nonzero.
_KNOWN = 0.999
# Below this α the ratio φ/Φ is taken from its expansion.
_FAR = -12.0
# μ0/√s2 is between these; the ratio E x²/(E x)² of the slab tells it.
_SHAPES = np.linspace(-4.0, 3.0, 141)


def _ratio(alpha: Float) -> Float:
    """φ(α)/Φ(α)."""
    near = np.maximum(alpha, _FAR)
    h = np.exp(-0.5 * near**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(near))
    return np.where(alpha < _FAR, -alpha + (1 - 2 / np.minimum(alpha, _FAR) ** 2) / np.abs(np.minimum(alpha, _FAR)), h)


# E x/√s2 and E x²/s2 of N+(μ0, s2) at each shape.
_FIRST = _SHAPES + _ratio(_SHAPES)
_SECOND = 1 + _SHAPES * _FIRST


class Slab:
    """N(0, s2)."""

    def __init__(self, s2: float) -> None:
        self.s2 = s2

    def posterior(self, b: Float, a: float | Float) -> tuple[Float, Float, Float]:
        """Mean, second moment and log evidence of each coordinate that is not zero."""
        c = 1 / (a + 1 / self.s2)
        mu = b * c
        return mu, mu**2 + c, 0.5 * np.log(c / self.s2) + 0.5 * mu**2 / c

    def learn(self, first: float, second: float) -> None:
        """Take over the mean and the second moment of a nonzero coordinate."""
        self.s2 = second


class PositiveSlab(Slab):
    """N+(μ0, s2)."""

    def __init__(self, s2: float) -> None:
        super().__init__(s2)
        self.mu0 = 0.0

    def posterior(self, b: Float, a: float | Float) -> tuple[Float, Float, Float]:
        c = 1 / (a + 1 / self.s2)
        mu = c * (b + self.mu0 / self.s2)
        alpha = mu / np.sqrt(c)
        mean = np.sqrt(c) * (alpha + _ratio(alpha))
        evidence = 0.5 * np.log(c / self.s2) + 0.5 * mu**2 / c - 0.5 * self.mu0**2 / self.s2
        evidence += log_ndtr(alpha) - log_ndtr(self.mu0 / np.sqrt(self.s2))
        return mean, np.where(alpha < _FAR, 2 * mean**2, c + mu * mean), evidence

    def learn(self, first: float, second: float) -> None:
        spread = second / max(first**2, 1e-300)
        # The ratio falls with the shape; interpolation wants it to rise.
        shape = float(np.interp(spread, (_SECOND / _FIRST**2)[::-1], _SHAPES[::-1]))
        self.s2 = second / float(np.interp(shape, _SHAPES, _SECOND))
        self.mu0 = shape * np.sqrt(self.s2)


class StructuredSlab(Denoiser):
    """Zero, or drawn from a slab; groups are zero together, and known coordinates are not."""

    unequal: ClassVar[bool] = True

    def __init__(
        self, n: int, rho: float, phi2: float, *, nonnegative: bool = False, groups: Groups | None = None,
        known: Indices | None = None, learns: bool = True,
    ) -> None:  # fmt: skip
        self.learns, self.rho, self.groups = learns, rho, groups
        self.known = np.zeros(n, dtype=bool)
        if known is not None:
            self.known[known] = True
        self.slab = (PositiveSlab if nonnegative else Slab)(phi2 / (n * rho))
        self._moments: tuple[Float, Float] = (np.zeros(n), np.zeros(n))

    def denoise(self, b: Float, a: float | Float) -> Posterior:
        first, second, evidence = self.slab.posterior(b, a)
        self._moments = first, second
        if self.groups is not None:
            evidence = self.groups.spread(self.groups.sums(evidence))
        odds = np.where(self.known, logit(_KNOWN), logit(self.rho)) + evidence
        weight = expit(odds)
        return Posterior(weight * first, weight * second - (weight * first) ** 2, weight)

    def learn(self, posterior: Posterior, phi2: float) -> None:
        weight = posterior.weight
        total = max(float(weight.sum()), 1e-300)
        if self.learns:
            self.rho = self._share(weight)
        # How many nonzeros the prior expects.
        count = max(self.rho * np.count_nonzero(~self.known) + np.count_nonzero(self.known), 1.0)
        expected = phi2 / count
        first, second = (float(weight @ moment) / total for moment in self._moments)
        scale = np.clip(second, 0.5 * expected, 2 * expected) / max(second, 1e-300)
        self.slab.learn(first * np.sqrt(scale), second * scale)

    def _share(self, weight: Float) -> float:
        """The share of nonzeros among those of which it is not known, by groups if there are any."""
        open_ = ~self.known
        size = np.ones(weight.size) if self.groups is None else self.groups.spread(1 / self.groups.sizes)
        parts = max(float(size[open_].sum()), 1.0)
        return float(np.clip(float(size[open_] @ weight[open_]) / parts, min(2 / parts, 0.5), 1 - 1e-4))
