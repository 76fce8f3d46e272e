"""Quadratic forms `z(x) = (x^T Ã_i x)_i` that are known by three functions: their values, and their Jacobian both ways.

    measure(x) = z(x),      along(x, v) = J(x) v = 2 (x^T Ã_i v)_i,      gradient(x, w) = J(x)^T w

in real coordinates. A step of Levenberg–Marquardt is a least-squares problem for conjugate gradients, and as J is
linear in x, the residual along a line x + u d is `r + u J(x) d + u² z(d)`: the best u is that of a quartic. The leading
vector of `Σ w_i Ã_i` is found by Lanczos steps, whose product with v is `gradient(v, w)/2`. No matrix is formed, and
memory is that of a few signals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastquad.numerics import krylov
from fastquad.typing import Float

# The least share of a decrease that rounding lets one see.
_NO_MORE = 1e-15


class Forms:
    """m quadratic forms of n real coordinates, and how many of their functions were called."""

    def __init__(
        self,
        m: int,
        n: int,
        measure: Callable[[Float], Float],
        along: Callable[[Float, Float], Float],
        gradient: Callable[[Float, Float], Float],
    ) -> None:
        self.m, self.n = m, n
        self._measure, self._along, self._gradient = measure, along, gradient
        #: Calls so far.
        self.calls = 0
        self._charged = 0

    def measure(self, x: Float) -> Float:
        """`z(x)`, (m,)."""
        self.calls += 1
        return self._measure(x)

    def along(self, x: Float, v: Float) -> Float:
        """`J(x) v`, (m,)."""
        self.calls += 1
        return self._along(x, v)

    def gradient(self, x: Float, w: Float) -> Float:
        """`J(x)^T w`, (n,)."""
        self.calls += 1
        return self._gradient(x, w)

    def uncharged(self) -> int:
        """The calls since this was last asked."""
        new, self._charged = self.calls - self._charged, self.calls
        return new

    def jacobian(self, x: Float, weights: Float | None = None) -> JacobianAt:
        """J at x, its rows times weights (m,) if there are any."""
        return JacobianAt(self, x, weights)

    def levelling(self, values: Float) -> Float:
        """The weights (m,) that bring the rows of J to one size: forms of any sign have none that are known."""
        return np.ones(self.m)

    #: The coordinates that no form depends on, as far as that is known, and a bound from below, in the norm of signals,
    #: of the norm in which `JacobianAt.least` measures them.
    dark = np.zeros(0, dtype=np.intp)
    shortest = 1.0

    def scaled(self, power: float, v: Float) -> Float:
        """v, scaled so that all directions are measured alike: here as it is."""
        return v

    def leading(self, weights: Float, rng: np.random.Generator) -> tuple[Float, Float]:
        """About the two leading eigenvectors of `Σ_i w_i Ã_i`, from a random start."""
        return krylov.leading_vectors(lambda v: self.gradient(v, weights) / 2, self.n, rng)

    def traces(self, rng: np.random.Generator, draws: int) -> tuple[Float, float]:
        """About the traces of the forms, the means of their values at random signs; and the least of these values."""
        values = [self.measure(2.0 * rng.integers(0, 2, self.n) - 1) for _ in range(draws)]
        return np.mean(values, axis=0), float(np.min(values))


class JacobianAt:
    """J at x, its rows times weights (m,) if there are any."""

    def __init__(self, forms: Forms, x: Float, weights: Float | None = None) -> None:
        self.forms, self.x, self.weights, self.shape = forms, x, weights, (forms.m, forms.n)

    def _weighed(self, u: Float) -> Float:
        return u if self.weights is None else self.weights * u

    def forward(self, d: Float) -> Float:
        """`J d`, (m,)."""
        return self._weighed(self.forms.along(self.x, d))

    def adjoint(self, u: Float) -> Float:
        """`J^T u`, (n,)."""
        return self.forms.gradient(self.x, self._weighed(u))

    def normal(self, d: Float) -> Float:
        """`J^T J d`."""
        return self.adjoint(self.forward(d))

    def typical(self, rng: np.random.Generator) -> float:
        """The mean eigenvalue of `J^T J`, from one random vector."""
        moved = self.forward(rng.standard_normal(self.forms.n))
        return float(moved @ moved) / self.forms.n

    def least_squares(
        self, target: Float, tol: float, max_steps: int, *, damping: float = 0.0, free: Float | None = None
    ) -> Float:
        """The d that minimises `‖J d − target‖² + damping ‖d‖²`, by conjugate gradients.

        With `free` (n,), of zeros and ones, the coordinates with a zero stay zero.
        They end where k more steps like the last two, the k-th, would lower it by less than a share tol² of what all
        have. A share of the gradient would say nothing where one measurement is far more precise than the others.
        """
        kept: Float | float = 1.0 if free is None else free
        d, r = np.zeros(self.forms.n), kept * self.adjoint(target)
        direction, square = r, float(r @ r)
        lowered, small = 0.0, 0
        for count in range(1, max_steps + 1):
            moved = self.forward(direction)
            curvature = float(moved @ moved) + damping * float(direction @ direction)
            if not (curvature > 0 and square > 0):
                break
            step = square / curvature
            d = d + step * direction
            lowered += step * square
            small = small + 1 if count * step * square <= max(tol**2, _NO_MORE) * lowered else 0
            if small == 2:
                break
            r = r - step * (kept * self.adjoint(moved) + damping * direction)
            before, square = square, float(r @ r)
            direction = r + square / before * direction
        return d

    def least(self, rng: np.random.Generator, without: list[Float], need: float) -> krylov.Least:
        """The least eigenvalue of `J^T J`, beside known null vectors of J; more than `need` is enough."""
        return krylov.least_eigenvalue(self.normal, self.forms.n, rng, without, need)
