"""Levenberg–Marquardt on squared lengths `y_i = ‖B_i x‖²` of a transform, by conjugate gradients: no matrix is formed.

With z = Bx a step d minimises `‖J d + r‖² + λ ‖Bd‖²`, to a share of the gradient that falls with the residual, so that
the last steps double the number of digits. Along the whole line x + u d the residual is `r + u J d + u² |Bd|²`: as in
`fastquad.numerics.levenberg_marquardt` the best u is exact, and a step takes no product to check it.
"""

from __future__ import annotations

import numpy as np

from fastquad.numerics import quartic
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


class TransformDescent:
    """A descent: x, z = Bx and the residual r, without the weights (m,) by which it may be multiplied."""

    def __init__(self, B: Transform, y: Float, x: Float, weights: Float | None = None) -> None:
        self.B, self.y, self.x, self.weights = B, y, x, weights
        self.z = B.forward(x)
        self.damping = _FIRST_DAMPING
        self.scale = float(np.sum(self._weighed(y) ** 2))
        self._set_residual()
        self.curve = [self.square]

    def _weighed(self, v: Float) -> Float:
        return v if self.weights is None else self.weights * v

    def _set_residual(self) -> None:
        self.r: Float = self.B.lengths(self.z) ** 2 - self.y
        self.square = float(np.sum(self._weighed(self.r) ** 2))

    @property
    def residual(self) -> float:
        """`‖r‖/‖y‖`, without weights."""
        return float(np.linalg.norm(self.r) / np.linalg.norm(self.y))

    @property
    def steepness(self) -> float:
        """`‖J^T r‖/(‖J‖ ‖r‖)`, the gradient relative to what it could be; J and r are without weights."""
        J = Jacobian(self.B, self.z)
        size = float(np.sqrt(J.typical() * self.B.eigenvalues.sum()) * np.linalg.norm(self.r))
        return float(np.linalg.norm(J.adjoint(self.r))) / size if size > 0 else 0.0

    def finished(self, rule: Rule) -> bool:
        """Whether another step is useless."""
        return finished(self.curve, self.scale, rule)

    def step(self) -> None:
        """One step to the best point of a line."""
        J = Jacobian(self.B, self.z, self.weights)
        r = self._weighed(self.r)
        left = float(np.sqrt(self.square / self.scale))
        tol, most = float(np.clip(left, _CLOSELY, _ROUGHLY)), _MAX_STEPS if left < _NEAR else _FEW_STEPS
        d = J.least_squares(-r, tol, most, damping=self.damping * J.typical())
        image = self.B.forward(d)
        p, q = J.of_image(image), self._weighed(self.B.lengths(image) ** 2)
        terms = quartic.coefficients(r, p, q)
        u, change, factor = best_on_line(terms, float(p.dot(p)))
        if change < 0:
            self.x = self.x + u * d
            # Far from the end, an image that is added up is as good as a new one.
            self.z = self.z + u * image if self.square > 1e-16 * self.scale else self.B.forward(self.x)
            self._set_residual()
        self.curve.append(self.square)
        self.damping *= factor
