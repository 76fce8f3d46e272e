"""Few coordinates of the signal are nonzero; and the operators that make an iterate sparse.

A shrinkage operator T_τ sets to zero what is at most τ in absolute value and moves the rest by at most τ:

    T_τ(a) = 0 where |a| <= τ,      |T_τ(a) − a| <= τ where |a| > τ.

Soft thresholding moves everything by τ towards zero, hard thresholding leaves what is larger as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fastquad import checks
from fastquad.measurements.base import Float
from fastquad.priors.base import Prior

Shrinkage = Callable[[Float, float], Float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sparse(Prior):
    """Few coordinates of the signal are nonzero.

    Nothing needs to be known of them: most methods learn how many there are.

    Parameters
    ----------
    k : int, optional
        How many are nonzero, for the methods that have to be told (SPF, SGN); the others do not use it.
    support : list of int, optional
        Where they are: the signal is zero elsewhere. Methods that cannot use it refuse it.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=80, n=30, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, prior=fq.Sparse(k=3), method="spf")
    >>> fq.distance(solution.x, problem.x) < 1e-6
    True
    """

    kind: ClassVar[str] = "sparse"

    k: int | None = None
    support: Any = None

    def __post_init__(self) -> None:
        if self.k is not None:
            checks.count(self.k, "k")
        if self.support is not None:
            object.__setattr__(self, "support", checks.indices(self.support, "support"))

    def check(self, n: int) -> None:
        """Raise ValueError where k or the support do not fit signals of length n."""
        if self.k is not None and self.k > n:
            raise ValueError(f"`k` must be at most n = {n}, got {self.k}.")
        if self.support is not None and np.max(self.support) >= n:
            raise ValueError(f"`support` must lie between 0 and {n - 1}, got {np.max(self.support)}.")


def soft(a: Float, tau: float) -> Float:
    """`sign(a) max(|a| − τ, 0)`."""
    # Clipping to [−τ, τ] is what soft thresholding takes away: one operation instead of three.
    return a - np.minimum(np.maximum(a, -tau), tau)


def hard(a: Float, tau: float) -> Float:
    """`a` where |a| > τ, 0 elsewhere."""
    return np.where(np.abs(a) > tau, a, 0.0)


SHRINKAGES: dict[str, Shrinkage] = {"soft": soft, "hard": hard}


def shrinkage(threshold: str | Shrinkage) -> Shrinkage:
    """The operator with this name, or the user's own function of (a, τ), whose results are checked."""
    if callable(threshold):
        return _checked(threshold)
    if not isinstance(threshold, str) or threshold not in SHRINKAGES:
        raise ValueError(f"`threshold` must be 'soft', 'hard' or a function of (a, tau), got {threshold!r}.")
    return SHRINKAGES[threshold]


def _checked(function: Shrinkage) -> Shrinkage:
    def checked(a: Float, tau: float) -> Float:
        # A copy, because the function may work in place or keep what it returns.
        result = np.array(function(a.copy(), tau), dtype=np.float64)
        if result.shape != a.shape or not np.isfinite(result).all():
            raise ValueError(f"`threshold` must return {a.size} finite numbers, got {result}.")
        return result

    return checked
