"""Levenberg–Marquardt for many small nonlinear least-squares problems side by side.

Each of b problems asks for the z in R^k that minimises `f(z) = ‖r(z)‖² + Σ_j λ_j z_j²`. With the Jacobian J of r and
Λ = diag(λ), a step is

    d = −(H + μ diag(H))^{-1} (J^T r + Λ z),      H = J^T J + Λ,

for which the linear model predicts that f falls by `−2 d^T (J^T r + Λz) − d^T H d`. A step that lowers f is taken; μ
falls where the model was right and rises where it was not. Of r only ‖r‖², J^T r and J^T J are needed, so
whoever evaluates it chooses how, and in which precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastquad.typing import Float, Indices

_TINY = np.finfo(np.float64).tiny
_FIRST_DAMPING, _LEAST_DAMPING = 1e-2, 1e-12
# The least damping after a step that was too long: less would not change the next one.
_EFFECTIVE_DAMPING = 0.05
#: The damping beyond which a problem cannot be improved in its precision.
HOPELESS_DAMPING = 1e6


class Normal(NamedTuple):
    """`‖r‖²` (b,), `J^T r` (b, k) and `J^T J` (b, k, k) of b residuals at b points."""

    square: Float
    gradient: Float
    gram: Float


def normal(residual: Float, jacobian: Float) -> Normal:
    """The normal equations of residuals (b, m) and Jacobians (b, m, k)."""
    transposed = jacobian.transpose(0, 2, 1)
    square = np.einsum("bi,bi->b", residual, residual, dtype=np.float64)
    gradient = (transposed @ residual[:, :, None])[:, :, 0]
    return Normal(square, gradient.astype(np.float64), (transposed @ jacobian).astype(np.float64))


def concatenate(parts: list[Normal]) -> Normal:
    """The problems of several batches as one."""
    return Normal(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class Descents:
    """b descents side by side; the caller supplies the normal equations at the points that they propose."""

    def __init__(self, Z: Float, at: Normal, ridge: Float | float) -> None:
        self.Z = np.array(Z, dtype=np.float64)
        self.at = Normal(*(np.array(part, dtype=np.float64) for part in at))
        self.damping = np.full(len(self.Z), _FIRST_DAMPING)
        #: The decrease of f that the linear model predicted for the last step.
        self.predicted = np.full(len(self.Z), np.inf)
        self.set_ridge(ridge)

    def set_ridge(self, ridge: Float | float) -> None:
        """Change λ, to an array of shape (), (b, 1) or (b, k)."""
        self.ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), self.Z.shape)
        self.value = self._values(self.Z, self.at.square, self.ridge)

    def propose(self, which: Indices) -> Float:
        """The next points of these problems, (b', k); `predicted` is set."""
        Z, ridge = self.Z[which], self.ridge[which]
        diagonal = np.arange(Z.shape[1])
        model = self.at.gram[which]
        model[:, diagonal, diagonal] += ridge
        slope = self.at.gradient[which] + ridge * Z
        scale = model[:, diagonal, diagonal]
        # Keep the system regular where a coordinate has no effect, and so an empty row.
        scale = np.maximum(scale, 1e-12 * scale.max(axis=1, keepdims=True)) + _TINY
        damped = model.copy()
        damped[:, diagonal, diagonal] += self.damping[which, None] * scale
        step = -np.linalg.solve(damped, slope[:, :, None])[:, :, 0]
        curvature = np.einsum("bj,bjk,bk->b", step, model, step)
        self.predicted[which] = -2 * np.einsum("bk,bk->b", step, slope) - curvature
        return Z + step

    def receive(self, which: Indices, Z: Float, at: Normal) -> None:
        """Take the proposed points Z where f is lower there."""
        value = self._values(Z, at.square, self.ridge[which])
        gain = self.value[which] - value
        better = gain > 0
        taken = which[better]
        self.Z[taken], self.value[taken] = Z[better], value[better]
        for mine, new in zip(self.at, at, strict=True):
            mine[taken] = new[better]
        ratio = gain / np.maximum(self.predicted[which], _TINY)
        damping = self.damping[which]
        rejected = np.maximum(10 * damping, _EFFECTIVE_DAMPING)
        damping = np.select([ratio > 0.75, ratio > 0.25, better], [0.1 * damping, damping, 3 * damping], rejected)
        self.damping[which] = np.maximum(damping, _LEAST_DAMPING)

    @staticmethod
    def _values(Z: Float, square: Float, ridge: Float) -> Float:
        return square + np.einsum("bk,bk,bk->b", ridge, Z, Z)


def minimize(
    evaluate: Callable[[Float, Indices], Normal], Z: Float, *, ridge: Float | float, max_steps: int, tol: float
) -> Descents:
    """Levenberg–Marquardt from the rows of Z, until no f is predicted to fall by more than the share `tol`.

    `evaluate(Z', which)` gives the normal equations at the points Z' of the problems with the numbers `which`.
    """
    active = np.arange(len(Z))
    descents = Descents(Z, evaluate(Z, active), ridge)
    for _ in range(max_steps):
        trial = descents.propose(active)
        open_ = descents.predicted[active] > tol * descents.value[active]
        open_ &= descents.damping[active] < HOPELESS_DAMPING
        active, trial = active[open_], trial[open_]
        if not active.size:
            break
        descents.receive(active, trial, evaluate(trial, active))
    return descents
