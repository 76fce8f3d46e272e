"""Levenberg–Marquardt by conjugate gradients: no matrix is formed.

A step d minimises `‖J d + r‖² + λ ‖d‖²`, to a share that falls with the residual, so that the last steps double the
number of digits. Along the whole line x + u d the residual is `r + u J d + u² q`: as in
`fastquad.numerics.levenberg_marquardt` the best u is exact, and a step takes no product to check it. For squared
lengths `y_i = ‖B_i x‖²` of a transform, the step is measured by ‖Bd‖, and with z = Bx it is q = |Bd|²; for quadratic
forms that are known by functions it is q = z(d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from fastquad.numerics import quartic
from fastquad.numerics.forms import Forms, JacobianAt
from fastquad.numerics.levenberg_marquardt import Rule, best_on_line, finished
from fastquad.numerics.transform import Jacobian, Transform
from fastquad.typing import Float

# The damping at the start, relative to a typical eigenvalue.
_FIRST_DAMPING = 2.5e-3
# The share of the gradient to which a step is solved for: at most, and at least.
_ROUGHLY, _CLOSELY = 0.1, 1e-8
# The largest number of steps of conjugate gradients for one of these: far from the end, and where it is near.
_FEW_STEPS, _MAX_STEPS = 60, 300
_NEAR = 1e-3
# The residual at which nothing but rounding is left, relative to y; and rounding itself.
_ROUNDED, _EPS = 1e-12, float(np.finfo(np.float64).eps)
# The share of the residual that a step lowers, at which a descent is at the bottom in noise: x then moves by a
# millionth of what the noise moves it. Where data are exact it is about 1.
_AT_BOTTOM = 1e-6


class LineDescent(ABC):
    """A descent: x and the residual r, without the weights (m,) by which it may be multiplied."""

    def __init__(self, y: Float, x: Float, weights: Float | None, rng: np.random.Generator | None = None) -> None:
        self.y, self.x, self.weights, self.rng = y, x, weights, rng
        self.damping = _FIRST_DAMPING
        self.scale = float(np.sum(self._weighed(y) ** 2))
        self._move(0.0, None)
        self.curve = [self.square]

    def _weighed(self, v: Float) -> Float:
        return v if self.weights is None else self.weights * v

    @abstractmethod
    def _values(self, u: float, of_step: Any) -> Float:
        """The values at the new x, u steps further, given what `_along` said of the step; None at the start."""

    @abstractmethod
    def _jacobian(self) -> Any:
        """J at x, with the weights."""

    @abstractmethod
    def _along(self, J: Any, d: Float) -> tuple[Float, Float, Any]:
        """J d, the second-order term q without the weights, and what `_values` wants of the step."""

    def _move(self, u: float, of_step: Any) -> None:
        self.r = self._values(u, of_step) - self.y
        self.square = float(np.sum(self._weighed(self.r) ** 2))

    @property
    def residual(self) -> float:
        """`‖r‖/‖y‖`, without weights."""
        return float(np.linalg.norm(self.r) / np.linalg.norm(self.y))

    def finished(self, rule: Rule) -> bool:
        """Whether another step is useless."""
        return finished(self.curve, self.scale, rule)

    def step(self) -> None:
        """One step to the best point of a line."""
        J, r = self._jacobian(), self._weighed(self.r)
        left = float(np.sqrt(self.square / self.scale))
        # What a step leaves is at least rounding.
        tol = float(np.clip(max(left, _EPS / max(left, _EPS)), _CLOSELY, _ROUGHLY))
        most = _MAX_STEPS if left < _NEAR else _FEW_STEPS
        d = J.least_squares(-r, tol, most, damping=self.damping * J.typical(self.rng))
        p, q, of_step = self._along(J, d)
        u, change, factor = best_on_line(quartic.coefficients(r, p, self._weighed(q)), float(p.dot(p)))
        if change < 0:
            self.x = self.x + u * d
            self._move(u, of_step)
        self.curve.append(self.square)
        self.damping *= factor


class TransformDescent(LineDescent):
    """A descent on squared lengths of a transform, with z = Bx.

    Without weights all rows are first brought to one size, which halves the steps of conjugate gradients. Exact data
    allow for that. Where a step no longer quarters ‖r‖², noise is left, and rows count as they are.
    """

    def __init__(self, B: Transform, y: Float, x: Float, weights: Float | None = None) -> None:
        self.B, self.z, self.levelled = B, B.forward(x), weights is None
        super().__init__(y, x, B.levelling(y) if weights is None else weights)

    def step(self) -> None:
        super().step()
        if self.levelled and self.curve[-1] > max(0.25 * self.curve[-2], _ROUNDED**2 * self.scale):
            self.levelled, self.weights = False, None
            self.scale, self.square = float(self.y @ self.y), float(self.r @ self.r)
            self.curve = [self.square]

    def _values(self, u: float, of_step: Any) -> Float:
        if of_step is not None:
            # Far from the end, an image that is added up is as good as a new one.
            self.z = self.z + u * of_step if self.square > 1e-16 * self.scale else self.B.forward(self.x)
        return self.B.lengths(self.z) ** 2

    def _jacobian(self) -> Jacobian:
        return Jacobian(self.B, self.z, self.weights)

    def _along(self, J: Jacobian, d: Float) -> tuple[Float, Float, Float]:
        image = self.B.forward(d)
        return J.of_image(image), self.B.lengths(image) ** 2, image

    @property
    def steepness(self) -> float:
        """`‖J^T r‖/(‖J‖ ‖r‖)`, the gradient relative to what it could be; J and r are without weights."""
        J = Jacobian(self.B, self.z)
        size = float(np.sqrt(J.typical() * self.B.eigenvalues.sum()) * np.linalg.norm(self.r))
        return float(np.linalg.norm(J.adjoint(self.r))) / size if size > 0 else 0.0


class FormDescent(LineDescent):
    """A descent on quadratic forms."""

    def __init__(
        self, forms: Forms, y: Float, x: Float, rng: np.random.Generator, weights: Float | None = None
    ) -> None:
        self.forms, self.steepness = forms, np.inf
        super().__init__(y, x, weights, rng)

    def _values(self, u: float, of_step: Any) -> Float:
        return self.forms.measure(self.x)

    def _jacobian(self) -> JacobianAt:
        return JacobianAt(self.forms, self.x, self.weights)

    def _along(self, J: JacobianAt, d: Float) -> tuple[Float, Float, None]:
        p = J.forward(d)
        # How much of the residual the Jacobian could lower: nothing at a bottom.
        self.steepness = float(np.linalg.norm(p)) / max(float(np.sqrt(self.square)), 1e-300)
        return p, self.forms.measure(d), None

    def finished(self, rule: Rule) -> bool:
        """Whether another step is useless: by the rule, or because J lowers next to nothing of the residual."""
        return self.steepness < _AT_BOTTOM or super().finished(rule)
