"""Every coordinate of the signal is one of a few values.

Given `b = a x + sqrt(a) N(0, 1)`, the value u has a probability proportional to `p_u exp(b u − a u²/2)`. The shares p
are learnt; if the set of values is symmetric, x is known only up to sign, and u has the share of −u.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fastquad import arguments
from fastquad.priors.base import Denoiser, Posterior, Prior, Seen, Start
from fastquad.typing import Float

# The least share that is learnt.
_LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class Discrete(Prior):
    """Every coordinate of the signal is one of a few values.

    An answer is a signal of these values that fits to rounding. There are only finitely many of them, so fewer
    measurements than coordinates can prove an answer.

    Parameters
    ----------
    values : list of float
        At least two, such as (−1, 1) or (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((50, 60, 60)), rng.choice([-1.0, 1.0], 60)
    >>> solution = fq.solve(A, fq.measure(A, x), prior=fq.Discrete([-1, 1]))
    >>> solution.status.name, fq.distance(solution.x, x)
    ('EXACT', 0.0)
    """

    rounds: ClassVar[bool] = True

    values: Any

    def __post_init__(self) -> None:
        values = arguments.real_array(self.values, "values")
        if values.ndim != 1 or np.unique(values).size < 2:
            raise ValueError(f"`values` must be at least two different numbers, got {self.values!r}.")
        object.__setattr__(self, "values", np.unique(values))

    @property
    def alphabet(self) -> Float:  # type: ignore[override]
        """The values."""
        return np.asarray(self.values)

    @property
    def signed(self) -> bool:  # type: ignore[override]
        """Whether −x is as likely as x."""
        return bool((self.values == -self.values[::-1]).all())

    def denoiser(self, n: int, rho: float, phi2: float, learns: bool = True) -> Denoiser:
        return Few(self.values, rho, self.signed, learns)

    def starts(self, seen: Seen) -> list[Start]:
        if self.signed:
            return []
        mean = float(self.values.mean())
        ones = np.full(seen.n, mean if mean else 1.0)
        return [
            Start(ones, self.denoiser(seen.n, rho, seen.phi2), keep=keep, inner=inner)
            for rho, keep, inner in ((0.5, 0.4, 3), (0.2, 0.4, 3), (0.5, 0.7, 10), (0.8, 0.4, 3))
        ]

    def nearest(self, x: Float) -> Float:
        """Each coordinate rounded to the nearest value."""
        between = (self.values[1:] + self.values[:-1]) / 2
        rounded: Float = self.values[np.searchsorted(between, x)]
        return rounded

    def freedom(self, x: Float) -> int:
        """Zero: such a signal has no free parameters."""
        return 0


class Few(Denoiser):
    """The posterior of a coordinate that is one of a few values, in shares that are learnt."""

    def __init__(self, values: Float, rho: float, symmetric: bool, learns: bool = True) -> None:
        self.values, self.symmetric, self.learns = values, symmetric, learns
        zero = values == 0
        self.shares = np.where(zero, 1 - rho, rho / max(1, int(np.count_nonzero(~zero))))
        self.shares /= self.shares.sum()
        self._chances = np.zeros((0, 0))

    def denoise(self, b: Float, a: float) -> Posterior:
        odds = np.log(self.shares) + np.multiply.outer(b, self.values) - 0.5 * a * self.values**2
        odds -= odds.max(axis=1, keepdims=True)
        chances = np.exp(odds)
        chances /= chances.sum(axis=1, keepdims=True)
        self._chances = chances
        mean = chances @ self.values
        weight = chances[:, self.values != 0].sum(axis=1)
        return Posterior(mean, np.maximum(chances @ self.values**2 - mean**2, 0.0), weight)

    def learn(self, posterior: Posterior, phi2: float) -> None:
        if not self.learns:
            return
        shares = self._chances.mean(axis=0)
        if self.symmetric:
            shares = (shares + shares[::-1]) / 2
        shares = np.maximum(shares, _LEAST)
        self.shares = shares / shares.sum()
